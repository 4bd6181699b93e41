"""What steps find by themselves beside documents, drawn by a seed: rows, triples, hits."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.variation import Variation

__all__ = ["FORMS", "StepText", "beside", "step_text"]

_Rows = Sequence[tuple[str, int, str]]


@dataclass(frozen=True, slots=True)
class StepText:
    """What a step puts out.

    Attributes:
        value: The output; a prompt shows it as `str` writes it.
        shown: The texts in it that are contexts, in order.
        fact: Words that stand in it and nowhere else.
    """

    value: Any
    shown: Sequence[str]
    fact: str

    def answer(self, draw: Variation) -> str:
        """Return an answer that says the fact: in one or two words, or in a sentence."""
        return draw.chance.choice([self.fact, f"{draw.word()} {self.fact}"])


def step_text(draw: Variation, form: str) -> StepText:
    """Return what a step puts out in a form."""
    rows = [(draw.name(), draw.chance.randint(1000, 9999), draw.name()) for _ in range(3)]
    value, shown = FORMS[form](draw, rows)
    _, number, unit = draw.chance.choice(rows)
    return StepText(value, shown, f"{number} {unit}")


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


FORMS: dict[str, Callable[[Variation, _Rows], tuple[Any, list[str]]]] = {
    "rows of a database": _tuples,
    "rows as mappings": _dicts,
    "rows as JSON": _json,
    "rows as one text": _written,
    "a table as text": _table,
    "triples": _triples,
    "hits of a search": _hits,
}
"""Forms by name: the output, and the texts in it that are contexts."""


def beside(draw: Variation) -> dict[str, Any]:
    """Return by name what a prompt may hold besides that nobody retrieved."""
    turns = f"Human: {draw.sentence()}\nAI: {draw.sentence()}"
    example = {"question": draw.question(), "answer": draw.sentence()}
    return {"a persona": draw.passage(), "examples": [example], "a conversation": turns}
