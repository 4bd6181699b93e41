"""Agreement of the embedded judge with human labels, and its time per sample.

    python benchmarks/embedded_judge.py [--data FOLDER] [--embeddings NAME_OR_PATH] [--nli MODEL]
                                        [--limit N] [--own FILE]

`--own` prints the table of faithfulness alone for rows of your own, one JSON object a line with
`question`, `contexts`, `answer` and `labels: {"hallucinated": true or false}`.

The labelled data: set RAGEVAL_DATA, or they are looked for at ../shared/data/open beside the
repository. Without them the script says so and ends well.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from rag_eval_hooks.findings import Finding, Support, made
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.judges.local.entailer import Entailer
from rag_eval_hooks.judges.local.windows import RULES
from rag_eval_hooks.judges.sentence_embedder import SentenceEmbedder
from tests.support.judge_task import JudgeTask

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # CPU time is of one core
FOLDS = 5
WRITTEN = Path(__file__).parent / "data" / "written_claims.tsv"
PAIRS = sorted((Path(__file__).parent / "data").glob("*_pairs*.tsv"))
CORPUS = "graphrag_novel_corpus.jsonl"
AUXILIARY = re.compile(r"\b(is|are|was|were|can|will|should|does|has)\b(?! not)")
VERIFIED = frozenset(
    {
        Finding.ANSWER_SUPPORT,
        Finding.REFERENCE_SUPPORT,
        Finding.ANSWER_AGREEMENT,
        Finding.REFERENCE_AGREEMENT,
        Finding.RELEVANCE,
        Finding.RELEVANCE_TO_ANSWER,
        Finding.ENTITIES_FOUND,
    }
)
RATED = frozenset({Finding.CLASSIFICATION, Finding.DIRECT_RELEVANCE})
Row = dict[str, Any]


@dataclass(frozen=True)
class Scored:
    """A score beside its label; `positive` rows should score higher."""

    score: float
    positive: bool
    group: str = ""
    words: int = 0


def auroc(rows: Sequence[Scored], near: int | None = None) -> float:
    """Share of (positive, negative) pairs that the score orders rightly, ties counting half.

    Args:
        rows: The scores.
        near: Only pairs whose answers differ by at most so many words, or None for all pairs.
    """
    wins = pairs = 0.0
    negatives = [row for row in rows if not row.positive]
    for up in (row for row in rows if row.positive):
        for down in negatives:
            if near is None or abs(up.words - down.words) <= near:
                pairs += 1
                wins += 1.0 if up.score > down.score else 0.5 * (up.score == down.score)
    return wins / pairs if pairs else float("nan")


def fold_of(row: Scored) -> int:
    """The fold of a row, not the one by which the adapter's data are held out."""
    return crc32(f"fold {row.group}".encode()) % FOLDS


def flagged(rows: Sequence[Scored]) -> str:
    """Share of answers below a cut that flags the true share of the other folds, and true share."""
    hits = 0
    for fold in range(FOLDS):
        held = [row for row in rows if fold_of(row) == fold]
        rest = sorted(row.score for row in rows if fold_of(row) != fold)
        wrong = sum(not r.positive for r in rows if fold_of(r) != fold)
        cut = rest[min(wrong, len(rest) - 1)] if rest else 0.0
        hits += sum(row.score < cut for row in held)
    true = sum(not row.positive for row in rows)
    return f"flagged {hits / len(rows):.2f}, true {true / len(rows):.2f}"


def balanced_accuracy(rows: Iterable[Scored], threshold: float) -> float:
    """Mean of the two recalls when scores from the threshold on count as positive."""
    right = {True: [0, 0], False: [0, 0]}
    for row in rows:
        right[row.positive][0] += (row.score >= threshold) == row.positive
        right[row.positive][1] += 1
    return sum(hit / max(count, 1) for hit, count in right.values()) / 2


def f1(rows: Iterable[Scored], threshold: float) -> float:
    """F1 of the positive label."""
    flags = [(row.score >= threshold, row.positive) for row in rows]
    hit = sum(said and true for said, true in flags)
    return 2 * hit / max(sum(said for said, _ in flags) + sum(true for _, true in flags), 1)


