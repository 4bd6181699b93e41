"""Fixtures that tests of LlamaIndex share: worlds with and without the instrumentation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rag_eval_hooks_llama_index import enable
from tests.matrix.world import World


@pytest.fixture
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Sync calls of LlamaIndex run async code in the thread's loop; one of its own stays open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    registration = enable(made.evals)
    yield made
    registration.disable()
    made.close()


@pytest.fixture
def plain_world() -> Iterator[World]:
    made = World()
    yield made
    made.close()
