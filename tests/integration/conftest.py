"""What tests with real frameworks and of telemetry share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_eval_hooks import RagEval
from tests.matrix.world import World
from tests.support import telemetry_world


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def open_world(shut_down_after: Callable[[RagEval], RagEval]) -> telemetry_world.OpenWorld:
    def build(**how: Any) -> telemetry_world.World:
        made = telemetry_world.World(**how)
        shut_down_after(made.evals)
        return made

    return build
