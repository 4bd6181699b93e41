"""Files of JSON lines, as they are while a process still writes to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

__all__ = ["is_map", "lines_of"]


def lines_of(path: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a file; what is none, such as a line that is being written, is passed."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                record = _parsed(line)
                if is_map(record):
                    yield record
    except OSError:
        return


def is_map(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value is a JSON object."""
    return isinstance(value, Mapping)


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None
