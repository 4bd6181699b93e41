"""Compare scores and verdicts of the heuristic judge with human labels.

    python benchmarks/embedded_judge.py [--data FOLDER] [--nli MODEL] [--limit N] [--own FILE ...]

Without labeled data in `--data` or $LABELED_DATA, the script measures only the probes (claims with
labels) in benchmarks/data.
`--own` measures your rows: JSON lines with `question`, `contexts`, `answer` and
`labels: {"hallucinated": true or false}`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.findings import Finding, Findings, Support, made
from rag_eval_hooks.judges.calibration import agreement
from rag_eval_hooks.judges.heuristic.entailment import Entailer
from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
from rag_eval_hooks.score import Score
from rag_eval_hooks.text.folding import content_tokens
from rag_eval_hooks.text.refusals import refusal

PROBES: Final = Path(__file__).parent / "data" / "passage_probes.txt"
LABELS: Final = {"+": "supported", "-": "contradicted", "?": "not_stated"}
Row = dict[str, Any]
Rated = Sequence[tuple[float, bool]]


def auroc(rated: Rated) -> float:
    if len({high for _, high in rated}) < 2:
        return float("nan")
    return agreement([score for score, _ in rated], [high for _, high in rated]).auroc


def sample_of(row: Row) -> Sample:
    fields = ("question", "contexts", "answer", "reference")
    return Sample.from_dict({name: row.get(name) for name in fields})


async def find(judge: HeuristicJudge, row: Row, kind: Finding, **known: Any) -> Any:
    found = await judge.make(sample_of(row), frozenset({kind}), Findings(**known))
    return made(getattr(found, kind))


async def support(judge: HeuristicJudge, row: Row, claims: tuple[str, ...]) -> Any:
    return await find(judge, row, Finding.ANSWER_SUPPORT, answer_claims=claims)


def probes() -> Iterator[tuple[str, str, Row]]:
    chunks: list[str] = []
    for line in PROBES.read_text("utf-8").splitlines():
        mark, _, text = line.partition(" ")
        if mark == "@":
            chunks = []
        elif mark == "=":
            chunks = [*chunks, text]
        elif mark in LABELS:
            kind, claim = text.split("\t")
            yield LABELS[mark], kind, {"question": "", "contexts": chunks, "answer": claim}


def ending(verdict: Support, *, supported: bool) -> str:
    if not verdict.sure:
        return "unsure"
    return "right" if verdict.supported == supported else "wrong"


async def report_probes(judge: HeuristicJudge) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for label, kind, row in probes():
        (verdict,) = await support(judge, row, (row["answer"],))
        for name in (kind, "all"):
            counts[name][ending(verdict, supported=label == "supported")] += 1
    for kind, count in sorted(counts.items()):
        print(f"probes, {kind}: {shares(count)}")


def shares(count: Counter[str]) -> str:
    total = count.total()
    parts = ", ".join(f"{end} {count[end] / total:.3f}" for end in ("right", "wrong", "unsure"))
    return f"{parts} ({total})"


async def report_claims(judge: HeuristicJudge, rows: Sequence[Row], name: str) -> None:
    count: Counter[str] = Counter()
    for row in rows:
        claimed = await find(judge, row, Finding.ANSWER_CLAIMS)
        for claim, verdict in zip(claimed, await support(judge, row, claimed), strict=True):
            start, end = (at := row["answer"].find(claim)), at + len(claim)
            if start >= 0:
                spans = row["labels"]["spans"]
                wrong = any(s["start"] < end and s["end"] > start for s in spans)
                count[ending(verdict, supported=not wrong)] += 1
    print(f"claims, {name}: {shares(count)}")


def report_seen(judge: HeuristicJudge, rows: Sequence[Row], name: str) -> None:
    scored, risks, overlap, count = [], [], [], 0
    with RagEval("ragas.faithfulness", judge=judge, embedder="none") as evals:
        for row in rows:
            right = not row["labels"]["hallucinated"]
            held = set(content_tokens(" ".join(row["contexts"])))
            words = set(content_tokens(row["answer"]))
            overlap.append((len(words & held) / (len(words) or 1), right))
            outcome = evals.evaluate(sample_of(row))["ragas.faithfulness"]
            count += isinstance(outcome, Score) or outcome.risk is not None
            if outcome.risk is not None:
                risks.append((-outcome.risk, right))
            if isinstance(outcome, Score):
                scored.append((outcome.value, right))
    wrong = sum((value < 1) == right for value, right in scored)
    figures = {"AUROC": auroc(scored), "undefined": 1 - len(scored) / count}
    figures |= {"wrong": wrong / count, "risk AUROC": auroc(risks)}
    figures |= {"word overlap AUROC": auroc(overlap)}
    told = ", ".join(f"{of} {figure:.3f}" for of, figure in figures.items())
    print(f"{name}: ragas.faithfulness {told} ({count})")


def report_tfidf(rows: Sequence[Row], name: str) -> None:
    """Print the AUROC of a logistic regression on TF-IDF, cross-validated over five folds."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold, cross_val_predict

    texts = [[row["answer"] for row in rows], [" ".join(row["contexts"]) for row in rows]]
    vectors = TfidfVectorizer(max_features=500, sublinear_tf=True).fit([*texts[0], *texts[1]])
    answers, contexts = (vectors.transform(side).toarray() for side in texts)
    shared = (answers * contexts).sum(1, keepdims=True)
    values = [[*one, *same] for one, same in zip(answers, shared, strict=True)]
    right = [not row["labels"]["hallucinated"] for row in rows]
    groups = [row["labels"].get("source_id", row["id"]) for row in rows]
    model, folds = LogisticRegression(max_iter=1000), GroupKFold(5)
    said = cross_val_predict(model, values, right, groups=groups, cv=folds, method="predict_proba")
    print(f"{name}: TF-IDF AUROC {auroc(list(zip(said[:, 1], right, strict=True))):.3f}")


