"""Behaviours of LlamaIndex that its users and other handlers rely on, without and with capture.

Its archives carry no tests, so the behaviours are written down here.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import Metric, RagEval, Sample, Score
from rag_eval_hooks_llama_index import enable
from tests.conformance.llama_index.agents_and_workflows import AGENTS, WORKFLOWS
from tests.conformance.llama_index.pipelines import DISPATCHER, ENGINES, Drawn
from tests.conformance.llama_index.third_party import Observed, listening, numbered, plain
from tests.support.size import size
from tests.support.variation import seeds

BEHAVIOURS = (*DISPATCHER, *ENGINES, *WORKFLOWS, *AGENTS)
Behaviour = Callable[[Drawn], Any]


def observed(
    behaviour: Behaviour,
    seed: int,
    capture: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> Observed:
    """Return what others see of a behaviour, and its user gets; capture begins after theirs."""
    drawn = Drawn(seed)
    with listening() as seen, capture():
        # Sync calls run async code in the thread's loop.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        seen.result = numbered(repr(plain(behaviour(drawn))))
        asyncio.set_event_loop(None)
        loop.close()
    return seen


def constant(_sample: Sample, _findings: object) -> Score:
    return Score(value=1.0, normalised=1.0)


@contextmanager
def captured() -> Iterator[RagEval]:
    """Capture every request of LlamaIndex; at the end nothing failed, and each is settled."""
    metric = Metric(id="conformance.constant", score=constant, needs=frozenset())
    evals = RagEval(metrics=[metric], tracer_provider=TracerProvider(), capture_content=True)
    registration = enable(evals)
    try:
        yield evals
    finally:
        registration.disable()
        evals.flush(300)
        evals.shutdown()
    stats = evals.stats()
    assert stats.incidents == {}
    assert stats.offered == stats.scored + sum(stats.dropped.values()) + sum(stats.failed.values())


@pytest.mark.parametrize("seed", seeds(size(1, 2)))
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_others_see_the_same(behaviour: Behaviour, seed: int) -> None:
    """Results and a third handler's events are those without capture, before ours and after."""
    alone = observed(behaviour, seed)
    with captured():
        assert observed(behaviour, seed) == alone
    assert observed(behaviour, seed, captured) == alone


@pytest.mark.parametrize("seed", seeds(size(1, 2)))
def test_others_see_the_same_of_all_in_one_process(seed: int) -> None:
    """One capture of all behaviours in any order changes none of them, and settles each request."""
    order = random.Random(seed).sample(BEHAVIOURS, len(BEHAVIOURS))
    alone = {behaviour.__name__: observed(behaviour, seed) for behaviour in order}
    with captured() as evals:
        assert {behaviour.__name__: observed(behaviour, seed) for behaviour in order} == alone
    assert evals.stats().scored > len(BEHAVIOURS)