def cross_validated(rows: Sequence[Scored]) -> float:
    """Balanced accuracy at a threshold chosen on the other folds; a group stays in one fold."""
    total = 0.0
    for fold in range(FOLDS):
        held = [row for row in rows if fold_of(row) == fold]
        rest = [row for row in rows if fold_of(row) != fold]
        cuts = sorted({row.score for row in rest})
        total += balanced_accuracy(held, max(cuts, key=lambda c: balanced_accuracy(rest, c)))
    return total / FOLDS


async def faithfulness(judge: LocalJudge, row: Row) -> float | None:
    """Probability that all claims of the answer are supported, or None without a claim."""
    found = await verdicts_of(judge, row, await claims_of(judge, row))
    return (
        math.prod(0.5 if v.probability is None else v.probability for v in found) if found else None
    )


async def claims_of(judge: LocalJudge, row: Row) -> Sequence[str]:
    """The claims of the answer."""
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_CLAIMS}), question=row["question"], answer=row["answer"]
    )
    return made((await task.by(judge)).answer_claims)


async def support_of(judge: LocalJudge, row: Row, claims: Sequence[str]) -> list[bool]:
    """Which claims the contexts support."""
    return [verdict.supported for verdict in await verdicts_of(judge, row, claims)]


async def verdicts_of(judge: LocalJudge, row: Row, claims: Sequence[str]) -> Sequence[Support]:
    """Verdicts on claims by the contexts."""
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question=row["question"],
        chunks=tuple(row["contexts"]),
        answer=row["answer"],
        answer_claims=tuple(claims),
    )
    return made((await task.by(judge)).answer_support)


async def relevance(judge: LocalJudge, row: Row, reference: str | None) -> list[float]:
    """The rating of each chunk."""
    task = JudgeTask(
        wanted=frozenset({Finding.RELEVANCE}),
        question=row["question"],
        chunks=tuple(row["contexts"]),
        reference=reference,
    )
    return [chunk.rating for chunk in made((await task.by(judge)).relevance)]


async def states(judge: LocalJudge, row: Row, reference: str) -> tuple[bool, bool]:
    """Does the answer state the reference; does the reference support any claim of the answer."""
    both = frozenset({Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS})
    texts = {"question": row["question"], "answer": row["answer"], "reference": reference}
    found = await JudgeTask(wanted=both, **texts).by(judge)
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_AGREEMENT, Finding.REFERENCE_AGREEMENT}),
        chunks=("",),
        answer_claims=made(found.answer_claims),
        reference_claims=made(found.reference_claims),
        **texts,
    )
    verdicts = await task.by(judge)
    backward = [v.holds for v in made(verdicts.reference_agreement)]
    forward = [v.holds for v in made(verdicts.answer_agreement)]
    return bool(backward) and all(backward), any(forward)


async def judge_faithfulness(judge: LocalJudge, rows: list[Row]) -> list[Scored]:
    """Faithfulness against the label `hallucinated`; answers without a claim are left out."""
    found = []
    for number, row in enumerate(rows):
        if (score := await faithfulness(judge, row)) is not None:
            labels = row["labels"]
            group = str(labels.get("source_id", row.get("id", number)))
            words = len(row["answer"].split())
            found.append(Scored(score, not labels["hallucinated"], group, words))
    return found


async def report_ragtruth(judge: LocalJudge, rows: list[Row]) -> str:
    """RAGTruth QA: AUROC and cross-validated balanced accuracy of faithfulness."""
    scored = await judge_faithfulness(judge, rows)
    return (
        f"faithfulness, RAGTruth QA: AUROC {auroc(scored):.3f}, balanced accuracy "
        f"{cross_validated(scored):.3f}, {flagged(scored)} "
        f"({len(scored)} of {len(rows)} have a claim)"
    )


async def report_halueval(judge: LocalJudge, rows: list[Row]) -> str:
    """HaluEval QA: AUROC, and over pairs of nearly equal length."""
    scored = await judge_faithfulness(judge, rows)
    return (
        f"faithfulness, HaluEval QA (unseen): AUROC {auroc(scored):.3f}; over pairs that differ "
        f"by at most one word {auroc(scored, near=1):.3f}, {flagged(scored)} "
        f"({len(scored)} of {len(rows)})"
    )


