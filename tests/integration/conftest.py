"""What tests with real frameworks and of telemetry share."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_eval_hooks import RagEval
from tests.matrix.world import World
from tests.support import telemetry_world


@pytest.fixture
def world() -> Iterator[World]:
    """Return an evaluator of which everything can be seen."""
    made = World()
    yield made
    made.close()


class Everything(logging.Handler):
    """Keeps every record as a formatter would write it, arguments and tracebacks included."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.args!r} {record.__dict__!r}")
        if record.exc_info and record.exc_info[1] is not None:
            self.lines += traceback.format_exception(record.exc_info[1])


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Return the lines that any logger writes at level DEBUG, requests of httpx among them."""
    handler, root, client = Everything(), logging.getLogger(), logging.getLogger("httpx")
    levels = root.level, client.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    client.setLevel(logging.INFO)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(levels[0])
    client.setLevel(levels[1])


@pytest.fixture
def open_world(shut_down_after: Callable[[RagEval], RagEval]) -> telemetry_world.OpenWorld:
    """Return a function that makes an application with all telemetry of its arguments."""

    def build(**how: Any) -> telemetry_world.World:
        made = telemetry_world.World(**how)
        shut_down_after(made.evals)
        return made

    return build
