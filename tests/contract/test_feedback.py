"""Feedback joins its answer, however the evaluation of that ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.findings import Findings, Support, Verdict
from rag_eval_hooks.memory import Memory
from rag_eval_hooks.request import Ending, Request
from rag_eval_hooks.runtime import intake
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import sample
from tests.support.limits import small_limits
from tests.support.otel import Metrics, Spans
from tests.waiting import PATIENCE, until

CLAIMS = Findings(
    answer_claims=("a",),
    answer_support=(Support((True,)),),
    reference_claims=("r",),
    reference_support=(Support((True,)),),
    answer_agreement=(Verdict(True),),
)
METRICS = ["ragas.faithfulness", "ragas.context_recall", "lexical.exact_match"]
DOWN = {"thumbs_down": True, "then": ["ragas"]}
Make = Callable[..., RagEval]
FAITH, RECALL, MATCH = METRICS
OBJECTS = ("tracer_provider", "meter_provider", "logger_provider", "redact")
IDS = {"trace_id": "ab" * 16, "span_id": "cd" * 8}


@pytest.fixture
def make(shut_down_after: Callable[[RagEval], RagEval]) -> Make:
    def build(judge: Any = None, sinks: Any = (), **settings: Any) -> RagEval:
        providers = {key: settings.pop(key) for key in [*settings] if key in OBJECTS}
        with small_limits(settings):
            config = RagEvalConfig(**settings)
            judge = judge or ScriptedJudge(CLAIMS)
            evals = RagEval(METRICS, judge, sinks=sinks, config=config, **providers)
        return shut_down_after(evals)

    return build


WORKER = """
import sys
from rag_eval_hooks import RagEval, Sample

class Kept:
    def deliver(self, evaluation): ...
    def feedback(self, feedback):
        print(feedback.sample_id, feedback.label, flush=True)
    def close(self): ...

number = sys.argv[1]
sample = {"question": "q", "answer": "a", "contexts": ["a"], "sample_id": f"sample-{number}"}
with RagEval("lexical", spool=sys.argv[2], sinks=[Kept()]) as evals:
    evals.submit(sample)
    evals.flush()
    print("ready", flush=True)
    for line in sys.stdin:
        evals.feedback(line.strip(), label=f"by {number}")
    evals.flush()
