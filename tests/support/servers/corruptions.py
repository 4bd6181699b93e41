"""Random corruptions of a truthful reply that a strict reader can detect."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Form: TypeAlias = Callable[[Any, random.Random], str]
Place: TypeAlias = tuple[Any, Any]
"""A container and a key or position in it."""

_NUMBER_KEYS = ("n", "count", "sentence", "chunk", "score", "value", "rating")
_ID_KEYS = ("id", "n", "chunk", "sentence")
_MOST = {"rating": 100, "score": 100, "value": 6}
_FIRST = "\ue000"
"""Marks a key that is written without it: the only way to write a key twice."""


def corrupted(kind: str, reply: dict[str, Any], draw: random.Random) -> str:
    return KINDS[kind](json.loads(json.dumps(reply)), draw).replace(_FIRST, "")


def _text(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _changed(node: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    if isinstance(node, dict):
        node = {name: _changed(part, change, name) for name, part in node.items()}
    elif isinstance(node, list):
        node = [_changed(part, change, key) for part in node]
    return change(key, node)


def _each(change: Callable[[str, Any], Any]) -> Form:
    return lambda tree, _draw: _text(_changed(tree, change))


def _objects(change: Callable[[dict[str, Any]], Any]) -> Form:

    def rows(_key: str, part: Any) -> Any:
        if not isinstance(part, list):
            return part
        return [change(row) if isinstance(row, dict) else row for row in part]

    return _each(rows)


def _set(key: str, make: Callable[[Any], Any]) -> Form:
    return _objects(lambda row: row | ({key: make(row[key])} if key in row else {}))


def _opposite(tree: Any) -> Any:
    return _changed(tree, _contrary)


def _contrary(key: str, value: Any) -> Any:
    if isinstance(value, bool):
        return False if key == "together" else not value
    if isinstance(value, dict) and "verdict" in value:
        holds = value["verdict"] != "supported"
        verdict = {"verdict": "supported" if holds else "not_stated", "quote": ""}
        return value | verdict | ({"chunks": [1] if holds else []} if "chunks" in value else {})
    if key in _MOST and type(value) in (int, float):
        return _MOST[key] - value if type(value) is int else 1 - value
    if key.endswith("_ratings"):
        return 0 if value else 2
    return f"not: {value}" if key in ("claims", "text") and isinstance(value, str) else value


def _in_place(change: Callable[[Any, random.Random], None]) -> Form:
    def form(tree: Any, draw: random.Random) -> str:
        change(tree, draw)
        return _text(tree)

    return form


def _nodes(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict | list):
        yield tree
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _nodes(part)


def _places(tree: Any) -> list[Place]:
    return [
        (node, key)
        for node in _nodes(tree)
        for key in (list(node) if isinstance(node, dict) else range(len(node)))
    ]


def _lists(tree: Any) -> list[list[Any]]:
    parts = [node[key] for node, key in _places(tree)]
    return [part for part in parts if part and isinstance(part, list)]


def _numbers(tree: Any) -> list[Place]:
    return [
        (node, key)
        for node, key in _places(tree)
        if type(node[key]) in (int, float)
        and (isinstance(node, list) or key in _NUMBER_KEYS or node is tree)
    ]


def _drop(tree: Any, draw: random.Random) -> None:
    # Nobody can tell that a chunk beside others, or one claim of several, is missing.
    places = [(n, k) for n, k in _places(tree) if isinstance(n, dict) or isinstance(n[k], dict)]
    node, key = draw.choice(places)
    del node[key]


def _double(tree: Any, draw: random.Random) -> None:
    if not (lists := _lists(tree)):
        _duplicate_key(tree, draw)
        return
    rows = draw.choice(lists)
    twin = draw.choice(rows)
    rows.insert(draw.randrange(len(rows) + 1), draw.choice((twin, _opposite(twin))))


def _reorder(tree: Any, draw: random.Random) -> None:
    for node in _nodes(tree):
        if isinstance(node, list):
            draw.shuffle(node)
        else:
            items = draw.sample(list(node.items()), len(node))
            node.clear()
            node.update(items)


def _renumber(tree: Any, draw: random.Random) -> None:
    rows = draw.choice(_lists(tree) or [[tree]])
    step = draw.choice((-1, 1, 7))
    chosen = range(len(rows)) if draw.random() < 0.5 else [draw.randrange(len(rows))]
    for place in chosen:
        row = rows[place]
        if type(row) is int:
            rows[place] = row + step
        elif isinstance(row, dict):
            rows[place] = row | {k: _shifted(row[k], step) for k in _ID_KEYS if k in row}


def _shifted(id_: int | str, step: int) -> int | str:
    if isinstance(id_, int):
        return id_ + step
    return f"{id_[0]}{int(id_[1:]) + step}" if id_[1:].isdigit() else "r1"


def _wrong_types(tree: Any, draw: random.Random) -> None:
    node, key = draw.choice(_places(tree))
    value = node[key]
    others: list[Any] = [None, "yes", [value], {"value": value}, str(value)]
    others += [] if type(value) in (int, float) else [0, 1, -1, 0.5]
    others += [] if isinstance(value, bool) else [True, False]
    node[key] = draw.choice([other for other in others if type(other) is not type(value)])


def _out_of_range(tree: Any, draw: random.Random) -> None:
    if not (numbers := _numbers(tree)):
        _renumber(tree, draw)
        return
    node, key = draw.choice(numbers)
    between = [] if key in ("rating", "score") else [2.5]
    node[key] = draw.choice([-1, -0.5, 850, 10**6, 10**15, 1e308, -(10**30), *between])


def _nan(tree: Any, draw: random.Random) -> None:
    node, key = draw.choice(_numbers(tree) or _places(tree))
    node[key] = draw.choice((float("nan"), float("inf"), float("-inf")))


def _duplicate_key(tree: Any, draw: random.Random) -> None:
    node = draw.choice([each for each in _nodes(tree) if isinstance(each, dict) and each])
    key = draw.choice(list(node))
    items = [(_FIRST + key, _opposite(node[key])), *node.items()]
    node.clear()
    node.update(items if draw.random() < 0.5 else [*items[1:], items[0]])


def _extra_item(tree: Any, draw: random.Random) -> None:
    lists = [part for part in tree.values() if isinstance(part, list) and part]
    if not lists or draw.random() < 0.3:
        tree.update({"overall": _opposite(tree), "summary": 3})
        return
    rows = draw.choice(lists)
    row = dict(draw.choice(rows))
    named = {"id": "a99", "chunk": 77, "sentence": 88}
    rows.insert(draw.randrange(len(rows) + 1), row | {k: v for k, v in named.items() if k in row})


def _second_json(tree: Any, draw: random.Random) -> str:
    text = _text(tree)
    other = draw.choice((_text(_opposite(tree)), text, "{}", "[]"))
    return draw.choice((f"{text}\n{other}", f"{other}\n{text}", f"[{other}, {text}]"))


def _begun(tree: Any, draw: random.Random) -> str:
    text = _text(_opposite(tree))
    places = [match.end() for match in re.finditer(r"[:,\[] ?", text)]
    return text[: draw.choice(places) if draw.random() < 0.7 else draw.randrange(len(text))]


def _closed(tree: Any, draw: random.Random) -> str:
    text = _text(tree)
    text = text[: draw.choice([match.end() for match in re.finditer("}", text)] or [len(text)])]
    unclosed = ""
    for mark in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text)):
        unclosed = ("]" if mark == "[" else "}") + unclosed if mark in "[{" else unclosed[1:]
    return text + unclosed


def _without_options(row: dict[str, Any]) -> dict[str, Any]:
    defaults = {"together": False, "chunks": []}
    return {k: v for k, v in row.items() if k not in defaults or v != defaults[k]}


HARMLESS: Mapping[str, Form] = {
    "reorder": _in_place(_reorder),
    "thought": lambda t, _d: f"<think>Is it so {{maybe}}? [1]</think>\n{_text(t)}",
    "numbers as texts": _each(lambda _k, v: str(v) if type(v) in (int, float) else v),
    "null reasons": _each(lambda k, v: None if k == "reason" else v),
    "absent options": _objects(_without_options),
    "verdicts in capitals": _set("verdict", lambda v: v.upper().replace("_", " ")),
    "forged quotes": _set("quote", lambda _v: "words that stand nowhere at all"),
    "fence": lambda t, _d: f"Here you are:\n```json\n{_text(t)}\n```\nDone [1].",
    "flags as texts": _each(lambda _k, v: str(v) if isinstance(v, bool) else v),
}
"""Corruptions that cost nothing, however often they come."""
KINDS: Mapping[str, Form] = {
    **HARMLESS,
    "extra keys": _objects(lambda row: {"confidence": 0.3, **row, "note": {"score": 7}}),
    "drop": _in_place(_drop),
    "double": _in_place(_double),
    "renumber": _in_place(_renumber),
    "cut": lambda t, d: _text(t)[: d.randrange(len(_text(t)))],
    "wrong types": _in_place(_wrong_types),
    "out of range": _in_place(_out_of_range),
    "nan": _in_place(_nan),
    "second json": _second_json,
    "duplicate keys": _in_place(_duplicate_key),
    "thought without an end": lambda t, _d: f"<think>{_text(t)}",
    "echoed shape": _each(lambda _k, v: v if isinstance(v, dict | list) else "<text>"),
    "unknown chunks": _set("chunks", lambda v: [*v, 99]),
    "one id": _set("id", lambda v: v[0] + "1"),
    "nested": lambda t, _d: _text({"result": t}),
    "endless number": lambda t, _d: re.sub(r": [0-9.]+", ": " + "9" * 5000, _text(t), count=1),
    "contrary begun, then whole": lambda t, d: _begun(t, d) + _text(t),
    "contrary as the next turn": lambda t, _d: (
        f"{_text(t)}\nUser: and now?\nAssistant: {_text(_opposite(t))}"
    ),
    "contrary in a thought that ends twice": lambda t, _d: (
        f"<think>{_text(_opposite(t))}</think> so </think>{_text(t)}"
    ),
    "closed after an element": _closed,
    "deeply nested": lambda t, _d: _text(t)[:-1] + ', "x": ' + "[" * 100_000,
    "ratings up to one": _each(lambda k, v: v / 100 if k == "rating" and 0 < v < 100 else v),
    "item that nobody asked for": _in_place(_extra_item),
}
"""A form by its name: makes the text of a reply."""
