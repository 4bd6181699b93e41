"""Random corruptions of a truthful reply, of the kinds that a strict reader can tell.

What nobody could tell is left out: a verdict turned into its contrary, two ids exchanged, a
digit lost from a rating. Such a reply is not corrupt but wrong.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from tests.servers.reply_forms import FORMS
from tests.servers.strange_forms import STRANGE

__all__ = ["KINDS", "Corruption", "corrupted"]

Reply: TypeAlias = dict[str, Any]
Node: TypeAlias = dict[str, Any] | list[Any]
Place: TypeAlias = tuple[Any, Any]
"""A container and a key or position in it."""

_NUMBER_KEYS = ("n", "count", "sentence", "chunk", "score", "value", "rating")
_ID_KEYS = ("id", "n", "chunk", "sentence")
_TURNED = {"supported": "contradicted", "not_stated": "contradicted"}
_FIRST = "\ue000"
"""Marks a key that is written without it: the only way to write a key twice."""
_PROSE = (
    "Here are my verdicts.",
    "I rate it 85 of 100, all 3 claims are supported.",
    "```json",
    "```",
    "As said in [2]:",
    "Tell me if you need more {detail}.",
    "<think>the first claim looks wrong</think>",
)


class Corruption(StrEnum):
    """Ways in which a reply is damaged."""

    DROP = "drop"
    DOUBLE = "double"
    REORDER = "reorder"
    RENUMBER = "renumber"
    CUT = "cut"
    PROSE = "prose"
    WRONG_TYPES = "wrong types"
    OUT_OF_RANGE = "out of range"
    NAN = "nan"
    SECOND_JSON = "second json"
    DUPLICATE_KEYS = "duplicate keys"
    THOUGHT = "thought"
    THOUGHT_WITH_DRAFT = "thought with a draft"
    THOUGHT_UNOPENED = "thought without its beginning"
    THOUGHT_ENDLESS = "thought without an end"
    ECHO = "echoed shape"
    DOTS = "dots"
    NUMBERS_AS_TEXTS = "numbers as texts"
    FLOATS = "floats"
    NULL_REASONS = "null reasons"
    EXTRA_KEYS = "extra keys"
    NO_OPTIONS = "absent options"
    UPPER_VERDICTS = "verdicts in capitals"
    UNKNOWN_VERDICTS = "unknown verdicts"
    FORGED_QUOTES = "forged quotes"
    SHOUTED_QUOTES = "quotes in capitals"
    SPACED_QUOTES = "quotes with other spaces"
    NO_CHUNKS = "no chunks"
    UNKNOWN_CHUNKS = "unknown chunks"
    ONE_ID = "one id"
    LISTS_AS_OBJECTS = "lists as objects"
    GROUPS_AS_TEXTS = "groups as texts"
    RENAMED_GROUPS = "renamed groups"
    NESTED = "nested"
    TRAILING_COMMA = "trailing comma"
    APOSTROPHES = "apostrophes"
    COMMENT = "comment"
    CUT_WITH_DOTS = "cut with dots"
    FENCE = "fence"
    FLAGS_AS_TEXTS = "flags as texts"
    STOPPED_VERDICTS = "verdicts with a full stop"
    LINE_BREAKS = "line breaks in texts"
    ENDLESS_NUMBER = "endless number"
    MARK = "byte order mark"


KINDS = (*(kind.value for kind in Corruption), *STRANGE)


def corrupted(kind: str, reply: Reply, draw: random.Random) -> str:
    """The text of the reply after one corruption of this kind."""
    tree = json.loads(json.dumps(reply))
    if (form := FORMS.get(kind) or STRANGE.get(kind)) is not None:
        return form(tree, draw)
    if kind in _TEXTS:
        return _TEXTS[kind](json.dumps(tree, ensure_ascii=False), draw)
    _TREES[kind](tree, draw)
    return json.dumps(tree, ensure_ascii=False).replace(_FIRST, "")


def _nodes(node: Any) -> Iterator[Node]:
    """Every object and list of a reply."""
    if isinstance(node, dict | list):
        yield node
        for child in node.values() if isinstance(node, dict) else node:
            yield from _nodes(child)


def _places(tree: Reply) -> list[Place]:
    """Every place in which something stands."""
    found: list[Place] = []
    for node in _nodes(tree):
        found += [(node, k) for k in (node if isinstance(node, dict) else range(len(node)))]
    return found


def _lists(tree: Reply) -> list[list[Any]]:
    """Lists of elements, and of chunks that support a claim alone."""
    parts = [node["partly"] for node in _nodes(tree) if isinstance(node, dict) and "partly" in node]
    lists = [node for node in _nodes(tree) if isinstance(node, list) and node]
    return [node for node in lists if not any(node is part for part in parts)]


def _numbers(tree: Reply) -> list[Place]:
    """Places of numbers that are within a range, ids and counts included."""
    return [
        (node, key)
        for node, key in _places(tree)
        if type(node[key]) in (int, float)
        and (isinstance(node, list) or key in _NUMBER_KEYS or node is tree)
    ]


def _drop(tree: Reply, draw: random.Random) -> None:
    node, key = draw.choice([place for place in _places(tree) if not _is_one_of_several(*place)])
    del node[key]


def _is_one_of_several(node: Node, key: Any) -> bool:
    """Whether nobody can tell that it is missing: a chunk beside others, one claim of several."""
    return isinstance(node, list) and not isinstance(node[key], dict)


def _double(tree: Reply, draw: random.Random) -> None:
    """An element stands twice, as it is or turned into its contrary; where none is, a group."""
    lists = _lists(tree)
    if not lists:
        _duplicate_key(tree, draw)
        return
    rows = draw.choice(lists)
    twin = _contrary(draw.choice(rows)) if draw.random() < 0.5 else draw.choice(rows)
    rows.insert(draw.randrange(len(rows) + 1), twin)


def _reorder(tree: Reply, draw: random.Random) -> None:
    for node in list(_nodes(tree)):
        if isinstance(node, list):
            draw.shuffle(node)
        else:
            items = draw.sample(list(node.items()), len(node))
            node.clear()
            node.update(items)


def _renumber(tree: Reply, draw: random.Random) -> None:
    """All ids of a list are shifted, or one becomes another's or nobody's."""
    rows = draw.choice(_lists(tree) or [[tree]])
    step = draw.choice((-1, 1, 7))
    chosen = range(len(rows)) if draw.random() < 0.5 else [draw.randrange(len(rows))]
    for place in chosen:
        rows[place] = _shifted(rows[place], step)


def _shifted(row: Any, step: int) -> Any:
    if type(row) is int:
        return row + step
    if not isinstance(row, dict):
        return row
    changed = dict(row)
    for key in _ID_KEYS:
        if isinstance(row.get(key), int):
            changed[key] = row[key] + step
        elif key in row:
            digits = row[key][1:]
            changed[key] = f"{row[key][0]}{int(digits) + step}" if digits.isdigit() else "r1"
    return changed


def _wrong_types(tree: Reply, draw: random.Random) -> None:
    node, key = draw.choice(_places(tree))
    value = node[key]
    others: list[Any] = [None, "yes", [value], {"value": value}, str(value)]
    others += [] if type(value) in (int, float) else [0, 1, -1, 0.5]
    others += [] if isinstance(value, bool) else [True, False]
    node[key] = draw.choice([other for other in others if type(other) is not type(value)])


def _out_of_range(tree: Reply, draw: random.Random) -> None:
    """A number leaves its range, or comes between two steps; where none is, an id is unknown."""
    numbers = _numbers(tree)
    if not numbers:
        _renumber(tree, draw)
        return
    node, key = draw.choice(numbers)
    between = [] if key in ("rating", "score") else [2.5]
    node[key] = draw.choice([-1, -0.5, 850, 10**6, 10**15, 1e308, -(10**30), *between])


def _nan(tree: Reply, draw: random.Random) -> None:
    node, key = draw.choice(_numbers(tree) or _places(tree))
    node[key] = draw.choice((float("nan"), float("inf"), float("-inf")))


def _duplicate_key(tree: Reply, draw: random.Random) -> None:
    """A key stands twice, first with another content or last."""
    node = draw.choice([node for node in _nodes(tree) if isinstance(node, dict) and node])
    key = draw.choice(list(node))
    twin = (_FIRST + key, _contrary(node[key]))
    items = [twin, *node.items()] if draw.random() < 0.5 else [*node.items(), twin]
    node.clear()
    node.update(items)


def _contrary(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        turned = {key: _contrary(part) for key, part in value.items()}
        if value.get("verdict") in _TURNED:
            turned["verdict"] = _TURNED[value["verdict"]]
        return turned
    return value


def _cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text))]


def _prose(text: str, draw: random.Random) -> str:
    before, after = draw.choice(_PROSE), draw.choice(_PROSE)
    return draw.choice((f"{before}\n{text}", f"{text}\n{after}", f"{before}\n{text}\n{after}"))


def _second_json(text: str, draw: random.Random) -> str:
    other = draw.choice(
        (json.dumps(_contrary(json.loads(text))), text, "{}", "[]", '{"answer_support": []}')
    )
    return draw.choice((f"{text}\n{other}", f"{other}\n{text}", f"[{other}, {text}]"))


_TEXTS: Mapping[str, Callable[[str, random.Random], str]] = {
    Corruption.CUT: _cut,
    Corruption.PROSE: _prose,
    Corruption.SECOND_JSON: _second_json,
}
_TREES: Mapping[str, Callable[[Reply, random.Random], None]] = {
    Corruption.DROP: _drop,
    Corruption.DOUBLE: _double,
    Corruption.REORDER: _reorder,
    Corruption.RENUMBER: _renumber,
    Corruption.WRONG_TYPES: _wrong_types,
    Corruption.OUT_OF_RANGE: _out_of_range,
    Corruption.NAN: _nan,
    Corruption.DUPLICATE_KEYS: _duplicate_key,
}
