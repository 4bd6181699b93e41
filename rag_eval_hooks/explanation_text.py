"""Explanations of scores as bounded text: JSON for telemetry, lines for readers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.encodable import encodable

__all__ = ["explain", "failed_items", "one_line", "prose"]

_DEPTH = 6
_ROUNDS = ((1.0, 1000), (0.1, 50), (0.03, 20), (0.01, 5))
"""Ever shorter forms: share of the limit for one text, and items of one list."""
_DROPPED = object()
_CUT = " [...]"
_UN = ("supported",)
"""Verdicts that are negated by a prefix."""
_NAMED = 3
"""Failed items that a line names."""


def explain(value: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as JSON.

    Args:
        value: Explanation of a score by its metric.
        limit: Characters at most. A longer one has fewer items and shorter texts, marked by
            `"cut": true`.
        content: Whether texts may be included; numbers and truth values always are.

    Returns:
        The JSON, or None if nothing remains.
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
    """Size of a form: characters of a text, or None for no texts; items of a list."""

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
        items = ((str(key), self.of(item, depth - 1)) for key, item in value.items())
        kept = [(key, item) for key, item in items if item is not _DROPPED]
        return dict(kept[: self.items])

    def _list(self, value: list[Any], depth: int) -> Any:
        if depth == 0:
            return _DROPPED
        forms = [self.of(item, depth - 1) for item in value[: self.items]]
        kept = [item for item in forms if item is not _DROPPED]
        return kept if kept or not forms else _DROPPED


def _text(value: Any, chars: int) -> str:
    # What cannot be encoded would cost the exporter the whole batch.
    return encodable(str(value)[:chars])


def prose(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as lines of text; failed verdicts come first.

    Args:
        explanation: Explanation of a score by its metric.
        limit: Characters at most; a longer one is cut and ends with `[...]`.
        content: Whether texts may be included; else it is JSON of numbers and truth values.

    Returns:
        The text, or None if it is empty.
    """
    if not content:
        return explain(explanation, limit, content=False)
    lines = [line for key, value in explanation.items() for line in _lines(key, value)]
    text = encodable("\n".join(lines))
    if len(text) > limit:
        text = text[: max(0, limit - len(_CUT))] + _CUT[:limit]
    return text or None


def failed_items(explanation: Mapping[str, Any]) -> list[str]:
    """Return the items of an explanation that failed, or of which nothing is known, a line each."""
    return [
        _line(item, verdict)
        for items in explanation.values()
        if isinstance(items, list | tuple) and (verdict := _verdict(items))
        for item in items
        if not item[verdict]
    ]


def one_line(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return what failed first in one line, such as `1 of 3 claims unsupported: claim 2`.

    Args:
        explanation: Explanation of a score by its metric.
        limit: Characters at most.
        content: Whether texts may be included, such as the reason of a verdict.

    Returns:
        The line, or None if the explanation has no verdicts and no reason that may be included.
    """
    for key, items in explanation.items():
        if isinstance(items, list | tuple) and (verdict := _verdict(items)):
            return _fit(_counted(key, verdict, items, content=content), limit)
    reason = explanation.get("reason")
    return _fit(reason, limit) if content and isinstance(reason, str) and reason else None


def _counted(key: str, verdict: str, items: Sequence[Mapping[str, Any]], *, content: bool) -> str:
    # What the judge could not tell is not counted by any score either.
    sure = {n: item for n, item in enumerate(items, start=1) if item[verdict] is not None}
    bad = [number for number, item in sure.items() if not item[verdict]]
    if not bad:
        return f"{len(sure)} of {len(sure)} {key} {verdict}"
    count = f"{len(bad)} of {len(sure)} {key} {'un' if verdict in _UN else 'not '}{verdict}"
    if content:
        return f"{count}: {sure[bad[0]].get('reason') or _subject(sure[bad[0]])}"
    named = ", ".join(f"{key.removesuffix('s')} {number}" for number in bad[:_NAMED])
    return f"{count}: {named}{', ...' if len(bad) > _NAMED else ''}"


def _fit(text: str, limit: int) -> str:
    line = _text(" ".join(text.split()), len(text))
    return line if len(line) <= limit else line[: max(0, limit - len(_CUT))] + _CUT[:limit]


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, list | tuple) and (verdict := _verdict(value)):
        return _verdicts(key, verdict, value)
    return [f"{key}: {_plain(value)}"]


def _verdict(items: list[Any] | tuple[Any, ...]) -> str | None:
    """Return the name of the items' verdict: the first truth value, or None for unsure."""
    if not all(isinstance(item, Mapping) and _subject(item) is not None for item in items):
        return None
    for name in items[0] if items else ():
        values = [item.get(name, "") for item in items]
        if all(value is None or isinstance(value, bool) for value in values) and any(
            value is not None for value in values
        ):
            return str(name)
    return None


def _subject(item: Mapping[str, Any]) -> str | None:
    """Return the subject of a verdict: a text, else the number of a chunk."""
    name, value = next(iter(item.items()), (None, None))
    if isinstance(value, str):
        return value
    return f"{name} {value}" if isinstance(value, int) and not isinstance(value, bool) else None


def _verdicts(key: str, verdict: str, items: list[Any] | tuple[Any, ...]) -> list[str]:
    good = [item for item in items if item[verdict]]
    others = [item for item in items if not item[verdict]]
    return [
        f"{key}: {len(good)} of {len(items)} {verdict}",
        *(_line(item, verdict) for item in (*others, *good)),
    ]


def _line(item: Mapping[str, Any], verdict: str) -> str:
    return f"- {_label(item, verdict)}: {_item(item)}"


def _label(item: Mapping[str, Any], verdict: str) -> str:
    """Return the verdict in words: one of several, or a name that holds or does not."""
    if isinstance(word := item.get("verdict"), str):
        return word.replace("_", " ")
    if item[verdict] is None:
        return "unsure"
    return verdict if item[verdict] else f"not {verdict}"


def _item(item: Mapping[str, Any]) -> str:
    reason = item.get("reason")
    return f"{_subject(item)} ({reason})" if reason else str(_subject(item))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
