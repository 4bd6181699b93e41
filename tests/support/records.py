"""Records drawn by a seed: short values in levels, as interfaces answer with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import create_model

from tests.support.variation import Variation


def drawn_record(draw: Variation, depth: int = 2) -> dict[str, Any]:
    record: dict[str, Any] = {
        draw.name(): draw.word(),
        draw.name(): draw.chance.randint(1000, 9999),
        draw.name(): [draw.name() for _ in range(draw.chance.randint(1, 3))],
        draw.name(): draw.chance.choice([None, True, 1.25]),
    }
    if depth:
        record[draw.name()] = drawn_record(draw, depth - 1)
        names = [draw.name() for _ in range(draw.chance.randint(2, 4))]
        lines = [{name: draw.name() for name in names} for _ in range(draw.chance.randint(1, 3))]
        record[draw.name()] = lines
    parts = list(record.items())
    draw.chance.shuffle(parts)
    return dict(parts)


def number_in(record: dict[str, Any]) -> str:
    return str(next(value for value in record.values() if type(value) is int))


def as_model(held: Any, draw: Variation) -> Any:
    if not isinstance(held, dict):
        return held
    values = {name: as_model(value, draw) for name, value in held.items()}
    fields: Any = dict.fromkeys(values, (Any, ...))
    return create_model(draw.name().title(), **fields)(**values)


def envelope(draw: Variation, texts: Sequence[str]) -> dict[str, Any]:
    """Return a reply of a search: hits at any depth, with counts, echoes and pages beside them."""
    key = draw.name()
    found: Any = [{draw.name(): draw.chance.randint(1, 9), key: text} for text in texts]
    for _ in range(draw.chance.randint(0, 2)):
        total = {draw.name(): len(texts), draw.name(): draw.name()}
        found = {draw.name(): total, draw.name(): found}
    paging = {draw.name(): draw.chance.randint(1, 9), draw.name(): f"{draw.name()} {draw.name()}"}
    parts = [(draw.name(), draw.name()), (draw.name(), found), (draw.name(), paging)]
    draw.chance.shuffle(parts)
    return dict(parts)


NO_FINDS: dict[str, Callable[[Variation], Any]] = {
    "a clock": lambda draw: f"2027-0{draw.chance.randint(1, 9)}-11T21:47:03+09:00",
    "a failure": lambda draw: {"error": {"code": 503, "message": draw.sentence()}, "data": None},
    "an empty page": lambda draw: {draw.name(): [], draw.name(): {draw.name(): 0, draw.name(): 1}},
}
"""Replies of tools that found nothing, by name."""

FINDS: dict[str, Callable[[Variation, str], Any]] = {
    "no failure": lambda draw, fact: {"error": None, draw.name(): fact, draw.name(): draw.name()},
    "no failures": lambda draw, fact: {"errors": [], draw.name(): {draw.name(): fact}},
    "a failure in part": lambda draw, fact: {"errors": [draw.name()], draw.name(): {"b": fact}},
    "a number beside nothing": lambda draw, fact: {draw.name(): [], draw.name(): int(fact)},
    "a status": lambda draw, fact: {draw.name(): fact, "status": "created", "ok": True},
    "an address": lambda draw, fact: {"success": True, draw.name(): f"{fact}@{draw.name()}.org"},
}
"""Replies that look like failures or receipts and hold a fact, by name."""

RECORD_FORMS: dict[str, Callable[[dict[str, Any], Variation], Any]] = {
    "a mapping": lambda record, _: record,
    "a model": as_model,
    "JSON": lambda record, _: json.dumps(record),
    "JSON of several lines": lambda record, _: json.dumps(record, indent=2, ensure_ascii=False),
    "its repr": lambda record, _: repr(record),
    "a row of one value": lambda record, _: f"[({number_in(record)},)]",
}
"""Forms in which a tool returns a record, by name."""
