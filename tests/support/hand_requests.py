"""Random requests, and what was captured in their form."""

from __future__ import annotations

import random
from dataclasses import dataclass

from rag_eval_hooks import Sample
from rag_eval_hooks.sample import Status

ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзиклмнопрстуф",
    "αβγδεζηθικλμνξοπρστ",
    "日本語東京大阪駅電車時間",
)


@dataclass(frozen=True)
class Request:
    question: str
    documents: tuple[str, ...]
    answer: str


def random_text(dice: random.Random, least: int, most: int) -> str:
    letters = dice.choice(ALPHABETS)
    length = dice.randint(least, most)
    words = ("".join(dice.choices(letters, k=dice.randint(2, 9))) for _ in range(length))
    return " ".join(words)


def random_request(dice: random.Random) -> Request:
    documents = tuple(random_text(dice, 12, 60) + "." for _ in range(dice.randint(1, 5)))
    return Request(random_text(dice, 3, 12) + "?", documents, random_text(dice, 4, 30) + ".")


def as_request(sample: Sample) -> Request:
    assert sample.status is Status.OK
    contexts = tuple(context.text for context in sample.contexts or ())
    return Request(sample.question, contexts, sample.answer or "")
