"""Samples for load tests, drawn from a seed. No two prompts are alike."""

from __future__ import annotations

import random
from collections.abc import Iterator

from rag_eval_hooks import Sample

EIGHT = (
    "ragas.faithfulness",
    "ragas.context_precision",
    "ragas.context_precision_without_reference",
    "ragas.context_recall",
    "ragas.noise_sensitivity",
    "nvidia",
)
"""Names of the eight metrics of ten that a decision model can decide."""
_THINGS = ("lighthouse", "railway station", "observatory", "harbour", "library", "theatre", "mill")
_FIRST = ("Ada", "Bruno", "Clara", "Edgar", "Frida", "Gustav", "Ingrid", "Tomas")
_LAST = ("Lorne", "Vasko", "Hale", "Brandt", "Quist", "Moreau", "Tanaka", "Okoye")
_PLACES = ("Varne", "Ostrava", "Kilbeg", "Sandvik", "Tolmin", "Ardmore", "Lyngby", "Merano")
_TRADES = ("paper", "ropes", "glass", "cider", "clocks", "wool")
_FILLERS = (
    "The road along the coast was closed for two winters and opened again in spring.",
    "Visitors write of narrow streets, steep roofs and a market held on every second Friday.",
    "Most families kept a small garden behind the house and sold what they did not need.",
    "A register from that time lists the boats, their owners and the cargo that they carried.",
    "The council argued for years about the bridge before the first stone was laid.",
    "Letters took nine days to reach the capital and were read aloud in the inn.",
    "Fishing declined after the storms, and many of the young people moved inland.",
    "An inventory made by the parish counts forty chairs, two bells and one painting.",
    "The school was heated by peat, which the pupils had to bring from home.",
    "Later surveys correct the older maps, on which the northern shore is drawn too short.",
)
_WORDS = 120


def samples(count: int, seed: int = 7, contexts: int = 5) -> list[Sample]:
    """Samples with a question, contexts, an answer of three claims and a reference of three.

    Two claims of each answer are right; the third is made up in two of three samples.
    """
    draw = random.Random(seed)
    return [_sample(number, draw, contexts) for number in range(count)]


def planted(count: int, seed: int = 5) -> Iterator[Sample]:
    draw = random.Random(seed)
    for number in range(count):
        facts = [f"Mill {number} has {draw.randint(20, 99)} sacks of kind {n}" for n in range(9)]
        texts = [
            ". ".join([*draw.sample(facts[:6], draw.randint(0, 3)), f"Page {at} is old"]) + "."
            for at in range(draw.randint(1, 6))
        ]
        told = [" and ".join(draw.sample(facts, draw.choice((1, 1, 1, 2)))) for _ in range(8)]
        answer, reference = told[: draw.randint(1, 5)], told[draw.randint(2, 4) :]
        yield Sample(
            question=f"How many sacks has mill {number}?",
            contexts=texts,  # type: ignore[arg-type]
            answer=". ".join(answer) + ".",
            reference=". ".join(reference) + ".",
        )


def _sample(number: int, draw: random.Random, contexts: int) -> Sample:
    thing = f"{draw.choice(_THINGS)} of {draw.choice(_PLACES)} {number + 1}"
    keeper = f"{draw.choice(_FIRST)} {draw.choice(_LAST)}"
    opened = f"The {thing} was opened to the public in the year {draw.randint(1790, 1930)}."
    built = f"The {thing} was built under the direction of {keeper}."
    cost = f"The {thing} cost {draw.randint(12, 90)}000 crowns, paid by the makers of "
    cost += f"{draw.choice(_TRADES)}."
    wrong = f"The {thing} burned down in {draw.randint(1935, 1960)} and was never built again."
    facts = [opened, built, cost]
    texts = [_context(facts[n : n + 1], draw) for n in range(contexts)]
    third = cost if number % 3 == 0 else wrong
    return Sample(
        question=f"When was the {thing} opened, who built it, and what else is known of it?",
        contexts=texts,  # type: ignore[arg-type]
        answer=" ".join((opened, built, third)),
        reference=" ".join(facts),
        question_id=f"q{number + 1}",
    )


def _context(facts: list[str], draw: random.Random) -> str:
    fillers = draw.sample(_FILLERS, len(_FILLERS))
    head = fillers.pop()
    words = " ".join([head, *facts, *fillers]).split()[:_WORDS]
    return " ".join(words)
