"""Behaviours of LlamaIndex that its users and other handlers rely on, without and with capture.

Its archives carry no tests, so the behaviours are written down here.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import Metric, RagEval, Sample, Score
from rag_eval_hooks_llama_index import enable
from tests.conformance.llama_index.pipelines import BEHAVIOURS, Drawn
from tests.conformance.llama_index.third_party import Observed, listening, numbered, plain
from tests.matrix.llama_index import SHAPES
from tests.matrix.shape import Shape
from tests.matrix.world import World
from tests.support.size import FULL, size
from tests.support.variation import run_seed, seeds


def of_behaviour(behaviour: Callable[[Drawn], Any], seed: int) -> Any:
    return behaviour(Drawn(seed))


def of_shape(shape: Shape, seed: int) -> None:
    """Run a shape of the matrix in one of its ways, in a world that captures nothing."""
    world = World(captures=False)
    try:
        shape.run(world, shape.ways[seed % len(shape.ways)])
    finally:
        world.close()


SEEDED: dict[str, Callable[[int], Any]] = {
    **{one.__name__: functools.partial(of_behaviour, one) for one in BEHAVIOURS},
    **{
        f"{shape.group}, {shape.name}": functools.partial(of_shape, shape)
        for shape in SHAPES
        if shape.missing is None
    },
}
"""Behaviours by name: functions of a seed that return what their user gets."""


def observed(
    name: str, seed: int, capture: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Observed:
    """Return what others see of a behaviour, and its user gets; capture begins after theirs."""
    with listening() as seen, capture():
        # Sync calls run async code in the thread's loop.
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        # Generators that are left half-way leave their span in the context.
        seen.result = numbered(repr(plain(copy_context().run(SEEDED[name], seed))))
        asyncio.set_event_loop(None)
        loop.close()
    return seen


@functools.cache
def alone(name: str, seed: int) -> Observed:
    """Return what others see without capture, once all that is made once has been made."""
    observed(name, seed)
    return observed(name, seed)


def differences(one: Observed, other: Observed) -> list[str]:
    """Return what only one of both holds, briefly: a diff of whole reports takes minutes."""
    mine, theirs = (
        [
            f"{name}: {value}"
            for name, held in report
            for value in (held if name == "notes" else [held])
        ]
        for report in (one, other)
    )
    return [text[:2000] for text in {*mine} ^ {*theirs}]


def constant(_sample: Sample, _findings: object) -> Score:
    return Score(value=1.0, normalized=1.0)


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
@pytest.mark.parametrize("name", list(SEEDED)[run_seed() % 4 :: 4] if not FULL else SEEDED)
def test_others_see_the_same(name: str, seed: int) -> None:
    """Results and a third handler's events are those without capture, before ours and after."""
    expected = alone(name, seed)
    with captured():
        before = observed(name, seed)
    assert differences(before, expected) == []
    assert differences(observed(name, seed, captured), expected) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", seeds(2))
def test_others_see_the_same_of_all_in_one_process(seed: int) -> None:
    """One capture of all behaviours in any order changes none of them, and settles each request."""
    order = random.Random(seed).sample(list(SEEDED), len(SEEDED))
    expected = {name: alone(name, seed) for name in order}
    with captured() as evals:
        for name in order:
            assert differences(observed(name, seed), expected[name]) == [], name
    assert evals.stats().scored > len(BEHAVIOURS)
