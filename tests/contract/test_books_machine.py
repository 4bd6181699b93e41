"""Law 2 as a state machine: offered = scored + sampled out + dropped + failed + pending."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rag_eval_hooks import JudgeError, RagEval, RagEvalConfig, Sample, Status
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge
from tests.support.evaluation import FAITHFUL, record_request, sample, total
from tests.support.size import size
from tests.waiting import PATIENCE


class Judge(ScriptedJudge):
    """Fails or hangs by the question, and forgets to answer while it is stuck."""

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


class Requests(RuleBasedStateMachine):
    """Requests of all kinds, in any order, with any settings."""

    evals: RagEval | None = None

    @initialize(
        rate=st.sampled_from([0.0, 0.5, 1.0]),
        limit=st.sampled_from([None, 3]),
        tail=st.booleans(),
        queue=st.integers(1, 6),
    )
    def start(self, rate: float, limit: int | None, tail: bool, queue: int) -> None:
        self.judge, self.memory = Judge(), MemorySink()
        config = RagEvalConfig(
            sample_rate=rate,
            rate_limit={"minute": limit} if limit else {},
            tail=[{"thumbs_down": True, "then": "all"}] if tail else (),
            queue_size=queue,
            judge_concurrency=2,
        )
        self.evals = RagEval(["ragas.faithfulness"], self.judge, sinks=[self.memory], config=config)
        self.submitted = self.joined = 0
        self.is_shut_down = False
        self.ids: list[str] = []

    def _evals(self) -> RagEval:
        assert self.evals is not None
        return self.evals

    @rule(
        question=st.sampled_from(["easy", "hard", "wrong"]),
        status=st.sampled_from([Status.OK, Status.OK, *Status]),
        count=st.integers(1, 5),
    )
    def submit(self, question: str, status: Status, count: int) -> None:
        for _ in range(count):
            one = sample(question=question, status=status)
            accepted = self._evals().offer(one)
            assert not (accepted and self.is_shut_down)
            self.ids.append(one.sample_id)
        self.submitted += count

    @rule(given=st.sampled_from([None, 5, {}, {"question": 3}, {"answer": "a"}]))
    def submit_what_cannot_be_read(self, given: Any) -> None:
        assert not self._evals().offer(given)
        self.submitted += 1

    @rule()
    def capture(self) -> None:
        record_request(self._evals(), f"request {self.submitted}")
        self.submitted += 1

    @rule(score=st.sampled_from([0.0, 1.0]), data=st.data())
    @precondition(lambda self: bool(self.ids))
    def give_feedback(self, score: float, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.ids))
        self.joined += self._evals().feedback(name, score=score)

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

    @invariant()
    def the_books_add_up(self) -> None:
        if self.evals is None:
            return
        stats = self.evals.stats()
        assert stats.offered == total(stats)
        # An evaluation that a feedback asks for is offered once more.
        assert self.submitted <= stats.offered <= self.submitted + self.joined

    def teardown(self) -> None:
        if self.evals is not None:
            self.judge.goes_on.set()
            self.evals.shutdown(0.0)


def _in_child(evals: RagEval, is_shut_down: bool) -> int:
    """Use the evaluator in a forked child; return 0 if its own books add up."""
    try:
        before = evals.stats()
        accepted = evals.offer(sample())
        finished = evals.flush(PATIENCE)
        stats = evals.stats()
        fine = before.offered == 0 and stats.offered == total(stats) == 1
        return int(
            not (fine and finished and stats.pending == 0 and accepted <= (not is_shut_down))
        )
    except BaseException:  # noqa: BLE001 - the child must end here
        return 2


TestRequests = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")(Requests.TestCase)
TestRequests.settings = settings(
    max_examples=size(25, 150),
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