"""


def test_feedback_finds_the_worker_that_has_its_request(tmp_path: Path) -> None:
    numbers = range(2)
    workers = [
        subprocess.Popen(
            (sys.executable, "-c", WORKER, str(number), str(tmp_path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in numbers
    ]
    told: list[list[str]] = [[] for _ in workers]
    readers = [
        threading.Thread(target=lambda one=one, lines=lines: lines.extend(one.stdout), daemon=True)
        for one, lines in zip(workers, told, strict=True)
    ]
    for reader in readers:
        reader.start()
    until(lambda: all("ready\n" in lines for lines in told))
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("".join(f"sample-{number}\n" for number in numbers))
        worker.stdin.flush()
    until(lambda: sum(map(len, told)) >= 6)
    for worker in workers:
        worker.communicate(timeout=PATIENCE)
    for number, lines in zip(numbers, told, strict=True):
        expected = [f"sample-{number} by {other}\n" for other in numbers]
        assert sorted(lines) == ["ready\n", *expected]


ALL_DOWN = {"thumbs_down": True, "then": ["all"]}
BAD: dict[str, Any] = {"score": 0}
RIGHT: dict[str, Any] = {"reference": "right"}


@pytest.mark.parametrize(
    ("settings", "given", "added", "drawn"),
    [
        ({"sample_rate": 0.0, "tail": [DOWN]}, [{"score": 1}], [], []),
        ({"sample_rate": 0.0, "tail": [DOWN]}, [BAD], [{FAITH, RECALL}], [("thumbs_down", None)]),
        ({}, [RIGHT, {"reference": "other"}], [{RECALL, MATCH}], [("reference", 1.0)]),
        ({"tail": [ALL_DOWN]}, [BAD, RIGHT], [{RECALL, MATCH}], [("reference", 1.0)]),
        (
            {"tail": [ALL_DOWN], "metric_rates": {RECALL: 0.0}},
            [RIGHT, BAD],
            [{MATCH}, {RECALL}],
            [("reference", 1.0), ("thumbs_down", None)],
        ),
        ({"tail": [DOWN], "rate_limit": {"minute": 1}}, [RIGHT], [], []),
    ],
)
def test_feedback_evaluates_the_metrics_that_it_adds(
    settings: dict[str, Any],
    given: list[dict[str, Any]],
    added: list[set[str]],
    drawn: list[tuple[str, float | None]],
    make: Make,
) -> None:
    memory = MemorySink()
    evals = make(sinks=[memory], **settings)
    evals.submit(one := sample(answer="Right"))
    evals.flush(300)
    before = len(memory.results)
    for feedback in given:
        assert evals.feedback(one.sample_id, **feedback)
        evals.flush(300)
    assert [set(result.outcomes) for result in memory.results[before:]] == added
    for result, why in zip(memory.results[before:], drawn, strict=True):
        for outcome in result.outcomes.values():
            assert (outcome.reason.removeprefix("feedback:"), outcome.probability) == why
        assert result.sample.reference == ("right" if RIGHT in given else None)
    assert len(memory.feedbacks) == len(given)


def test_feedback_and_its_evaluation_are_told_on_the_trace(make: Make) -> None:
    spans, metrics, exporter = Spans(), Metrics(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    loggers = LoggerProvider()
    loggers.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    evals = make(
        tail=[DOWN],
        metric_rates={FAITH: 0.0},
        tracer_provider=spans.provider,
        meter_provider=metrics.provider,
        logger_provider=loggers,
    )
    evals.submit(sample(**IDS))
    assert evals.feedback("ab" * 16, score=0.0, label="thumbs_down", reference="secret")
    assert evals.flush(300)
    assert not any("secret" in one.to_json() for one in spans.all())
    told = spans.one("evaluation user_feedback")
    (late,) = (one for one in spans.all() if FAITH in dict(one.attributes or {}).values())
    for span in (told, late):
        (link,) = span.links
        assert f"{link.context.trace_id:032x}" == "ab" * 16
    assert dict(told.attributes or {})["evaluations.0.evaluation.label"] == "thumbs_down"
    recorded = metrics.by("rag.eval.score", "evaluation.name")
    assert MATCH in recorded
    assert FAITH not in recorded
    events = [data.log_record for data in exporter.get_finished_logs()]
    (event,) = (one for one in events if "user_feedback" in dict(one.attributes or {}).values())
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (int("ab" * 16, 16), int("cd" * 8, 16))
    assert dict(event.attributes or {}) == {
        "gen_ai.evaluation.name": "user_feedback",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "thumbs_down",
    }


entries = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 60),
        st.floats(0, 4),
        st.sampled_from(["leave", "update", "strip"]),
    ),
    max_size=50,
)


def ended(name: str, size: int = 0) -> Request:
    return Request(
        key=name, ids=(name,), build=sample, size=size, ending=Ending.dropped("rate_limit")
    )


@given(entries, st.integers(0, 5), st.integers(1, 100))
def test_memory_is_bounded(
    entries: list[tuple[int, int, float, str]], size: int, chars: int
) -> None:
    now = [0.0]
    added: dict[str, tuple[Request, float]] = {}
    with (
        small_limits({"FEEDBACK_SAMPLES": size, "FEEDBACK_CHARS": chars, "FEEDBACK_SECONDS": 5.0}),
        mock.patch("rag_eval_hooks.memory.time", mock.Mock(monotonic=lambda: now[0])),
    ):
        memory = Memory()
        for name, length, wait, then in entries:
            now[0] += wait
            request = ended(str(name), length)
            memory.add(request)
            added[str(name)] = (request, now[0])
            if then == "update":
                memory.update(request, Sample(question="x" * (2 * length), sample_id=f"s{name}"))
                added[f"s{name}"] = (request, now[0])
            elif then == "strip":
                memory.strip(request)
                assert not memory.keeps_text(request)
            assert len(memory) <= size
            assert 0 <= memory.chars <= chars
        for key, (request, since) in added.items():
            found = memory.find(key)
            assert found in (request, None)
            assert found is None or now[0] < since + 5.0
        now[0] += 6
        assert [memory.find(key) for key in added] == [None] * len(added)
        assert (len(memory), memory.chars) == (0, 0)


def test_feedback_does_not_wait_for_a_rule_that_hangs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Feedback waits longer for the reading of a request than for a rule.
    monkeypatch.setattr(intake, "_READING_S", 3600.0)
    started, go_on = threading.Event(), threading.Event()

    class Slow:
        def __str__(self) -> str:
            started.set()
            assert go_on.wait(600)
            return "slow"

    evals = make(rules=[{"metadata": {"tier": "slow"}, "rate": 1.0}])
    assert evals.submit(sample(trace_id="ab" * 16, span_id="cd" * 8))
    evals.flush()
    with evals.interaction("When?", metadata={"tier": Slow()}) as it:
        it.contexts(["At noon."])
        it.answer("At noon.")
    assert started.wait(PATIENCE)
    joined: list[bool] = []
    # A second of waiting each would be five minutes.
    calls = threading.Thread(
        target=lambda: joined.extend(evals.feedback("ab" * 16, score=0.0) for _ in range(300)),
        daemon=True,
    )
    calls.start()
    try:
        until(lambda: not calls.is_alive())
    finally:
        go_on.set()
    assert joined.count(True) == 300
