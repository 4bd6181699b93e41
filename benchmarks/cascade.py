"""Measure the gain of calibration by 100 labels, and of a second judge, over the embedded one.

    python -m benchmarks.cascade [--data FOLDER] [--accuracy 0.9] [--limit N]

Calibration: the expected calibration error of answers (their least probable claim) before and
after 100 labels of the same data set, on its other answers; median of 40 draws of the labels.

Cascade: beside the embedded judge stands a simulated one that knows the labels and is wrong about
a share of the claims. One half of the sources sets the calibration and the least worth of a call,
for at most 40 % of the samples; the figures are of the other half, then the other way round. The
judge's own weights were trained on RAGTruth, these rows among others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from zlib import crc32

from benchmarks.embedded_judge import Row, claims_of, read, verdicts_of
from benchmarks.training.support_weights import labelled
from rag_eval_hooks.findings import ClaimVerdict, Finding, Findings, Support, made
from rag_eval_hooks.judges.calibration import calibration_error, fitted
from rag_eval_hooks.judges.cascade import Cascade
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.tasks import Verify

CALLS = 0.38  # of the samples of one half, for 0.4 of the other
LABELS = 100
DRAWS = 40
Labels = dict[str, bool]


@dataclass(frozen=True)
class Answer:
    """An answer with its claims, and whether the contexts support each."""

    row: Row
    claims: Labels


class Simulated(LocalJudge):
    """Judge that knows the labels and is wrong about a share of the claims."""

    annotator_kind = AnnotatorKind.LLM

    def __init__(self, answers: Sequence[Answer], accuracy: float) -> None:
        super().__init__()
        self.calls = 0
        self._says = {
            (one.row["question"], claim): right == (_draw(claim) < accuracy)
            for one in answers
            for claim, right in one.claims.items()
        }

    async def verify(self, task: Verify) -> Findings:
        """Return the simulated verdicts."""
        self.calls += 1
        chunks = len(task.chunks)
        found = tuple(
            Support((self._says[task.question, claim],) * chunks, reason="simulated")
            for claim in task.answer_claims
        )
        return Findings(answer_support=found)


def _draw(text: str) -> float:
    return crc32(text.encode()) / 2**32


async def answers_of(judge: LocalJudge, rows: Sequence[Row]) -> list[Answer]:
    """Return the answers with the labels of their claims."""
    found = []
    for row in rows:
        claims: Labels = {}
        for _, sentence, wrong in labelled(row):
            claims |= dict.fromkeys(await claims_of(judge, {**row, "answer": sentence}), not wrong)
        if claims:
            found.append(Answer(row, claims))
    return found


async def verdicts(judge: LocalJudge | Cascade, answer: Answer) -> Sequence[Support]:
    """Return the verdicts of a judge on the claims of an answer."""
    task = Verify(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question=answer.row["question"],
        chunks=tuple(answer.row["contexts"]),
        answer_claims=tuple(answer.claims),
    )
    return made((await judge.verify(task)).answer_support)


def doubt(found: Sequence[Support], accuracy: float) -> float:
    """Return how many verdicts of those that the second judge would better are wrong, as hoped."""
    doubts = [min(p, 1 - p) for one in found if (p := one.probability) is not None]
    return sum(one for one in doubts if one > 1 - accuracy)


def agreement(answers: Sequence[Answer], found: Sequence[Sequence[Support]]) -> str:
    """Return the shares of claims and of answers that are judged as labelled."""
    claims = hits = whole = 0
    for answer, said in zip(answers, found, strict=True):
        verdicts_ = [one.verdict is ClaimVerdict.SUPPORTED for one in said]
        right = list(answer.claims.values())
        hits += sum(a == b for a, b in zip(verdicts_, right, strict=True))
        claims += len(right)
        whole += all(verdicts_) == all(right)
    return f"claims {hits / claims:.3f}, answers {whole / len(answers):.3f}"


async def run(answers: Sequence[Answer], accuracy: float) -> None:
    """Print the agreement of both judges with the labels, alone and as a cascade."""
    halves: tuple[list[Answer], list[Answer]] = ([], [])
    for answer in answers:
        halves[crc32(str(answer.row["labels"]["source_id"]).encode()) % 2].append(answer)
    for fit, held in (halves, halves[::-1]):
        first = await calibrated(fit)
        second = Simulated(answers, accuracy)
        doubts = sorted([doubt(await verdicts(first, one), accuracy) for one in fit], reverse=True)
        worth = doubts[int(CALLS * len(doubts))]
        alone = [await verdicts(second, answer) for answer in held]
        second.calls = 0
        cascade = Cascade(first, second, unsure=(1 - accuracy, accuracy), worth=worth, floor=0.0)
        both = [await verdicts(cascade, answer) for answer in held]
        print(f"{len(held)} answers; a call is worth {worth:.2f} wrong verdicts")
        print("first alone: ", agreement(held, [await verdicts(first, one) for one in held]))
        print("second alone:", agreement(held, alone), "calls 1.00")
        print("cascade:     ", agreement(held, both), f"calls {second.calls / len(held):.2f}")


async def calibrated(fit: Sequence[Answer]) -> LocalJudge:
    """Return the embedded judge with a calibration by labelled claims."""
    plain = LocalJudge()
    pairs = [
        (one.probability, right)
        for answer in fit
        for one, right in zip(await verdicts(plain, answer), answer.claims.values(), strict=True)
        if one.probability is not None
    ]
    made = replace(fitted([p for p, _ in pairs], [right for _, right in pairs]), cut=0.5)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.json"
        made.write(path)
        return LocalJudge(calibration=path)


async def calibration(name: str, rows: Sequence[Row]) -> str:
    """Return the expected calibration error before and after labels."""
    judge = LocalJudge()
    pairs = []
    for row in rows:
        found = await verdicts_of(judge, row, await claims_of(judge, row))
        known = [one.probability for one in found if one.probability is not None]
        pairs += [(min(known), not row["labels"]["hallucinated"])] if known else []
    before, after = [], []
    for seed in range(DRAWS):
        mixed = random.Random(seed).sample(pairs, len(pairs))
        seen, rest = mixed[:LABELS], mixed[LABELS:]
        made = fitted([p for p, _ in seen], [right for _, right in seen])
        truths = [right for _, right in rest]
        before.append(calibration_error([p for p, _ in rest], truths))
        after.append(calibration_error([made.apply(p) for p, _ in rest], truths))
    return (
        f"{name}: expected calibration error {median(before):.3f}, "
        f"{median(after):.3f} after {LABELS} labels ({len(pairs)} answers)"
    )


def main() -> None:
    """Run from the command line."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "open"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("RAGEVAL_DATA", beside))
    parser.add_argument("--accuracy", type=float, default=0.9)
    parser.add_argument("--limit", type=int, default=1000)
    given = parser.parse_args()
    rows = read(given.data / "ragtruth_qa.jsonl")[: given.limit]
    for name, some in (
        ("RAGTruth QA", rows),
        ("HaluEval QA", read(given.data / "halueval_qa.jsonl")),
    ):
        print(asyncio.run(calibration(name, some)))
    answers = asyncio.run(answers_of(LocalJudge(), rows))
    asyncio.run(run(answers, given.accuracy))


if __name__ == "__main__":
    main()
