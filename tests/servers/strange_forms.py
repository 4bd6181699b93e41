"""Replies begun again, merged, translated, echoed or rescaled, beside the forms of one reply."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

__all__ = ["STRANGE", "STRANGE_HARMLESS", "opposite"]

Form: TypeAlias = Callable[[Any, random.Random], str]
Change: TypeAlias = Callable[[str, Any], Any]
_MOST = {"rating": 100, "score": 100, "value": 6}
_WORDS = ("zero", "one", "two", "three", "four", "five")
_GERMAN = {"supported": "belegt", "contradicted": "widerlegt", "not_stated": "nicht erwähnt"}
_ARABIC = {ord(str(digit)): 0x660 + digit for digit in range(10)}
_EXAMPLE = {"id": "a1", "quote": "Some ferries", "reason": "some, not all", "verdict": "not_stated"}


def _text(tree: Any) -> str:
    return json.dumps(tree, ensure_ascii=False)


def _changed(node: Any, change: Change, key: str = "") -> Any:
    """The reply with every value changed by its key, inner ones first."""
    if isinstance(node, dict):
        node = {name: _changed(part, change, name) for name, part in node.items()}
    elif isinstance(node, list):
        node = [_changed(part, change, key) for part in node]
    return change(key, node)


def _rows(node: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """The reply with every element of a list changed."""
    return _changed(
        node,
        lambda _key, part: (
            [change(row) if isinstance(row, dict) else row for row in part]
            if isinstance(part, list)
            else part
        ),
    )


def _keys(node: Any, rename: Callable[[str], str]) -> Any:
    return _changed(
        node,
        lambda _key, part: (
            {rename(name): value for name, value in part.items()}
            if isinstance(part, dict)
            else part
        ),
    )


def opposite(tree: Any) -> Any:
    """A reply that fits the shape as well as the true one, and says the contrary of all of it."""
    return _changed(tree, _opposite)


def _opposite(key: str, value: Any) -> Any:
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


def _begun(tree: Any, draw: random.Random) -> str:
    """The beginning of the contrary reply, cut before a value as often as anywhere."""
    text = _text(opposite(tree))
    places = [match.end() for match in re.finditer(r"[:,\[] ?", text)]
    return text[: draw.choice(places) if draw.random() < 0.7 else draw.randrange(len(text))]


def _part(tree: Any, draw: random.Random) -> tuple[str, str]:
    text = _text(tree)
    at = draw.randrange(1, len(text))
    return text[:at], text[at:]


def _after(start: str, between: str = "", end: str = "") -> Form:
    """The contrary reply is begun, then the true one stands there whole."""
    return lambda tree, draw: f"{start}{_begun(tree, draw)}{between}{_text(tree)}{end}"


def _begun_twice(tree: Any, draw: random.Random) -> str:
    """Both are cut, the true one behind its first key: from there on it can be told."""
    text = _text(tree)
    return _begun(tree, draw) + text[: draw.randrange(text.index(":") + 1, len(text))]


def _overlapping(tree: Any, draw: random.Random) -> str:
    """The rest is begun with the last object once more."""
    before, rest = _part(tree, draw)
    return before + before[before.rindex("{") :] + rest


def _closed(tree: Any, draw: random.Random) -> str:
    """The reply ends after an element, and what is open is closed."""
    text = _text(tree)
    text = text[: draw.choice([match.end() for match in re.finditer("}", text)] or [len(text)])]
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    unclosed: list[str] = []
    for mark in re.findall(r"[\[\]{}]", bare):
        unclosed = [*unclosed, "]" if mark == "[" else "}"] if mark in "[{" else unclosed[:-1]
    return text + "".join(reversed(unclosed))


def _merged(tree: Any, draw: random.Random) -> str:
    """Two streams, the second the contrary, arrive in pieces by turns."""
    streams, text = [_text(tree), _text(opposite(tree))], ""
    most = min(40, len(streams[0]) // 3)
    while any(streams):
        for at, stream in enumerate(streams):
            size = draw.randrange(1, most)
            text, streams[at] = text + stream[:size], stream[size:]
    return text


def _stuttered(tree: Any, draw: random.Random) -> str:
    """A piece with the beginning of an object arrives twice."""
    text = _text(tree)
    at = draw.choice([match.start() for match in re.finditer(r"\{", text)])
    return text[: at + 12] + text[at:]


def _lines(tree: Any, _draw: random.Random) -> str:
    rows = [(name, row) for name, part in tree.items() if isinstance(part, list) for row in part]
    return "\n".join(_text({name: [row]}) for name, row in rows) or _text(tree)


def _table(tree: Any) -> str:
    rows = [(name, _text(part)) for name, part in tree.items()]
    return "| group | content |\n|---|---|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows)


def _yaml(tree: Any, _draw: random.Random) -> str:
    return "\n".join(f"{name}:\n  - {_text(part)[1:-1]}" for name, part in tree.items())


def _twice(tree: Any, draw: random.Random) -> str:
    """A key stands in one object twice, in two cases or in one, the second with the contrary."""
    text, other = _text(tree), opposite(tree)
    name = draw.choice(list(tree))
    second = draw.choice((name, name, name.upper(), name.title()))
    return f"{text[:-1]}, {_text({second: other[name]})[1:]}"


def _extra_item(tree: Any, draw: random.Random) -> str:
    """An item stands there that was not asked for, in a group or as a group."""
    grown = json.loads(_text(tree))
    lists = [part for part in grown.values() if isinstance(part, list) and part]
    if not lists or draw.random() < 0.3:
        return _text(grown | {"overall": opposite(tree), "summary": 3})
    rows = draw.choice(lists)
    row = dict(draw.choice(rows))
    named = {"id": "a99", "chunk": 77, "sentence": 88}
    rows.insert(draw.randrange(len(rows) + 1), row | {k: v for k, v in named.items() if k in row})
    return _text(grown)


def _leaves(change: Change) -> Form:
    return lambda tree, _draw: _text(_changed(tree, change))


def _every_row(change: Callable[[dict[str, Any]], Any]) -> Form:
    return lambda tree, _draw: _text(_rows(tree, change))


def _verdict_turned(row: dict[str, Any]) -> dict[str, Any]:
    """The verdict speaks against the chunks that the same element names."""
    if "chunks" not in row:
        return row
    return row | ({"verdict": "supported"} if not row["chunks"] else {"verdict": "contradicted"})


def _worded(_key: str, value: Any) -> Any:
    small = type(value) is int and 0 <= value < len(_WORDS)
    return _WORDS[value] if small else "eighty-five" if type(value) in (int, float) else value


def _of_100(key: str, value: Any) -> Any:
    return value / 100 if key in ("rating", "score") and 0 < value < 100 else value


def _number(make: Callable[[Any], Any]) -> Form:
    return _leaves(lambda _k, v: make(v) if type(v) in (int, float) else v)


STRANGE: Mapping[str, Form] = {
    "contrary begun, then whole": _after(""),
    "contrary begun, then whole on a new line": _after("", "\n\n"),
    "contrary begun, then whole after a comma": _after("", ", "),
    "contrary begun, then an apology": _after("", "\nSorry, from the start:\n"),
    "contrary begun in a fence": _after("```json\n", "\n```json\n", "\n```"),
    "contrary begun in a list": _after("[", "", "]"),
    "contrary begun, closed later": _after("", "", "}"),
    "contrary begun, then begun": _begun_twice,
    "contrary begun, thought, whole": _after("", "<think>No.</think>"),
    "contrary begun after the whole": lambda t, d: f"{_text(t)}\n{_begun(t, d)}",
    "contrary as the next turn": lambda t, _d: (
        f"{_text(t)}\nUser: and now?\nAssistant: {_text(opposite(t))}"
    ),
    "contrary in other thought marks": lambda t, _d: (
        f"[THINK]{_text(opposite(t))}[/THINK]{_text(t)}"
    ),
    "contrary in a thought that ends twice": lambda t, _d: (
        f"<think>{_text(opposite(t))}</think> so </think>{_text(t)}"
    ),
    "contrary in a nested fence": lambda t, _d: (
        f"````md\n```json\n{_text(opposite(t))}\n```\n````\n```json\n{_text(t)}\n```"
    ),
    "begun again whole": lambda t, d: _part(t, d)[0] + _text(t),
    "continued with an overlap": _overlapping,
    "continued after a note": lambda t, d: "\n(continued)\n".join(_part(t, d)),
    "continued in a second fence": lambda t, d: (
        "```json\n" + "\n```\n```json\n".join(_part(t, d)) + "\n```"
    ),
    "closed after an element": _closed,
    "merged streams": _merged,
    "stuttered": _stuttered,
    "one object a line": _lines,
    "one object a line, contrary last": lambda t, d: (
        f"{_text(t)}\n{_lines(opposite(t), d).splitlines()[-1]}"
    ),
    "table": lambda t, _d: _table(_keys(t, str.title)),
    "table of the contrary before": lambda t, _d: f"{_table(opposite(t))}\n\n{_text(t)}",
    "yaml": _yaml,
    "python": lambda t, _d: repr(t),
    "html": lambda t, _d: html.escape(_text(t)),
    "json in a text": lambda t, _d: _text(_text(t)),
    "tool call": lambda t, _d: _text({"name": "verdicts", "arguments": t}),
    "curved quotes": lambda t, _d: re.sub(r'"([^"]*)"', r"“\1”", _text(t)),
    "boxed": lambda t, _d: f"\\boxed{{{_text(t)}}}",
    "deeply nested": lambda t, _d: _text(t)[:-1] + ', "x": ' + "[" * 100_000,
    "keys in capitals": lambda t, _d: _text(_keys(t, str.upper)),
    "keys in camel case": lambda t, _d: _text(
        _keys(t, lambda name: re.sub("_(.)", lambda match: match[1].upper(), name))
    ),
    "group twice": _twice,
    "german verdicts": _leaves(lambda _k, v: _GERMAN.get(v, v) if isinstance(v, str) else v),
    "second reply in german": lambda t, _d: (
        f"{_text(t)}\n{_text(_keys(opposite(t), lambda name: 'antwort_' + name))}"
    ),
    "yes and no": _leaves(lambda _k, v: ("no", "yes")[v] if isinstance(v, bool) else v),
    "numbers as words": _leaves(_worded),
    "numbers with a comma": _number(lambda v: f"{v},0"),
    "numbers as shares": _number(lambda v: f"{v}/100"),
    "numbers in other digits": _number(lambda v: str(v).translate(_ARABIC)),
    "ratings up to one": _leaves(_of_100),
    "ids without a letter": _every_row(
        lambda row: row | ({"id": row["id"][1:]} if re.match(r"\w\d", row.get("id", "")) else {})
    ),
    "two ids in one": _every_row(lambda row: row | ({"id": "a1, a2"} if "id" in row else {})),
    "item that nobody asked for": _extra_item,
    "verdict against its chunks": _every_row(_verdict_turned),
    "quotes of one word": _every_row(
        lambda row: row | ({"quote": "and"} if "quote" in row else {})
    ),
    "elements as lists": _every_row(lambda row: list(row.values())),
    "worked example before": lambda t, _d: (
        f"{_text({name: [_EXAMPLE] for name in t})}\n{_text(t)}"
    ),
    "schema before": lambda t, _d: (
        f"{_text({'type': 'object', 'properties': opposite(t)})}\n{_text(t)}"
    ),
    "server's events": lambda t, _d: (
        f"data: {_text({'choices': [{'delta': {'content': _text(t)}}]})}"
    ),
}  # fmt: skip
"""A form by its name: makes the text of a reply."""
STRANGE_HARMLESS = frozenset({"boxed", "schema before", "second reply in german"})
"""Names of those that cost nothing, however often they come."""
