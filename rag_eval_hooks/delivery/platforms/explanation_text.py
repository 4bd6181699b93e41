"""Explanations as text that a person reads in a viewer: what failed comes first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_eval_hooks.bounded_json import explain

__all__ = ["prose"]

_CUT = " [...]"


def prose(explanation: Mapping[str, Any], limit: int, *, content: bool) -> str | None:
    """An explanation as lines of text.

    Args:
        explanation: What a metric says of its score.
        limit: Characters at most; a longer one is cut and ends with `[...]`.
        content: Whether texts may stand in it. Without, it is JSON of numbers and truth values.

    Returns:
        None where nothing is to be told.
    """
    if not content:
        return explain(explanation, limit, content=False)
    text = "\n".join(line for key, value in explanation.items() for line in _lines(key, value))
    # A lone surrogate, which some models give, cannot be encoded.
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) > limit:
        text = text[: max(0, limit - len(_CUT))] + _CUT[:limit]
    return text or None


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, list | tuple) and value and all(map(_verdict, value)):
        return _verdicts(key, value)
    return [f"{key}: {_plain(value)}"]


def _verdict(item: Any) -> str | None:
    """The name of an item's verdict: its first truth value beside a text."""
    if not isinstance(item, Mapping) or _subject(item) is None:
        return None
    return next((str(name) for name, value in item.items() if isinstance(value, bool)), None)


def _subject(item: Mapping[str, Any]) -> str | None:
    """What the verdict is about: a text, else the number of a chunk."""
    name, value = next(iter(item.items()), (None, None))
    if isinstance(value, str):
        return value
    return f"{name} {value}" if isinstance(value, int) and not isinstance(value, bool) else None


def _verdicts(key: str, items: list[Any] | tuple[Any, ...]) -> list[str]:
    verdict = _verdict(items[0]) or ""
    good = [item for item in items if item[_verdict(item)]]
    bad = [item for item in items if not item[_verdict(item)]]
    return [
        f"{key}: {len(good)} of {len(items)} {verdict}",
        *(f"- not {_verdict(item)}: {_item(item)}" for item in bad),
        *(f"- {_verdict(item)}: {_item(item)}" for item in good),
    ]


def _item(item: Mapping[str, Any]) -> str:
    reason = item.get("reason")
    return f"{_subject(item)} ({reason})" if reason else str(_subject(item))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