async def report_relevance(judge: LocalJudge, rows: list[Row]) -> str:
    """Chunk relevance per data set, by the question alone and with the reference."""
    parts = []
    for name, with_reference in (("hotpot", False), ("hotpot", True), ("clapnq", False)):
        scored = []
        for row in (row for row in rows if row["id"].startswith(name)):
            reference = row["reference"] if with_reference else None
            ratings = await relevance(judge, row, reference)
            labels = row["labels"]["context_relevant"]
            scored += [Scored(r, bool(v), row["id"]) for r, v in zip(ratings, labels, strict=True)]
        cut = 100 * RULES.useful
        given = "question and reference" if with_reference else "question"
        parts.append(
            f"relevance, {name} by {given}: AUROC {auroc(scored):.3f}, F1 {f1(scored, cut):.3f}, "
            f"balanced accuracy {balanced_accuracy(scored, cut):.3f}, {flagged(scored)} "
            f"({len(scored)} chunks)"
        )
    return "\n".join(parts)


async def report_correctness(judge: LocalJudge, rows: list[Row]) -> str:
    """Answer against any alias of the reference: accuracy of the agreement verdicts."""
    stated, supported = [], []
    for row in rows:
        verdicts = [await states(judge, row, alias) for alias in aliases(row["reference"])]
        stated.append(Scored(float(any(v[0] for v in verdicts)), row["labels"]["correct"]))
        supported.append(Scored(float(any(v[1] for v in verdicts)), row["labels"]["correct"]))
    lines = [await report_classification(judge, rows), await report_direct_relevance(judge, rows)]
    lines += [
        f"agreement, EVOUNA, {what}: accuracy {accuracy(scored):.3f}, "
        f"balanced {balanced_accuracy(scored, 0.5):.3f} ({len(scored)} answers)"
        for what, scored in (("answer states reference", stated), ("and back", supported))
    ]
    return "\n".join(lines)


async def report_classification(judge: LocalJudge, rows: list[Row]) -> str:
    """CORRECT by any alias of the reference, against the human label."""
    scored = []
    for row in rows:
        verdicts = [await is_correct(judge, row, alias) for alias in aliases(row["reference"])]
        scored.append(Scored(float(any(verdicts)), row["labels"]["correct"]))
    wrong = sum(row.score < 0.5 for row in scored) / len(scored)
    true = sum(not row.positive for row in scored) / len(scored)
    return (
        f"classification, EVOUNA: accuracy {accuracy(scored):.3f}, "
        f"balanced {balanced_accuracy(scored, 0.5):.3f}, flagged {wrong:.2f}, true {true:.2f} "
        f"({len(scored)} answers)"
    )


async def is_correct(judge: LocalJudge, row: Row, reference: str) -> bool:
    """The class of an answer by one reference."""
    task = JudgeTask(
        wanted=frozenset({Finding.CLASSIFICATION}),
        question=row["question"],
        answer=row["answer"],
        reference=reference,
    )
    return made((await task.by(judge)).classification).holds


async def report_direct_relevance(judge: LocalJudge, rows: list[Row]) -> str:
    """Direct relevance of each answer to its own question and to one of another row."""
    scored = []
    half = len(rows) // 2
    for row, other in zip(rows, rows[half:] + rows[:half], strict=True):
        for question in {row["question"], other["question"]}:
            task = JudgeTask(
                wanted=frozenset({Finding.DIRECT_RELEVANCE}),
                question=question,
                answer=row["answer"],
            )
            value = made((await task.by(judge)).direct_relevance)
            scored.append(Scored(value, question == row["question"]))
    return f"direct relevance, EVOUNA, own or another question: AUROC {auroc(scored):.3f}"


