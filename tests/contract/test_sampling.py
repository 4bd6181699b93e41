"""Laws of sampling, with a real evaluator: what is chosen, how likely, and the books."""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest

from rag_eval_hooks import Metric, RagEval, RagEvalConfig, Sample, Score, Status
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks.findings import Findings, Rating, Verdict
from rag_eval_hooks.score import UNIT
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.lcel import plain
from tests.support.evaluation import FAITHFUL
from tests.support.otel import Spans
from tests.support.size import size
from tests.support.variation import Variation

CLAIMS = replace(FAITHFUL, answer_agreement=(Verdict(True),), correctness=Rating(4.0))
METRICS = ["ragas.faithfulness", "lexical"]
FAITH, WORDS = "ragas.faithfulness", "lexical.keyword_coverage"
RIGHT = "The quay opened in 1931."
WRONG = "Bananas are yellow."
Make = Callable[..., RagEval]


def quay(**fields: Any) -> Sample:
    values = {"question": "When did the quay open?", "contexts": ("c",), "answer": RIGHT}
    return Sample(**(values | {"reference": RIGHT} | fields))


@pytest.fixture
def make(shut_down_after: Callable[[RagEval], RagEval]) -> Make:
    def build(
        judge: Any = None, sinks: Any = (), metrics: Any = METRICS, **settings: Any
    ) -> RagEval:
        judge = judge or ScriptedJudge(CLAIMS)
        config = RagEvalConfig(**settings)
        return shut_down_after(RagEval(metrics, judge, sinks=sinks, config=config))

    return build


SUSPECT = {"metric": WORDS, "below": 0.5, "then": ["ragas"]}
RULES = [
    {"tags": ["beta"], "rate": 1.0, "name": "beta"},
    {"metadata": {"user_id": "u1"}, "rate": 1.0, "name": "user"},
    {"latency_above": 3.0, "rate": 1.0, "name": "slow"},
    {"error": "Timeout", "rate": 1.0},
]
DONT_KNOW = {"dont_know": True, "then": "ragas"}
TIMED_OUT = {"status": Status.ERROR, "error_type": "ReadTimeout"}


@pytest.mark.parametrize(
    ("settings", "offered"),
    [
        (
            {"rules": RULES},
            [
                ({"tags": ["beta"]}, "rule:beta"),
                ({"user_id": "u1"}, "rule:user"),
                ({"latency": 3.5}, "rule:slow"),
                (TIMED_OUT, "rule:4"),
                ({}, "sampled_out"),
                ({"status": Status.ERROR, "error_type": "KeyError"}, None),
            ],
        ),
        (
            {"tail": [SUSPECT, DONT_KNOW]},
            [
                ({"answer": WRONG}, f"tail:{WORDS}"),
                ({"answer": "I don't know.", "reference": None}, "tail:dont_know"),
                ({}, "sampled_out"),
            ],
        ),
        (
            {"tail": [SUSPECT], "rate_limit": {"minute": 2}},
            [({"answer": WRONG}, f"tail:{WORDS}"), ({}, "sampled_out")] * 3,
        ),
    ],
)
def test_each_request_is_decided_by_its_rule(
    settings: dict[str, Any], offered: list[tuple[dict[str, Any], str | None]], make: Make
) -> None:
    memory = MemorySink()
    evals = make(None, [memory], **({"sample_rate": 0.0} | settings))
    for fields, _ in offered:
        evals.submit(quay(**fields))
    evals.flush(300)
    stats, limited = evals.stats(), "rate_limit" in settings
    reasons = Counter(reason for _, reason in offered if reason is not None)
    chosen = [reason for _, reason in offered if reason not in (None, "sampled_out")]
    beyond = len(chosen[2:]) if limited else 0
    assert stats.decisions == reasons | ({"rate_limit": beyond} if beyond else {})
    assert stats.dropped.get("rate_limit", 0) == beyond
    assert sorted(r.reason for r in memory.results) == sorted(chosen[:2] if limited else chosen)
    for result in memory.results:
        outcome = result.outcomes[FAITH]
        assert (outcome.probability, outcome.probability_estimated) == (1.0, limited)
        assert result.sample.answer is None or result.sample.status is Status.OK


@pytest.mark.parametrize("tail", [[], [SUSPECT]])
def test_a_full_queue_enters_the_probability(make: Make, tail: list[Any]) -> None:
    gate, memory = threading.Event(), MemorySink()

    def hold(sample: Sample) -> float:
        gate.wait(120)
        return 1.0

    evals = make(None, [memory], metrics=[hold], queue_size=10, judge_concurrency=1, tail=tail)
    offered = random.Random(3).randint(50, 80)
    first = sum(evals.submit(quay()) for _ in range(offered))
    assert first < 12
    gate.set()
    evals.flush(300)
    for _ in range(100):
        assert evals.submit(quay())
        evals.flush(300)
    outcomes = [next(iter(one.outcomes.values())) for one in memory.results]
    weights = [1.0 / outcome.probability for outcome in outcomes if outcome.probability]
    assert len(weights) == first + 100
    assert sum(weights) == pytest.approx(offered + 100, rel=0.01)
    estimated = [outcome.probability_estimated for outcome in outcomes]
    assert not estimated[0]
    assert estimated[first]
    assert not estimated[-1]


