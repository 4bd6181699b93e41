"""Laws of the embedded judge on pairs that differ in one thing, and on values of any size."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from rag_eval_hooks import RagEval
from rag_eval_hooks.findings import ClaimVerdict, Finding, Support, made
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.text.measures import agree, measures
from tests.support.judge_task import JudgeTask
from tests.support.variation import seeds

PAIRS = sorted((Path(__file__).parents[2] / "benchmarks" / "data").glob("minimal_pairs*.tsv"))
SEED = random.randrange(10**6)


def support(claim: str, *chunks: str, question: str = "") -> Support:
    """Return the embedded judge's verdict on one claim."""
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question=question,
        chunks=chunks,
        answer_claims=(claim,),
    )
    return made(asyncio.run(task.by(LocalJudge())).answer_support)[0]


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_few_minimal_pairs_are_judged_wrong(path: Path) -> None:
    """Of pairs that differ in one thing, few are judged wrong, and few are left unsure."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    wrong = unsure = 0
    for _language, _kind, follows, chunk, claim in rows:
        found = support(claim, chunk.replace("\\n", "\n"))
        unsure += not found.sure
        wrong += found.sure and found.supported != (follows == "yes")
    assert wrong <= 0.05 * len(rows)
    assert unsure <= 0.25 * len(rows)


@pytest.mark.parametrize(
    ("chunk", "said", "other"),
    [
        ("The tank holds {a} litres.", "The tank holds {a} litres.", "The tank holds {b} litres."),
        ("The road is {a} km long.", "The road is {a}000 metres long.", "The road is {b} km long."),
        (
            "Der Kurs dauert {a} Stunden.",
            "Der Kurs dauert {a} Stunden.",
            "Der Kurs dauert {b} Tage.",
        ),
        ("La visite coûte {a} euros.", "La visite coûte {a} euros.", "La visite coûte {b} euros."),
        ("El pozo tiene {a} metros.", "El pozo tiene {a} metros.", "El pozo tiene {b} metros."),
    ],
)
def test_another_value_contradicts(chunk: str, said: str, other: str) -> None:
    """A quantity supports a claim in any unit; another one contradicts it, and both are named."""
    chance = random.Random(SEED)
    one, two = chance.sample(range(21, 999), 2)
    source = chunk.format(a=one)
    assert support(said.format(a=one), source).supported, SEED
    found = support(other.format(b=two), source)
    assert found.verdict is ClaimVerdict.CONTRADICTED, SEED
    assert str(two) in found.reason
    assert str(one) in found.reason
    assert found.quote == source


def test_values_of_two_items_are_not_exchanged() -> None:
    """A value that the chunk gives to another row of the same table contradicts the claim."""
    chance = random.Random(SEED)
    names = chance.sample(["Alder", "Birch", "Cedar", "Hazel", "Maple", "Rowan"], 3)
    heights = chance.sample(range(10, 99), 3)
    rows = [f"{name} | {height} m" for name, height in zip(names, heights, strict=True)]
    table = "\n".join(["Tree | Height", *rows])
    assert support(f"The {names[0]} is {heights[0]} m high.", table).supported, SEED
    found = support(f"The {names[0]} is {heights[1]} m high.", table)
    assert found.verdict is ClaimVerdict.CONTRADICTED, SEED


def test_roles_are_not_exchanged() -> None:
    """Subject and object change places only with the voice of the verb."""
    chance = random.Random(SEED)
    one, two = chance.sample(["Anna", "Boris", "Clara", "Dmitri", "Emeka", "Farah"], 2)
    verb = chance.choice(["sued", "hired", "praised", "invited", "defeated"])
    chunk = f"{one} {verb} {two} last year."
    assert support(f"{two} was {verb} by {one}.", chunk).supported, SEED
    assert not support(f"{two} {verb} {one}.", chunk).supported, SEED
    assert not support(f"{one} was {verb} by {two}.", chunk).supported, SEED


@pytest.mark.parametrize(
    ("claim", "chunk"),
    [
        ("The cat slept on the couch.", "The dog slept on the couch."),
        ("The museum is closed on holidays.", "Das Museum ist an den Feiertagen geschlossen."),
        (
            "leaves ferry 22:40 the of at last.",
            "The last of the ferries, the ferry leaves at 22:40.",
        ),
    ],
)
def test_what_it_cannot_tell_is_unsure(claim: str, chunk: str) -> None:
    """Another word in the same place, another language, and words in disorder are not judged."""
    found = support(claim, chunk)
    assert found.verdict is ClaimVerdict.UNSURE
    assert found.reason


def test_who_and_what_are_not_exchanged_in_other_shapes() -> None:
    """Comparisons, steps, doers behind "by" and shortened lists are not turned round."""
    chance = random.Random(SEED)
    one, two, three = chance.sample(["Anna", "Boris", "Clara", "Dmitri", "Emeka", "Farah"], 3)
    more = chance.choice(["taller", "older", "faster"])
    for said, turned in (
        (f"{one} is {more} than {two}.", f"{two} is {more} than {one}."),
        (f"First {one} speaks, then {two} sings.", f"First {two} sings, then {one} speaks."),
        (f"{one} was elected by {two}.", f"{two} was elected by {one}."),
        (
            f"{one} leads sales, {two} research and {three} support.",
            f"{two} leads support.",
        ),
    ):
        assert not support(turned, said).supported, (SEED, turned)
    assert support(f"{one} is {more} than {two}.", f"{one} is {more} than {two}.").supported, SEED


def test_what_a_chunk_calls_possible_is_not_stated() -> None:
    """A claim is not borne out by a sentence that says so with "may" or "probably"."""
    chance = random.Random(SEED)
    hedge = chance.choice(["may", "might", "could", "probably"])
    verb = "have" * (hedge != "probably")
    chunk = f"A faulty heater {hedge} {verb} caused the fire in the mill."
    assert not support("A faulty heater caused the fire in the mill.", chunk).supported, hedge
    assert support("A faulty heater may have caused the fire in the mill.", chunk).supported, hedge


def test_a_denied_claim_is_judged_by_what_it_denies() -> None:
    """A claim "it is false that X" is contradicted by X, and no longer supported by its words."""
    chunk = "The museum is free on Sundays."
    found = support("It is false that the museum is free on Sundays.", chunk)
    assert found.verdict is ClaimVerdict.CONTRADICTED
    assert support("It is false that the museum is free on Mondays.", chunk).supported


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("1.5 km", "1500 metres", True),
        ("sechs Stunden", "6 hours", True),
        ("soixante-dix euros", "70 €", True),
        ("10:40 pm", "22:40", True),
        ("March 14, 2024", "14/03/2024", True),
        ("in 2024", "14 March 2024", True),
        ("14 March 2024", "2024", False),
        ("about 1 million", "1,003,412", True),
        ("1 million", "1,300,000", False),
        ("120 euros", "120 kroner", False),
        ("475 litres", "476 litres", False),
        ("5.5 km", "5.48 km", True),
        ("more than 120", "120", False),
        ("212 °F", "100 °C", True),
        ("40 litres per minute", "40 litres per hour", False),
        ("120 litres per minute", "2 litres per second", True),
        ("105 minutes", "1 hour and 45 minutes", True),
        ("anderthalb Stunden", "90 minutes", True),
        ("half of the staff", "50 %", True),
    ],
)
def test_quantities_are_compared_as_values(one: str, two: str, same: bool) -> None:
    """Units, number words, dates and clocks are compared by what they come to."""
    (said,), (stated,) = measures(one), measures(two)
    assert agree(said, stated) is same


@pytest.mark.parametrize(
    ("text", "values"),
    [("It took (six) hours, or seven.", (6, 7)), ("La part est de 8,5 pour cent.", (8.5,))],
)
def test_number_words_are_read_beside_any_sign(text: str, values: tuple[float, ...]) -> None:
    """Number words count beside brackets and stops too, and the one of "per cent" does not."""
    assert tuple(measure.value for measure in measures(text)) == values


def test_labels_are_no_quantities() -> None:
    """The numbers of steps, passages and responses count nothing."""
    assert not measures("Response 1: see passages 2 and 3, step 4 and [5].")


@pytest.mark.parametrize("seed", seeds(12))
def test_a_label_before_an_answer_changes_no_score(seed: int) -> None:
    """Under any number a right answer has its score or none, and a wrong one no better."""
    dice = random.Random(seed)
    price, other = dice.sample(range(10, 90), 2)
    label = dice.choice(["Response {}: ", "Part {}: ", "{}. ", "({}) ", "Answer {}: "])
    thing = dice.choice(["A day ticket", "The ferry", "A locker", "The audio guide"])
    row = {"question": "What does it cost?", "contexts": [f"{thing} costs {price} euros a day."]}
    with RagEval("ragas.faithfulness", judge="local", embedder="none") as evals:

        def score(answer: str) -> float | None:
            return evals.evaluate({**row, "answer": answer})["ragas.faithfulness"].value

        assert score(f"{thing} costs {price} euros.") == 1.0
        for number in (1, dice.randint(2, 30)):
            before = label.format(number)
            assert score(f"{before}{thing} costs {price} euros.") in (1.0, None), before
            assert score(f"{before}{thing} costs {other} euros.") in (0.0, None), before
