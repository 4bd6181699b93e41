"""Retrieval by ids that are known to be relevant, and citations by the passages they name.

python examples/known_passages.py
"""

from __future__ import annotations

from rag_eval_hooks import RagEval, Sample, Score
from rag_eval_hooks.score import Outcomes

HANDBOOK = {
    "h1": "The ferry to Skarn leaves the north quay at 07:40 on every working day.",
    "h2": "Bicycles travel free of charge outside the months of July and August.",
    "h3": "A season ticket costs 310 crowns and is sold at the office by the gate.",
}
METRICS = ["retrieval.recall", "retrieval.mrr", "rag.citation_support"]


def show(sample: Sample, outcomes: Outcomes) -> None:
    """Print the scores of a sample; a function is a sink."""
    for metric, outcome in outcomes.items():
        value = f"{outcome.value:.2f}" if isinstance(outcome, Score) else outcome.cause
        print(f"{value}  {metric}")


def main() -> None:
    """Answer from one relevant and one other passage; the second claim cites the wrong passage."""
    with RagEval(metrics=METRICS, sinks=[show]) as evals:
        given = {"reference_ids": ["h1", "h3"]}
        with evals.interaction("When does the ferry leave?", metadata=given) as it:
            it.contexts([{"id": key, "text": HANDBOOK[key]} for key in ("h2", "h1")])
            it.answer(
                "The ferry to Skarn leaves the north quay at 07:40 on every working day [2]. "
                "Bicycles travel free of charge outside the months of July and August [2]."
            )


if __name__ == "__main__":
    main()
