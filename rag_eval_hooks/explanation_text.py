"""Explanations of scores as bounded text: JSON for telemetry, lines for readers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rag_eval_hooks.encodable import encodable

__all__ = ["explain", "failed_items", "one_line", "prose"]

_DEPTH: Final = 6
_ROUNDS: Final = ((1.0, 1000), (0.1, 50), (0.03, 20), (0.01, 5))
"""Ever shorter forms: fraction of the limit for one text, and items per list."""
_DROPPED: Final = object()
_CUT: Final = " [...]"
_NAMED: Final = 3
"""Failed items that a line names."""


class _Verdicts(NamedTuple):
    """List of an explanation whose items have a verdict: true, false, or None for unsure."""

    key: str
    name: str
    items: Sequence[Mapping[str, Any]]


def explain(value: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as JSON, or None if nothing remains.

    Args:
        value: Explanation of a score by its metric.
        limit: Maximum number of characters. A longer explanation loses items and characters, marked
            by `"cut": true`.
        content: Whether to include texts. Numbers and booleans are always included.
    """
    for number, (share, items) in enumerate(_ROUNDS):
        plain = _form(value, int(limit * share) if content else None, items, _DEPTH)
        if not plain or plain is _DROPPED:
            return None
        if number:
            plain["cut"] = True
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if len(text) <= limit:
            return text
    return '{"cut": true}' if limit >= len('{"cut": true}') else None


def _form(value: Any, chars: int | None, items: int, depth: int) -> Any:
    """Return a value in plain types, with texts of at most `chars` characters, or without texts."""
    # By exact type first: checks of abstract classes would take most of the time.
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return value
    if kind is dict or isinstance(value, Mapping):
        forms = {str(k): _form(v, chars, items, depth - 1) for k, v in value.items() if depth}
        kept = [(key, form) for key, form in forms.items() if form is not _DROPPED]
        return dict(kept[:items]) if depth else _DROPPED
    if kind is list or isinstance(value, list | tuple | set | frozenset):
        listed = [_form(v, chars, items, depth - 1) for v in list(value)[:items] if depth]
        left = [form for form in listed if form is not _DROPPED]
        return left if depth and (left or not listed) else _DROPPED
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    # A text that cannot be encoded would make the exporter lose the whole batch.
    return _DROPPED if chars is None else encodable(str(value)[:chars])


def prose(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return an explanation as lines of text, failed verdicts first, or None if it is empty.

    Args:
        explanation: Explanation of a score by its metric.
        limit: Maximum number of characters. Longer text is cut and ends with `[...]`.
        content: Whether to include texts. Otherwise the result is JSON of numbers and booleans.
    """
    if not content:
        return explain(explanation, limit, content=False)
    lists = {one.key: one for one in _verdicts(explanation)}
    lines: list[str] = []
    for key, value in explanation.items():
        if key in lists:
            _, name, items = lists[key]
            failed_first = sorted(items, key=lambda item: bool(item[name]))
            good = sum(bool(item[name]) for item in items)
            lines.append(f"{key}: {good} of {len(items)} {name}")
            lines += [_line(item, name) for item in failed_first]
        else:
            is_text = isinstance(value, str)
            told = value if is_text else json.dumps(value, ensure_ascii=False, default=str)
            lines.append(f"{key}: {told}")
    return _fit("\n".join(lines), limit) or None


def failed_items(explanation: Mapping[str, Any]) -> list[str]:
    """Return the failed or undecided items of an explanation, one line each."""
    return [
        _line(item, name)
        for _, name, items in _verdicts(explanation)
        for item in items
        if not item[name]
    ]


def one_line(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """Return the first failures in one line, such as `1 of 3 claims unsupported: claim 2`.

    Args:
        explanation: Explanation of a score by its metric.
        limit: Maximum number of characters.
        content: Whether to include texts, such as the reason of a verdict.

    Returns:
        The line, or None if the explanation has no verdict and no usable reason.
    """
    if (first := next(_verdicts(explanation), None)) is not None:
        told = _counted(first, content=content)
    else:
        reason = explanation.get("reason")
        told = reason if content and isinstance(reason, str) else ""
    return _fit(" ".join(told.split()), limit) if told else None


def _counted(verdicts: _Verdicts, *, content: bool) -> str:
    key, name, items = verdicts
    # Scores do not count unsure items either.
    sure = {n: item for n, item in enumerate(items, start=1) if item[name] is not None}
    bad = [number for number, item in sure.items() if not item[name]]
    if not bad:
        return f"{len(sure)} of {len(sure)} {key} {name}"
    negated = "unsupported" if name == "supported" else f"not {name}"
    count = f"{len(bad)} of {len(sure)} {key} {negated}"
    if content:
        return f"{count}: {sure[bad[0]].get('reason') or _subject(sure[bad[0]])}"
    named = ", ".join(f"{key.removesuffix('s')} {number}" for number in bad[:_NAMED])
    return f"{count}: {named}{', ...' if len(bad) > _NAMED else ''}"


def _verdicts(explanation: Mapping[str, Any]) -> Iterator[_Verdicts]:
    for key, items in explanation.items():
        if not isinstance(items, list | tuple) or not items:
            continue
        if all(isinstance(item, Mapping) and _subject(item) is not None for item in items):
            names = (name for name in items[0] if _is_verdict(name, items))
            if (name := next(names, None)) is not None:
                yield _Verdicts(key, str(name), items)


def _is_verdict(name: str, items: Sequence[Mapping[str, Any]]) -> bool:
    values = [item.get(name, "") for item in items]
    # A word distinguishes unsure verdicts from missing values.
    is_known = any(value is not None for value in values) or "verdict" in items[0]
    return is_known and all(value is None or isinstance(value, bool) for value in values)


def _subject(item: Mapping[str, Any]) -> str | None:
    """Return the subject of a verdict: its text or its chunk number."""
    name, value = next(iter(item.items()), (None, None))
    if isinstance(value, str):
        return value
    return f"{name} {value}" if isinstance(value, int) and not isinstance(value, bool) else None


def _line(item: Mapping[str, Any], name: str) -> str:
    """Return one verdict in words: an item of a list, or a named condition."""
    label = name if item[name] else "unsure" if item[name] is None else f"not {name}"
    if isinstance(word := item.get("verdict"), str):
        label = word.replace("_", " ")
    reason = item.get("reason")
    return f"- {label}: {_subject(item)}" + (f" ({reason})" if reason else "")


def _fit(text: str, limit: int) -> str:
    text = encodable(text)
    return text if len(text) <= limit else text[: max(0, limit - len(_CUT))] + _CUT[:limit]