def _value(sample: Sample, _findings: Findings) -> Score:
    return UNIT.score(sample.metadata["value"])


def _stream(seed: int) -> Iterator[Sample]:
    draw = random.Random(seed)
    for _ in range(150):
        beta, latency = draw.random() < 0.2, draw.random() * 5
        value = 0.2 + 0.4 * draw.random() + (0.4 if beta else 0.0) - 0.03 * latency
        told = {"tags": ("beta",) * beta, "latency": latency, "metadata": {"value": value}}
        yield quay(**told)


def test_weighted_means_are_unbiased() -> None:
    metrics = [
        Metric(id="my.cheap", score=_value, needs=frozenset()),
        Metric(id="my.costly", score=_value, needs=frozenset()),
    ]
    config = RagEvalConfig(
        sample_rate=0.2,
        metric_rates={"my.costly": 0.25},
        rules=[
            {"tags": ["beta"], "metrics": ["my.costly"], "rate": 0.6},
            {"latency_above": 4.0, "rate": 0.2},
        ],
        tail=[{"metric": "my.cheap", "below": 0.25, "then": ["my.costly"]}],
        queue_size=10_000,
    )
    stream = list(_stream(3))
    truth = sum(one.metadata["value"] for one in stream) / len(stream)
    weighted, plain = [], []
    memory = MemorySink()
    with RagEval(metrics, ScriptedJudge(), sinks=[memory], config=config) as evals:
        for repeat in range(size(12, 60)):
            memory.results.clear()
            for number, one in enumerate(stream):
                evals.submit(replace(one, sample_id=f"{repeat} {number}"))
            assert evals.flush(300)
            outcomes = [result.outcomes["my.costly"] for result in memory.results]
            scores = [outcome for outcome in outcomes if isinstance(outcome, Score)]
            weighted.append(sum(s.value / (s.probability or 0) for s in scores) / len(stream))
            plain.append(fmean(score.value for score in scores))
    error = stdev(weighted) / len(weighted) ** 0.5
    assert abs(fmean(weighted) - truth) < 4 * error
    assert abs(fmean(plain) - truth) > 3 * error


# Requests that are sampled out when they start.


MANY = 60


class World:
    def __init__(self, **settings: Any) -> None:
        self.spans = Spans()
        self.evals = RagEval(sinks=[], tracer_provider=self.spans.provider, **settings)
        self.handler = RagEvalCallbackHandler(self.evals)

    def ask(self, question: str, **config: Any) -> None:
        told: Any = {"callbacks": [self.handler], **config}
        plain().invoke(question, told)

    def roots(self) -> int:
        return sum(span.parent is None for span in self.spans.all())

    def stats(self) -> Any:
        assert self.evals.flush(60)
        assert not self.evals.recorder._runs
        assert not self.evals.recorder.left_out
        return self.evals.stats()


@pytest.mark.parametrize(("spans", "rate"), [("sampled", 0.5), ("sampled", 0.0), ("none", 0.5)])
def test_requests_sampled_out_at_start_are_counted_and_write_no_span(
    spans: str, rate: float
) -> None:
    drawn = Variation(1)
    world = World(sample_rate=rate, spans=spans)
    for number in range(MANY):
        world.ask(f"{drawn.question()} {number}")
    stats = world.stats()
    assert stats.offered == MANY
    assert stats.sampled_out + stats.scored == MANY
    assert world.roots() == (stats.scored if spans == "sampled" else 0)
    world.evals.shutdown()


def test_requests_of_a_conversation_are_sampled_alike() -> None:
    world = World(sample_rate=0.5, spans="none")
    scored = []
    for _ in range(12):
        before = world.stats().scored
        thread = str(uuid.uuid4())
        for number in range(3):
            world.ask(f"question {number}", metadata={"thread_id": thread})
        scored.append(world.stats().scored - before)
    assert set(scored) == {0, 3}
    world.evals.shutdown()


@pytest.mark.parametrize(
    "settings",
    [
        {"spans": "auto"},
        {"spans": "none", "rules": [{"question": "a", "rate": 1.0}]},
        {"spans": "none", "tail": [{"dont_know": True, "then": ["all"], "rate": 1.0}]},
    ],
)
def test_rules_that_need_the_end_are_decided_at_the_end(settings: dict[str, Any]) -> None:
    world = World(sample_rate=0.0, **settings)
    key = world.evals.recorder.key_of(1, RunKind.CHAIN, None, {"thread_id": "t"})
    assert key is None
    world.ask("A question")
    assert world.stats().offered == 1
    world.evals.shutdown()
