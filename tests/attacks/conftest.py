"""Fixture of the tests that look for what must not be written."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator

import pytest


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
    handler, root, client = Everything(), logging.getLogger(), logging.getLogger("httpx")
    levels = root.level, client.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    client.setLevel(logging.INFO)
    yield handler.lines
    root.removeHandler(handler)
    root.setLevel(levels[0])
    client.setLevel(levels[1])
