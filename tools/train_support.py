"""Train the support model of the heuristic judge on labeled answers and write its weights.

    python tools/train_support.py ROWS.jsonl [ROWS.jsonl ...]

A row has `question`, `contexts`, `answer` and `labels`, as in RAGTruth. `labels` has a `source_id`,
and the `spans` of the answer that annotators marked as unsupported. The script needs scikit-learn.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from rag_eval_hooks.judges.heuristic.chunks import Chunks, Sentence, SplitText, terms
from rag_eval_hooks.judges.heuristic.reference import claims
from rag_eval_hooks.judges.heuristic.support import FEATURES, ClaimReading, read
from rag_eval_hooks.text.sentences import sentences

TARGET = Path("rag_eval_hooks/judges/heuristic/weights/support.json")


def labeled_claims(row: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each claim, with True if its sentence overlaps no marked span."""
    answer, at = row["answer"], 0
    left = set(claims(answer))
    for sentence in sentences(answer):
        start = answer.find(sentence, at)
        if start < 0:
            continue
        at = start + len(sentence)
        marked = any(s["start"] < at and s["end"] > start for s in row["labels"]["spans"])
        for claim in claims(sentence):
            if claim in left:
                left.remove(claim)
                yield claim, not marked


def readings(row: dict[str, Any]) -> Iterator[tuple[ClaimReading, bool]]:
    """Yield each claim's reading by the judge, with the claim's label."""
    chunks = Chunks(map(SplitText, row["contexts"]))
    question = frozenset(terms(row["question"]))
    for claim, right in labeled_claims(row):
        yield read(Sentence(claim), chunks, question), right


def main(paths: list[str]) -> None:
    """Fit on all rows and write the weights."""
    texts = (Path(path).read_text("utf-8") for path in paths)
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    found = [one for row in rows for one in readings(row)]
    model = LogisticRegression(max_iter=1000)
    model.fit(np.array([one.features for one, _ in found]), [right for _, right in found])
    weights = [round(float(weight), 4) for weight in model.coef_[0]]
    made = {"features": FEATURES, "weights": weights, "base": round(float(model.intercept_[0]), 4)}
    TARGET.write_text(json.dumps(made, indent=2) + "\n", "utf-8")
    sys.stdout.write(f"{len(found)} claims of {len(rows)} answers: {made}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