async def report_relevance(judge: HeuristicJudge, rows: Sequence[Row]) -> None:
    for name, with_reference in (("hotpot", False), ("hotpot", True), ("clapnq", False)):
        rated: list[tuple[float, bool]] = []
        for row in (row for row in rows if row["id"].startswith(name)):
            given = row if with_reference else {**row, "reference": None}
            found = await find(judge, given, Finding.RELEVANCE)
            for chunk, label in zip(found, row["labels"]["context_relevant"], strict=True):
                rated.append((chunk.rating, bool(label)))
        text = "question and reference" if with_reference else "question"
        print(f"relevance, {name} by {text}: AUROC {auroc(rated):.3f}")


async def report_classes(judge: HeuristicJudge, rows: Sequence[Row]) -> None:
    hits = 0
    for row in rows:
        aliases = [one for one in row["reference"].split("/") if any(map(str.isalnum, one))]
        told = [{**row, "reference": alias.strip()} for alias in aliases]
        found = [await find(judge, one, Finding.CLASSIFICATION) for one in told]
        hits += any(one.holds for one in found) == row["labels"]["correct"]
    print(f"answer class, EVOUNA: accuracy {hits / len(rows):.3f} ({len(rows)})")


def report_refusals(rows: Sequence[Row]) -> None:
    labeled = [row for row in rows if row["labels"]["dont_know"] is not None]
    hits = sum((refusal(r["answer"]) is not None) == r["labels"]["dont_know"] for r in labeled)
    print(f"refusals: accuracy {hits / len(labeled):.3f} ({len(labeled)})")


async def report_time(judge: HeuristicJudge, rows: Sequence[Row]) -> None:
    spent = []
    for row in rows[:60]:
        start = time.process_time()
        claimed = await find(judge, row, Finding.ANSWER_CLAIMS)
        await support(judge, row, claimed)
        spent.append(1000 * (time.process_time() - start))
    print(f"median CPU time for the verdicts on an answer: {statistics.median(spent):.1f} ms")


def read(path: Path, limit: int | None) -> list[Row]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    random.Random(0).shuffle(rows)
    return rows[:limit]


async def run(folder: Path, judge: HeuristicJudge, limit: int | None) -> None:
    await report_probes(judge)
    if not folder.is_dir():
        return
    for name in ("ragtruth_qa", "ragtruth_qa_train_rest"):
        await report_claims(judge, read(folder / f"{name}.jsonl", limit), name)
    await report_relevance(judge, read(folder / "context_relevance.jsonl", None))
    await report_classes(judge, read(folder / "answer_correctness.jsonl", limit))
    report_refusals(read(folder / "refusals.jsonl", None))
    await report_time(judge, read(folder / "ragtruth_qa.jsonl", 60))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELED_DATA", "labeled"))
    parser.add_argument("--nli", help="entailment model: minilm, a path or a name")
    parser.add_argument("--own", type=Path, nargs="+", default=[], help="files with labeled rows")
    parser.add_argument("--limit", type=int, help="maximum number of rows per file")
    given = parser.parse_args()
    # Run the model in this process, because `process_time` excludes child processes.
    judge = HeuristicJudge(entailer=Entailer(given.nli) if given.nli else None)
    print(judge.name, judge.version)
    files = given.own
    if not files:
        asyncio.run(run(given.data, judge, given.limit))
        names = ("ragtruth_qa.jsonl", "ragtruth_qa_train_rest.jsonl", "halueval_qa.jsonl")
        files = [given.data / name for name in names if (given.data / name).is_file()]
    for path in files:
        report_seen(judge, rows := read(path, given.limit), path.stem)
        report_tfidf(rows, path.stem)


if __name__ == "__main__":
    main()
