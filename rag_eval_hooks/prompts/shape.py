"""Shapes of replies: placeholders that are no valid content, and the JSON Schema made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

__all__ = ["FLAG", "NUMBER", "TEXT", "WHOLE_NUMBER", "dumped", "is_empty", "one_of", "schema"]

TEXT: Final = "<text>"
WHOLE_NUMBER: Final = "<whole number>"
NUMBER: Final = "<number>"
FLAG: Final = "<true or false>"
_TYPES: Final = {TEXT: "string", WHOLE_NUMBER: "integer", NUMBER: "number", FLAG: "boolean"}
_SAYS_NOTHING: Final = re.compile(r"[\s.\u2026_-]*")


def one_of(*values: str | float) -> str:
    """Return the placeholder of a value from a set."""
    return f"<{' | '.join(v if isinstance(v, str) else f'{v:g}' for v in values)}>"


def is_empty(text: str) -> bool:
    """Return whether a text says nothing: blank, dots, or a placeholder that a model repeats."""
    return text in _TYPES or _SAYS_NOTHING.fullmatch(text) is not None


def schema(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Make the JSON Schema of a shape: every key required, no other allowed.

    It names neither ids nor counts: endpoints compile each new schema, which takes seconds,
    and so all samples share one for the same findings.
    """
    made: dict[str, Any] = json.loads(_schema(dumped(shape)))
    return made


@lru_cache(maxsize=256)
def _schema(shape: str) -> str:
    # Few shapes are asked for, each often. As text, so that no caller changes what others get.
    return dumped(_schema_of(json.loads(shape)))


def _schema_of(shape: Any) -> dict[str, Any]:
    if isinstance(shape, Mapping):
        return {
            "type": "object",
            "properties": {key: _schema_of(value) for key, value in shape.items()},
            "required": list(shape),
            "additionalProperties": False,
        }
    if isinstance(shape, list):
        return {"type": "array", "items": _schema_of(shape[0])}
    return {"type": _TYPES[shape]} if shape in _TYPES else _enum(shape)


def _enum(placeholder: str) -> dict[str, Any]:
    words = placeholder.strip("<>").split(" | ")
    if not all(re.fullmatch(r"[0-9.]+", word) for word in words):
        return {"type": "string", "enum": words}
    whole = all(word.isdigit() for word in words)
    numbers = [int(word) if word.isdigit() else float(word) for word in words]
    return {"type": "integer" if whole else "number", "enum": numbers}


def dumped(value: Any) -> str:
    """Return a value as compact JSON of any script."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
