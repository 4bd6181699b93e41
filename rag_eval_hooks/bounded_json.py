"""Explanations as bounded JSON, with or without the application's texts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["explain"]

_DEPTH = 6
_ROUNDS = ((1.0, 1000), (0.1, 50), (0.03, 20), (0.01, 5))
"""Ever shorter forms: share of the limit that one text may take, and items of one list."""
_DROPPED = object()


def explain(value: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """A mapping as JSON text.

    Args:
        value: What a metric says of its score.
        limit: Characters at most. A longer one is told with fewer items and shorter texts, and
            says so by `"cut": true`.
        content: Whether texts may stand in it. Without, numbers and truth values remain.

    Returns:
        None where nothing remains.
    """
    for number, (share, items) in enumerate(_ROUNDS):
        form = _Form(int(limit * share) if content else None, items)
        plain = form.of(value, _DEPTH)
        if not plain or plain is _DROPPED:
            return None
        if number:
            plain["cut"] = True
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if len(text) <= limit:
            return text
    return '{"cut": true}' if limit >= len('{"cut": true}') else None


@dataclass(frozen=True, slots=True)
class _Form:
    """How much of a value is told: characters of a text, or None for no texts; items of a list."""

    chars: int | None
    items: int

    def of(self, value: Any, depth: int) -> Any:
        # By exact type first: asking abstract classes takes most of the time otherwise.
        kind = type(value)
        if value is None or kind is bool or kind is int:
            return value
        if kind is str:
            return _DROPPED if self.chars is None else _text(value, self.chars)
        if kind is dict or isinstance(value, Mapping):
            return self._mapping(value, depth)
        if kind is list or isinstance(value, list | tuple | set | frozenset):
            return self._list(list(value), depth)
        return self._other(value)

    def _other(self, value: Any) -> Any:
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, int):
            return int(value)
        return _DROPPED if self.chars is None else _text(value, self.chars)

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        if depth == 0:
            return _DROPPED
        told = ((str(key), self.of(item, depth - 1)) for key, item in value.items())
        kept = [(key, item) for key, item in told if item is not _DROPPED]
        return dict(kept[: self.items])

    def _list(self, value: list[Any], depth: int) -> Any:
        if depth == 0:
            return _DROPPED
        told = [self.of(item, depth - 1) for item in value[: self.items]]
        kept = [item for item in told if item is not _DROPPED]
        return kept if kept or not told else _DROPPED


def _text(value: Any, chars: int) -> str:
    # A lone surrogate, which some models give, cannot be encoded and would cost the batch.
    text = str(value)[:chars]
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
