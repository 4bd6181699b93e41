"""Names, texts and languages drawn by a seed, so that a test holds a rule and not one example."""

from __future__ import annotations

import os
import random
import re
import zlib
from collections.abc import Sequence

_LETTERS = ("bdfgklmnprstvz", "aeiou") * 4
_WIDE = "水火山川木金土日月星空海風雨雪花草鳥魚犬猫馬牛羊春夏秋冬朝昼夜東西南北上下"
_ARABIC = "ابتجدرسعفقكلمنهوي"
_SIGNS = re.compile("done|none")
"""Words that frameworks take for an end wherever they stand."""
LANGUAGES = ("latin", "wide", "arabic")


def seeds(count: int) -> Sequence[int]:
    given = os.environ.get("RAGEVAL_SEED")
    return [int(given)] if given else range(count)


_RUN = "RAGEVAL_RUN_SEED"


def run_seed() -> int:
    """Return the seed of this run, the same in all its processes; `RAGEVAL_SEED` replays it."""
    given = os.environ.get("RAGEVAL_SEED") or os.environ.get(_RUN)
    os.environ[_RUN] = given = given or str(random.randrange(1_000_000))
    return int(given)


class Variation:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.language = LANGUAGES[seed % len(LANGUAGES)]
        self._names: set[str] = set()

    def name(self) -> str:
        while True:
            name = "".join(self.chance.choice(letters) for letters in _LETTERS)
            if name not in self._names and not _SIGNS.search(name):
                self._names.add(name)
                return name

    def word(self) -> str:
        if self.language == "wide":
            return "".join(self.chance.choices(_WIDE, k=3))
        if self.language == "arabic":
            return "".join(self.chance.choices(_ARABIC, k=6))
        return self.name()

    def sentence(self, words: int = 0) -> str:
        drawn = [self.word() for _ in range(words or self.chance.randint(8, 20))]
        if self.language == "wide":
            return "".join(drawn) + "。"
        return f"{' '.join(drawn)} {self.chance.randint(100, 999)}."

    def passage(self) -> str:
        return " ".join(self.sentence() for _ in range(self.chance.randint(2, 4)))

    def passages(self, count: int) -> list[str]:
        return [self.passage() for _ in range(count)]

    def short(self) -> str:
        return f"{self.chance.randint(2, 99)} {self.name()[:4]}"

    def question(self) -> str:
        return self.sentence(6)[:-1] + "?"


class Wording:
    """Texts in words of a drawn language: equal words stay equal, numbers and marks stay.

    So a pipeline that was written with one example is run with as many as there are seeds.
    """

    def __init__(self, seed: int) -> None:
        self.drawn = Variation(seed)
        self._words: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        worded = re.sub(r"[^\W\d_]+", lambda match: self._word(match[0].lower()), text)
        return worded.replace(" ", "") if self.drawn.language == "wide" else worded

    def _word(self, word: str) -> str:
        if word not in self._words:
            drawn = self.drawn.word()
            self._words[word] = drawn[: max(2, len(word))] if len(word) < 4 else drawn
        return self._words[word]

    def answer(self, question: str, count: int) -> str:
        if self.drawn.seed // len(LANGUAGES) % 2:
            return f"{count}{zlib.crc32(question.encode()) % 9000 + 1000} {self('euro')}"
        return f"{self('To')} <{question}>: {count} {self('passages say it')}."
