"""Forms in which models reply though they were asked for another: readable ones and unreadable."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["FORMS", "HARMLESS"]

Form: TypeAlias = Callable[[Any, random.Random], str]
Leaf: TypeAlias = Callable[[str, Any], Any]
_IDS = ("id", "verdict")


def _text(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _mapped(node: Any, change: Leaf, key: str = "") -> Any:
    """The reply with every value changed that is no object or list, by its key."""
    if isinstance(node, dict):
        return {name: _mapped(part, change, name) for name, part in node.items()}
    if isinstance(node, list):
        return [_mapped(part, change, key) for part in node]
    return change(key, node)


def _leaves(change: Leaf) -> Form:
    return lambda tree, _draw: _text(_mapped(tree, change))


def _elements(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Form:
    """A form in which every element of a list is changed."""

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: walk(part) for name, part in node.items()}
        if isinstance(node, list):
            return [change(walk(p)) if isinstance(p, dict) else p for p in node]
        return node

    return lambda tree, _draw: _text(walk(tree))


def _groups(change: Callable[[str, Any], tuple[str, Any]]) -> Form:
    return lambda tree, _draw: _text(dict(change(name, part) for name, part in tree.items()))


def _echo(_key: str, value: Any) -> Any:
    names = {bool: "<true or false>", int: "<whole number>", float: "<number>"}
    return names.get(type(value), "<text>")


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _without_options(row: dict[str, Any]) -> dict[str, Any]:
    gone = {"together"} if row.get("together") is False else set()
    gone |= {"chunks"} if row.get("chunks") == [] else set()
    return {key: value for key, value in row.items() if key not in gone}


def _set(key: str, make: Callable[[Any], Any]) -> Form:
    return _elements(lambda row: {**row, key: make(row[key])} if key in row else row)


FORMS: Mapping[str, Form] = {
    "thought": lambda t, _d: f"<think>Is it so {{maybe}}? [1]</think>\n{_text(t)}",
    "thought with a draft": lambda t, _d: f"<think>{_text(_mapped(t, _echo))}</think>{_text(t)}",
    "thought without its beginning": lambda t, _d: f"It seems right.\n</think>\n{_text(t)}",
    "thought without an end": lambda t, _d: f"<think>{_text(t)}",
    "echoed shape": _leaves(_echo),
    "dots": _leaves(lambda k, v: "..." if isinstance(v, str) and k not in _IDS else v),
    "numbers as texts": _leaves(lambda _k, v: str(v) if _is_number(v) else v),
    "floats": _leaves(lambda _k, v: float(v) if type(v) is int else v),
    "null reasons": _leaves(lambda k, v: None if k == "reason" else v),
    "extra keys": _elements(lambda row: {"confidence": 0.3, **row, "note": {"score": 7}}),
    "absent options": _elements(_without_options),
    "verdicts in capitals": _set("verdict", lambda v: v.upper().replace("_", " ")),
    "unknown verdicts": _set("verdict", lambda _v: "partially supported"),
    "forged quotes": _set("quote", lambda _v: "words that stand nowhere at all"),
    "quotes in capitals": _set("quote", str.upper),
    "quotes with other spaces": _set("quote", lambda v: "\n ".join(v.split())),
    "no chunks": _set("chunks", lambda _v: []),
    "unknown chunks": _set("chunks", lambda v: [*v, 99]),
    "one id": _set("id", lambda v: v[0] + "1"),
    "lists as objects": _groups(lambda n, p: (n, {"items": p} if isinstance(p, list) else [p])),
    "groups as texts": _groups(lambda n, p: (n, _text(p) + " ")),
    "renamed groups": _groups(lambda n, p: (n.replace("_", ""), p) if "_" in n else (n * 2, p)),
    "nested": lambda t, _d: _text({"result": t}),
    "trailing comma": lambda t, _d: _text(t)[:-1] + ",}",
    "apostrophes": lambda t, _d: _text(t).replace('"', "'"),
    "comment": lambda t, _d: _text(t).replace("{", "{ // verdicts\n", 1),
    "cut with dots": lambda t, d: _text(t)[: d.randrange(1, len(_text(t)))] + " ...",
    "fence": lambda t, _d: f"Here you are:\n```json\n{_text(t)}\n```\nDone [1].",
    "flags as texts": _leaves(lambda _k, v: str(v) if isinstance(v, bool) else v),
    "verdicts with a full stop": _set("verdict", lambda v: f"{v}. "),
    "line breaks in texts": lambda t, _d: _text(t).replace('"reason": "', '"reason": "\n\t'),
    "endless number": lambda t, _d: re.sub(r": [0-9.]+", ": " + "9" * 5000, _text(t), count=1),
    "byte order mark": lambda t, _d: f"\ufeff\u200b{_text(t)}",
}
"""A form by its name: makes the text of a reply."""
HARMLESS = frozenset(
    {
        "reorder",
        "thought",
        "thought with a draft",
        "thought without its beginning",
        "numbers as texts",
        "floats",
        "null reasons",
        "extra keys",
        "absent options",
        "verdicts in capitals",
        "forged quotes",
        "quotes in capitals",
        "quotes with other spaces",
        "prose",
        "fence",
        "flags as texts",
        "verdicts with a full stop",
        "line breaks in texts",
        "byte order mark",
    }
)
"""Names of corruptions that cost nothing, however often they come."""
