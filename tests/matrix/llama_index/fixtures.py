"""Fixtures that tests of LlamaIndex share: worlds with and without the instrumentation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rag_eval_hooks.sample import Sample
from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index.kit import Draw
from tests.matrix.world import World
from tests.support.variation import run_seed


@contextmanager
def opened(*, enabled: bool = True, **config: Any) -> Iterator[World]:
    loop, made = asyncio.new_event_loop(), World(**config)
    asyncio.set_event_loop(loop)
    registration = enable(made.evals) if enabled else None
    try:
        yield made
    finally:
        if registration is not None:
            registration.disable()
        made.close()
        loop.close()
        asyncio.set_event_loop(None)
    assert not enabled or not made.evals.recorder.locators


@pytest.fixture
def world() -> Iterator[World]:
    with opened() as made:
        yield made


@pytest.fixture
def plain_world() -> Iterator[World]:
    with opened(enabled=False) as made:
        yield made


@pytest.fixture
def draw(world: World) -> Draw:
    return Draw(run_seed(), "query", world)


def samples(world: World) -> list[Sample]:
    return [seen.sample for seen in world.seen()]


def only(world: World) -> Sample:
    (sample,) = samples(world)
    return sample


def texts(sample: Sample) -> list[str]:
    return [context.text for context in sample.contexts or ()]