async def report_stance(judge: LocalJudge, rows: list[Row]) -> str:
    """Indistinct answers against the label `dont_know`; rows without a label are left out."""
    scored = []
    for row in rows:
        if row["labels"]["dont_know"] is not None:
            task = JudgeTask(
                wanted=frozenset({Finding.STANCE}), question=row["question"], answer=row["answer"]
            )
            stance = made((await task.by(judge)).stance)
            scored.append(Scored(float(stance.answer), row["labels"]["dont_know"]))
    return (
        f"stance, refusals: accuracy {accuracy(scored):.3f}, "
        f"balanced {balanced_accuracy(scored, 0.5):.3f} ({len(scored)} answers)"
    )


def aliases(reference: str) -> Iterator[str]:
    """The distinct aliases of a reference that lists them."""
    return iter(dict.fromkeys(alias for part in reference.split("/") if (alias := part.strip())))


def accuracy(rows: Sequence[Scored]) -> float:
    """Share of right verdicts at 0.5."""
    return sum((row.score >= 0.5) == row.positive for row in rows) / len(rows)


async def report_time(judge: LocalJudge, rows: list[Row]) -> str:
    """CPU time of all findings of a sample with five chunks of 1 kB."""
    pool = " ".join(chunk for row in rows for chunk in row["contexts"])
    samples = []
    for at, row in enumerate(rows[:100]):
        body = " ".join(row["contexts"]) + pool[5000 * at : 5000 * (at + 1)]
        samples.append((row, tuple(body[1000 * i : 1000 * (i + 1)] for i in range(5))))
    start = time.process_time()
    for row, chunks in samples:
        await all_findings(judge, row, chunks)
    spent = 1000 * (time.process_time() - start) / len(samples)
    return f"time: {spent:.2f} ms CPU a sample, all findings, five chunks of 1 kB"


async def all_findings(judge: LocalJudge, row: Row, chunks: tuple[str, ...]) -> None:
    """Everything the judge can say of a sample, the first words of a chunk as reference."""
    texts = {"question": row["question"], "answer": row["answer"], "reference": chunks[0][:150]}
    first = frozenset({Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS, Finding.ENTITIES})
    found = await JudgeTask(wanted=first | {Finding.STANCE}, **texts).by(judge)
    await JudgeTask(
        wanted=VERIFIED,
        chunks=chunks,
        answer_claims=made(found.answer_claims),
        reference_claims=made(found.reference_claims),
        entities=made(found.entities),
        **texts,
    ).by(judge)
    await JudgeTask(wanted=RATED, **texts).by(judge)


async def report_denials(judge: LocalJudge, rows: list[Row]) -> str:
    """Supported claims of answers without a hallucination, and the same with a "not" put in."""
    planted = refused = 0
    for row in (row for row in rows if not row["labels"]["hallucinated"]):
        claims = await claims_of(judge, row)
        verdicts = await support_of(judge, row, claims)
        pairs = zip(claims, verdicts, strict=True)
        denials = [text for claim, held in pairs if held and (text := denial(claim))]
        held = await support_of(judge, row, denials)
        planted += len(held)
        refused += len(held) - sum(held)
    return f"support, RAGTruth QA: {refused / planted:.3f} of {planted} planted denials refused"


def denial(claim: str) -> str | None:
    """The claim with "not" after its only auxiliary verb, or None where that is not so simple."""
    if "not" in claim or "n't" in claim or len(AUXILIARY.findall(claim)) != 1:
        return None
    return AUXILIARY.sub(r"\1 not", claim)


REPORTS: dict[str, Callable[[LocalJudge, list[Row]], Any]] = {
    "ragtruth_qa.jsonl": report_ragtruth,
    "ragtruth_qa_train_rest.jsonl": report_denials,
    "halueval_qa.jsonl": report_halueval,
    "context_relevance.jsonl": report_relevance,
    "answer_correctness.jsonl": report_correctness,
    "refusals.jsonl": report_stance,
}


async def report_pairs(judge: LocalJudge, path: Path) -> str:
    """Minimal pairs: sure and wrong, and unsure."""
    lines = path.read_text("utf-8").splitlines()
    wrong = unsure = 0
    for _language, _kind, follows, chunk, claim in (line.split("\t") for line in lines):
        row = {"question": "", "contexts": [chunk.replace("\\n", "\n")], "answer": claim}
        (found,) = await verdicts_of(judge, row, [claim])
        unsure += not found.sure
        wrong += found.sure and found.supported != (follows == "yes")
    share = f"sure and wrong {wrong / len(lines):.3f}, unsure {unsure / len(lines):.3f}"
    return f"{path.stem}: {share} ({len(lines)})"


