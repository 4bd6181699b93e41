"""Finds of steps beside documents, drawn by a seed: rows, triples, hits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

from tests.support.variation import Variation

_Rows = Sequence[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class StepText:
    value: Any
    shown: Sequence[str]
    written: str
    fact: str

    def answer(self, draw: Variation) -> str:
        return draw.chance.choice([self.fact, f"{draw.word()} {self.fact}"])


def step_text(draw: Variation, form: str) -> StepText:
    rows = [(draw.name(), draw.chance.randint(1000, 9999), draw.name()) for _ in range(3)]
    value, shown = FORMS[form](draw, rows)
    _, number, unit = rows[0] if len(shown) == 1 else draw.chance.choice(rows)
    written = "\n".join(shown) if form in _BY_ROW else str(value)
    return StepText(value, shown, written, f"{number} {unit}")


def _mappings(draw: Variation, rows: _Rows) -> list[dict[str, Any]]:
    keys = [draw.name() for _ in range(3)]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _tuples(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    return list(rows), list(map(repr, rows))


def _dicts(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    written = _mappings(draw, rows)
    return written, list(map(repr, written))


def _json(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    written = _mappings(draw, rows)
    return json.dumps(written), list(map(json.dumps, written))


def _written(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    return str(rows), [str(rows)]


def _table(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    text = "\n".join(" | ".join(map(str, row)) for row in rows)
    return text, [text]


def _triples(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    texts = [f"({one}) -[{draw.name()}]-> ({number} {unit})" for one, number, unit in rows]
    return texts, texts


def _hits(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    texts = [f"{draw.sentence()} {one} {number} {unit}" for one, number, unit in rows]
    return [{"url": f"https://{draw.name()}", "snippet": text} for text in texts], texts


def _record(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    record = _mappings(draw, rows)[0]
    return record, [repr(record)]


def _nested(draw: Variation, rows: _Rows) -> dict[str, Any]:
    one, number, unit = rows[0]
    inner: Any = {draw.name(): number, draw.name(): unit}
    for _ in range(draw.chance.randint(0, 2)):
        inner = {draw.name(): inner}
    tags = [draw.name() for _ in range(draw.chance.randint(1, 3))]
    parts = [(draw.name(), one), (draw.name(), inner), (draw.name(), tags), (draw.name(), None)]
    draw.chance.shuffle(parts)
    return dict(parts)


def _nested_record(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    record = _nested(draw, rows)
    return record, [repr(record)]


def _nested_json(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    text = json.dumps(_nested(draw, rows))
    return text, [text]


def _objects(draw: Variation, rows: _Rows) -> tuple[Any, list[str]]:
    kind = make_dataclass(draw.name().title(), [draw.name() for _ in range(3)])
    values = [kind(*row) for row in rows]
    return values, list(map(repr, values))


FORMS: dict[str, Callable[[Variation, _Rows], tuple[Any, list[str]]]] = {
    "rows of a database": _tuples,
    "rows as mappings": _dicts,
    "rows as JSON": _json,
    "rows as one text": _written,
    "a table as text": _table,
    "triples": _triples,
    "hits of a search": _hits,
    "a record": _record,
    "a nested record": _nested_record,
    "a nested record as JSON": _nested_json,
    "objects": _objects,
}
"""Forms by name: the output, and the texts in it that are contexts."""

_BY_ROW = ("hits of a search",)
"""Forms of which a prompt shows the contexts, line by line."""


def beside(draw: Variation) -> dict[str, StepText]:
    """Return texts of a prompt that nobody retrieved, by name. They contain no numbers."""
    said = [re.sub(r" \d+", "", draw.passage()) for _ in range(5)]
    turns = f"Human: {said[0]}\nAI: {said[1]}"
    example = {"question": said[2], "answer": said[3]}
    values = {"a persona": said[4], "examples": [example], "a conversation": turns}
    return {name: StepText(value, (), str(value), "") for name, value in values.items()}
