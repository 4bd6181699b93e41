"""Sheets, questions and answers that vary by seed, so that no rule fits their words by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

SYLLABLES: Final = ("bra", "dun", "fel", "gor", "hem", "kis", "lom", "mar", "nev", "osk", "pul")
THINGS: Final = (
    ("ferry", "leaves the north quay at {n} minutes past the hour, on working days only"),
    ("museum", "opens its doors to {n} visitors a day, of whom a third come from abroad"),
    ("bakery", "sells {n} loaves before noon and keeps the rest for the school next door"),
    ("library", "lends {n} volumes a week; novels come back late, maps come back torn"),
    ("station", "has {n} lockers of which half are broken since the flood of last spring"),
    ("orchard", "bears {n} crates of pears in a dry year and almost nothing in a wet one"),
    ("theatre", "seats {n} people, and the balcony is closed whenever it rains for a week"),
    ("quarry", "employs {n} masons who cut the pale stone of which the town hall is built"),
)


class Texts:
    """Eight sheets about things that do not exist, and what can be asked about them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        things = self.random.sample(THINGS, len(THINGS))
        self.names = [f"{kind} of {self._name()}" for kind, _ in things]
        self.numbers = [self.random.randrange(20, 900) for _ in things]
        self.sheets = [
            f"The {name} {fact.format(n=n)}."
            for name, (_, fact), n in zip(self.names, things, self.numbers, strict=True)
        ]

    def _name(self) -> str:
        return "".join(self.random.choices(SYLLABLES, k=3)).capitalize()

    def question(self, *numbers: int) -> str:
        about = " and the ".join(self.names[number] for number in numbers)
        return f"What is known about the {about}?"

    def answer(self, number: int) -> str:
        return f"As the papers say, {self.numbers[number]} is the figure of {self.names[number]}."

    def short(self, number: int) -> str:
        return f"{self.numbers[number]}."

    def within(self, prompt: str, sheets: Sequence[str] = ()) -> list[str]:
        shown = [(prompt.find(sheet), sheet) for sheet in sheets or self.sheets]
        return [sheet for position, sheet in sorted(shown) if position >= 0]
