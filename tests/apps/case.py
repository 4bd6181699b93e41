"""Cases of third-party applications: one question each, with the expected sample."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.matrix.check import check
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World
from tests.support.variation import Variation, run_seed


class Texts(Variation):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sheets = [self.sentence() for _ in range(8)]
        self.answer, self.figure = self.sentence(), self.short()
        # Two are near, one of them more: what ranks by nearness has no ties.
        self.sheet, other = self.chance.sample(self.sheets, 2)
        self.query = self.sheet[:12]
        self.asked = f"{self.question()[:-1]} {self.sheet[:40]} {other[:20]}?"

    def within(self, prompt: str) -> list[str]:
        shown = sorted((prompt.find(sheet), sheet) for sheet in self.sheets)
        return [sheet for position, sheet in shown if position >= 0]


@dataclass(frozen=True)
class Case:
    """A question for an application, with the expected contexts and answer."""

    chain: Any
    given: Any
    contexts: Sequence[str] | Callable[[], Sequence[str]]
    answer: str
    config: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[Any], Any] | None = None


Make = Callable[[Texts], Case]


class Apps:
    def __init__(self, call: Callable[[Case, World, str], None]) -> None:
        self.call = call
        self.cases: list[Any] = []

    def app(self, name: str, *ways: str) -> Callable[[Make], Make]:
        def register(make: Make) -> Make:
            self.cases += [pytest.param(make, way, id=f"{name}, {way}") for way in ways]
            return make

        return register

    def check(self, make: Make, way: str) -> None:
        texts = Texts(run_seed() + zlib.crc32(make.__name__.encode()))
        try:
            case = make(texts)
        except ImportError as error:
            if (error.name or "").startswith("rag_eval_hooks"):
                raise
            pytest.skip(str(error))

        def due(_: str) -> list[Expected]:
            shown = case.contexts() if callable(case.contexts) else case.contexts
            due = Expected(question=texts.asked, contexts=shown, answer=case.answer, spans=None)
            return [due]

        shape = Shape(
            group="applications",
            name=make.__name__,
            ways=[way],
            run=lambda world, way: self.call(case, world, way),
            expected=due,
        )
        wrong = check(shape, way)
        assert not wrong, "\n".join(f"{aspect}: {text}" for aspect, text in wrong.items())
