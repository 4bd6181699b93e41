"""Requests that are sampled out when they start: counted, alike, and without a trace of ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from opentelemetry.context import get_current

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import RunKind
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain.lcel import plain
from tests.support.otel import Spans
from tests.support.variation import Variation

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
    otel = get_current()
    key = world.evals.recorder.left_out.key_of(1, RunKind.CHAIN, otel, {"thread_id": "t"})
    assert key is None
    world.ask("A question")
    assert world.stats().offered == 1
    world.evals.shutdown()