async def report_written(judge: LocalJudge, folder: Path) -> str:
    """Claims written for passages of novels: paraphrases, and summaries with one thing changed."""
    passages = {row["passage_id"]: row["text"] for row in read(folder / CORPUS)}
    scored: dict[str, list[Scored]] = {}
    for line in WRITTEN.read_text("utf-8").splitlines():
        kind, passage, follows, claim = line.split("\t")
        row = {"question": "", "contexts": [passages[passage]], "answer": claim}
        (found,) = await verdicts_of(judge, row, [claim])
        score = 0.5 if found.probability is None else found.probability
        scored.setdefault(kind, []).append(Scored(score, follows == "yes", passage))
    figures = (f"{k}: AUROC {auroc(v):.3f}, {flagged(v)} ({len(v)})" for k, v in scored.items())
    return "\n".join(f"written claims, {figure}" for figure in figures)


async def report_support_time(judge: LocalJudge, rows: list[Row]) -> str:
    """Median CPU time of the support of an answer."""
    await verdicts_of(judge, rows[0], ["The model is loaded by this claim."])
    spent = []
    for row in rows[::25]:
        start = time.process_time()
        await faithfulness(judge, row)
        spent.append(1000 * (time.process_time() - start))
    return f"time: {statistics.median(spent):.1f} ms CPU for the support of an answer, median"


async def run(folder: Path, judge: LocalJudge, limit: int | None, *, unseen: bool) -> None:
    """Prints a report per file; of RAGTruth, only what the adapter has not seen if `unseen`."""
    for path in PAIRS:
        print(await report_pairs(judge, path), flush=True)
    print(await report_written(judge, folder), flush=True)
    print(await report_support_time(judge, read(folder / "ragtruth_qa.jsonl")), flush=True)
    for name, report in REPORTS.items():
        rows = read(folder / name)
        if unseen and name.startswith("ragtruth"):
            rows = [row for row in rows if is_held_out(row)]
        print(await report(judge, rows[:limit]), flush=True)
    print(await report_time(judge, read(folder / "ragtruth_qa.jsonl")))
    await judge.aclose()


def is_held_out(row: Row) -> bool:
    """Return whether the entailment adapter was trained without this question's answers."""
    return crc32(str(row["labels"]["source_id"]).encode()) % FOLDS == 0


def read(path: Path) -> list[Row]:
    """The rows of a JSON lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main() -> int:
    """Runs from the command line."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data" / "open"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("RAGEVAL_DATA", beside))
    parser.add_argument("--embeddings", help="sentence-transformers model, name or path")
    parser.add_argument("--nli", help="entailment model: minilm, a path or a name")
    parser.add_argument("--own", type=Path, help="labelled rows of your own")
    parser.add_argument("--limit", type=int, help="rows per file")
    given = parser.parse_args()
    embedder = SentenceEmbedder(given.embeddings) if given.embeddings else None
    # In a thread: the CPU time of a child process would not be counted.
    entailer = Entailer(given.nli, process=False) if given.nli else None
    judge = LocalJudge(embedder, entailer=entailer)
    if given.own:
        rows = read(given.own)[: given.limit]
        if len({bool(row["labels"]["hallucinated"]) for row in rows}) < 2:
            parser.error(f"{given.own} has answers of one label only; agreement needs both")
        print(asyncio.run(report_ragtruth(judge, rows)).replace("RAGTruth QA", given.own.name))
        return 0
    if not (given.data / "ragtruth_qa.jsonl").is_file():
        print(f"no labelled data at {given.data}; nothing measured")
        return 0
    print(judge.name, judge.version)
    asyncio.run(run(given.data, judge, given.limit, unseen=given.nli is not None))
    return 0


if __name__ == "__main__":
    sys.exit(main())
