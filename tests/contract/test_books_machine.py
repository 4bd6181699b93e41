"""Law 2 as a state machine: each offered request has exactly one outcome, or is pending."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rag_eval_hooks import JudgeError, RagEval, RagEvalConfig, Sample, Status
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import FAITHFUL, record_request, sample, total
from tests.support.size import size
from tests.waiting import PATIENCE

COLUMNS = {"scored", "sampled_out", "dropped", "failed", "pending"}
FEEDBACK = [{"score": 0.0}, {"score": 1.0}, {"label": "thumbs_down"}, {"reference": "a"}]


class Judge(ScriptedJudge):
    def __init__(self) -> None:
        super().__init__(FAITHFUL)
        self.goes_on = threading.Event()
        self.goes_on.set()

    async def make(self, sample: Sample, *call: Any) -> Findings:
        while sample.question == "hard" and not self.goes_on.is_set():
            await asyncio.sleep(0.005)
        if sample.question == "wrong":
            raise JudgeError("no reply")
        return await super().make(sample, *call)


SETTINGS: dict[str, st.SearchStrategy[Any]] = {
    "rate": st.sampled_from([0.0, 0.5, 1.0]),
    "limit": st.sampled_from([None, 3]),
    "timeout": st.sampled_from([0.05, 60.0]),
    "queue": st.integers(1, 6),
    **dict.fromkeys(("feedback_rule", "sample_rule", "references", "spool"), st.booleans()),
}


class Requests(RuleBasedStateMachine):
    evals: RagEval | None = None

    @initialize(drawn=st.fixed_dictionaries(SETTINGS))
    def start(self, drawn: dict[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        golden = self.folder / "golden.jsonl"
        golden.write_text('{"question": "easy", "reference": "a"}\n')
        rules = [{"thumbs_down": True, "then": "all"}] * drawn["feedback_rule"]
        rules += [{"dont_know": True, "then": "ragas"}] * drawn["sample_rule"]
        self.judge, self.spool = Judge(), drawn["spool"]
        self.config = RagEvalConfig(
            sample_rate=drawn["rate"],
            rate_limit={"minute": drawn["limit"]} if drawn["limit"] else {},
            tail=rules,
            references=str(golden) if drawn["references"] else None,
            spool=str(self.folder / "spool") if drawn["spool"] else None,
            sample_timeout=drawn["timeout"],
            queue_size=drawn["queue"],
            judge_concurrency=2,
        )
        self.restarts = 0
        self.ids: list[str] = []
        self._start()

    def _start(self) -> None:
        self.memory = MemorySink()
        metrics = ["ragas.faithfulness", "lexical.exact_match"]
        self.evals = RagEval(metrics, self.judge, sinks=[self.memory], config=self.config)
        self.submitted = self.joined = 0
        self.not_ok: Counter[str] = Counter()
        self.is_shut_down = False

    def _evals(self) -> RagEval:
        assert self.evals is not None
        return self.evals

    @rule(
        question=st.sampled_from(["easy", "hard", "wrong"]),
        answer=st.sampled_from(["a", "I don't know.", None]),
        status=st.sampled_from([Status.OK, Status.OK, *Status]),
        trace_id=st.sampled_from([None, "ab" * 16]),
        count=st.integers(1, 5),
    )
    def submit(
        self, question: str, answer: str | None, status: Status, trace_id: str | None, count: int
    ) -> None:
        for _ in range(count):
            one = sample(question=question, answer=answer, status=status, trace_id=trace_id)
            accepted = self._evals().submit(one)
            assert not (accepted and (self.is_shut_down or status is not Status.OK))
            self.ids.append(one.sample_id)
        self.submitted += count
        if status is not Status.OK:
            self.not_ok[status.value] += count

    @rule(count=st.integers(2, 6))
    def submit_from_threads(self, count: int) -> None:
        evals = self._evals()
        threads = [
            threading.Thread(target=lambda: [evals.submit(sample()) for _ in range(5)])
            for _ in range(count)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.submitted += 5 * count

    @rule(given=st.sampled_from([None, 5, {}, {"question": 3}, {"answer": "a"}]))
    def submit_what_cannot_be_read(self, given: Any) -> None:
        assert not self._evals().submit(given)
        self.submitted += 1

    @rule()
    def capture(self) -> None:
        record_request(self._evals(), f"request {self.submitted}")
        self.submitted += 1

    @rule()
    def capture_what_fails(self) -> None:
        with suppress(KeyError), self._evals().interaction("easy") as it:
            it.contexts(["c"])
            raise KeyError
        self.submitted += 1
        self.not_ok["error"] += 1

    @rule()
    @precondition(lambda self: not self.is_shut_down)
    def evaluate_inline(self) -> None:
        assert len(self._evals().evaluate(sample())) == 2

    @rule(given=st.sampled_from(FEEDBACK), data=st.data())
    @precondition(lambda self: bool(self.ids))
    def give_feedback(self, given: dict[str, Any], data: st.DataObject) -> None:
        self._give(data.draw(st.sampled_from(self.ids)), **given)

    @rule(name=st.sampled_from(["unknown", "", None]), score=st.sampled_from([1, "x", None]))
    def give_feedback_on_an_unknown_id(self, name: Any, score: Any) -> None:
        self._give(name, score=score)

    def _give(self, name: Any, **given: Any) -> None:
        before = Counter(self._evals().stats().feedback)
        is_on_its_way = self._evals().feedback(name, **given)
        ((outcome, _),) = (Counter(self._evals().stats().feedback) - before).items()
        assert is_on_its_way == (outcome in ("joined", "alone", "passed_on"))
        assert outcome != "passed_on" or self.spool
        self.joined += outcome in ("joined", "alone")

    @rule(data=st.data())
    @precondition(lambda self: bool(self.ids))
    def explain(self, data: st.DataObject) -> None:
        found = self._evals().explain(data.draw(st.sampled_from(self.ids)))
        assert {one.outcome for one in found} <= COLUMNS

    @rule()
    def let_the_judge_hang(self) -> None:
        self.judge.goes_on.clear()

    @rule()
    def let_the_judge_go_on(self) -> None:
        self.judge.goes_on.set()

    @rule()
    def flush(self) -> None:
        self.judge.goes_on.set()
        assert self._evals().flush(PATIENCE)
        if self.restarts and self.spool:
            # An earlier process has left samples, which may come back at any moment.
            return
        stats = self._evals().stats()
        assert stats.pending == 0
        assert len(self.memory.results) == stats.scored + sum(stats.failed.values())
        if not self.is_shut_down:
            assert len(self.memory.feedbacks) == self.joined

    @rule()
    @precondition(lambda self: hasattr(os, "fork"))
    def fork(self) -> None:
        child = os.fork()
        if child == 0:
            os._exit(_in_child(self._evals(), self.is_shut_down))
        assert os.waitpid(child, 0)[1] == 0

    @rule()
    @precondition(lambda self: not self.is_shut_down)
    def shut_down(self) -> None:
        self._evals().shutdown(0.0)
        self.is_shut_down = True
        assert self._evals().stats().pending == 0

    @rule()
    @precondition(lambda self: self.is_shut_down)
    def restart(self) -> None:
        self.restarts += 1
        self._start()

    @invariant()
    def the_books_add_up(self) -> None:
        if self.evals is None:
            return
        stats = self.evals.stats()
        assert stats.offered == total(stats)
        # An evaluation that a feedback asks for is offered once more.
        most = self.submitted + self.joined + self.evals.stats().recovered
        assert self.submitted <= stats.offered <= most
        for status, count in self.not_ok.items():
            assert stats.dropped[status] == count
        assert sum(stats.feedback.get(name, 0) for name in ("joined", "alone")) == self.joined

    def teardown(self) -> None:
        if self.evals is not None:
            self.judge.goes_on.set()
            self.evals.shutdown(0.0)
            shutil.rmtree(self.folder, ignore_errors=True)


def _in_child(evals: RagEval, is_shut_down: bool) -> int:
    try:
        before = evals.stats()
        accepted = evals.submit(sample())
        finished = evals.flush(PATIENCE)
        stats = evals.stats()
        # The child may recover samples that an earlier process left in the spool.
        fine = before.offered == before.recovered and accepted <= (not is_shut_down)
        fine = fine and stats.offered == total(stats) == 1 + stats.recovered
        return int(not (fine and finished and (stats.pending == 0 or stats.recovered)))
    except BaseException:  # noqa: BLE001 - the child must end here
        return 2


TestRequests = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")(Requests.TestCase)
TestRequests.settings = settings(
    max_examples=size(6, 150),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
