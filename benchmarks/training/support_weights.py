"""Train the word-feature model of the embedded judge on RAGTruth and write its weights.

    python benchmarks/training/support_weights.py [--data FOLDER] [--write]

Prints AUROC of sentences and answers by five folds over `source_id`. With `--write`, trains on
all rows and writes rag_eval_hooks/judges/local/weights/support.json. Needs scikit-learn, which
the weights do not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.features import NAMES
from rag_eval_hooks.judges.local.readings import read
from rag_eval_hooks.judges.local.terms import terms
from rag_eval_hooks.judges.local.units import Chunks, Claim, Passage
from rag_eval_hooks.judges.local.windows import weights
from rag_eval_hooks.text.sentences import sentences

FOLDS = 5
TARGET = Path("rag_eval_hooks/judges/local/weights/support.json")
# Sign of each feature's effect on support; 0 where it may go either way.
SIGNS = dict.fromkeys(NAMES, 1) | {
    "numbers": -1, "numbers_near": -1, "negation": -1,
    "lacks": -1, "lacks_rare": -1, "lacks_anywhere": -1, "lacks_pairs": -1, "lacks_names": -1,
    "second": 0, "question": 0, "beyond_chunk": 0,
}  # fmt: skip
Row = dict[str, Any]


@dataclass(frozen=True)
class Example:
    """A claim of an answer, by the chunk that covers it best."""

    answer: str
    source: str
    sentence: int
    wrong: bool
    features: tuple[float, ...]


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a JSON lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def labelled(row: Row) -> Iterator[tuple[int, str, bool]]:
    """Yield number and text of each sentence of an answer, and whether a span marks it."""
    answer, at = row["answer"], 0
    for number, sentence in enumerate(sentences(answer)):
        start = answer.find(sentence, at)
        if start >= 0:
            at = end = start + len(sentence)
            spans = row["labels"]["spans"]
            yield number, sentence, any(s["start"] < end and s["end"] > start for s in spans)


def examples(row: Row) -> Iterator[Example]:
    """Yield the claims of an answer."""
    question = frozenset(terms(row["question"]))
    chunks = Chunks(Passage(chunk) for chunk in row["contexts"])
    for number, sentence, wrong in labelled(row):
        for text in claims(sentence):
            claim = Claim.of(text)
            if not weights(claim, question):
                continue
            best = max(read(claim, chunks, question), key=lambda r: r.window.score)
            if best.features:
                source = str(row["labels"]["source_id"])
                yield Example(row["id"], source, number, wrong, best.features)


def model() -> HistGradientBoostingClassifier:
    """Return the untrained model."""
    return HistGradientBoostingClassifier(
        max_depth=2, max_iter=60, learning_rate=0.2, min_samples_leaf=60,
        l2_regularization=2.0, monotonic_cst=[SIGNS[name] for name in NAMES], random_state=0,
    )  # fmt: skip


def exchanged(rows: list[Row]) -> Iterator[Row]:
    """Yield some rows with an answer to another question, all of it wrong."""
    rng = random.Random(0)
    for row in rng.sample(rows, len(rows) // 50):
        other = rng.choice(rows)["answer"]
        whole = {"start": 0, "end": len(other)}
        labels = {**row["labels"], "spans": [whole], "hallucinated": True}
        yield {**row, "answer": other, "labels": labels}


def by_folds(found: list[Example], strangers: list[Example]) -> np.ndarray:
    """Return the probability of support of each claim by a model of the other folds."""
    count = len(found)
    found = [*found, *strangers]
    values = np.array([e.features for e in found])
    right = np.array([not e.wrong for e in found])
    fold = np.array([crc32(e.source.encode()) % FOLDS for e in found])
    said = np.zeros(len(found))
    for at in range(FOLDS):
        trained = model().fit(values[fold != at], right[fold != at])
        said[fold == at] = trained.predict_proba(values[fold == at])[:, 1]
    return said[:count]


def report(found: list[Example], said: np.ndarray, hallucinated: dict[str, bool]) -> str:
    """Return AUROC of sentences and of answers, an answer being right if all its claims are."""
    by_sentence: dict[tuple[str, int], tuple[bool, float]] = {}
    by_answer = dict.fromkeys(hallucinated, 1.0)
    for example, p in zip(found, said, strict=True):
        key = (example.answer, example.sentence)
        before = by_sentence.get(key, (False, 1.0))
        by_sentence[key] = (example.wrong, min(before[1], p))
        by_answer[example.answer] *= p
    wrong, support = zip(*by_sentence.values(), strict=True)
    answers = roc_auc_score(list(hallucinated.values()), [-p for p in by_answer.values()])
    sentences_ = roc_auc_score(wrong, [-p for p in support])
    return f"answers {answers:.3f} ({len(by_answer)}), sentences {sentences_:.3f} ({len(wrong)})"


def exported(found: list[Example]) -> dict[str, Any]:
    """Return the weights of a model trained on all rows."""
    values = np.array([e.features for e in found])
    trained = model().fit(values, np.array([not e.wrong for e in found]))
    trees = []
    for (predictor,) in trained._predictors:
        trees.append(
            [
                [-1, round(float(node["value"]), 5), 0, 0]
                if node["is_leaf"]
                else [int(node["feature_idx"]), round(float(node["num_threshold"]), 6),
                      int(node["left"]), int(node["right"])]
                for node in predictor.nodes
            ]
        )  # fmt: skip
    return {
        "features": list(NAMES),
        "base": round(float(trained._baseline_prediction.item()), 6),
        "unsure": [0.45, 0.75],
        "trees": trees,
    }


def main() -> None:
    """Run from the command line."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data" / "open"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("RAGEVAL_DATA", beside))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = [
        row
        for name in ("ragtruth_qa.jsonl", "ragtruth_qa_train_rest.jsonl")
        for row in rows_of(given.data / name)
    ]
    found = [example for row in rows for example in examples(row)]
    strangers = [example for row in exchanged(rows) for example in examples(row)]
    said = by_folds(found, strangers)
    hallucinated = {row["id"]: bool(row["labels"]["hallucinated"]) for row in rows}
    print("RAGTruth QA by folds over source_id, AUROC:", report(found, said, hallucinated))
    if given.write:
        data = exported([*found, *strangers])
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
        print(TARGET, TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
