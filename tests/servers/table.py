"""Table of what metrics give when the judge's endpoint or its replies are faulty.

    python -m tests.servers.table

prints the table: one row a fault, shown once (the first judge call) or always.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_eval_hooks import NotScored, Outcome, Outcomes, RagEval, Sample
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer
from tests.servers.samples import DECOMPOSE, VERIFY

__all__ = ["FIRST", "SAMPLE", "outcomes_under", "word"]

SAMPLE = Sample(
    question=DECOMPOSE.question,
    contexts=VERIFY.chunks,  # type: ignore[arg-type]
    answer=DECOMPOSE.answer,
    reference=DECOMPOSE.reference,
)
METRICS = (
    "ragas",
    "graphrag.factual_accuracy_percentage",
    "graphrag.answer_class",
    "whitepaper.correctness",
    "nvidia",
)
"""Some of each kind of finding; no composites, whose value depends on which parts are there."""
FIRST = frozenset({1})
"""Requests that a passing fault hits; the retries and the later calls are sound."""


def outcomes_under(faults: Sequence[Fault]) -> Outcomes:
    """The outcomes of the sample with a real client against a faulty server."""
    with JudgeServer(faults=faults) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", timeout=1.0, retries=1)
        embedder = OpenAIEmbedder("e", base_url=server.url, api_key="k", timeout=1.0, retries=1)
        with RagEval(metrics=METRICS, judge=judge, embedder=embedder) as evals:
            return evals.evaluate(SAMPLE)


def word(outcome: Outcome) -> str:
    """An outcome in a table cell."""
    return outcome.cause.value if isinstance(outcome, NotScored) else f"{outcome.value:.3f}"


def main() -> None:
    """Prints the table."""
    sound = outcomes_under([])
    print("| fault | shown |", *(f"{name.partition('.')[2]} |" for name in sound))
    print("|---|---|" + "---|" * len(sound))
    print("| none | |", *(f"{word(outcome)} |" for outcome in sound.values()))
    for kind in FaultKind:
        for shown, calls in (("once", FIRST), ("always", None)):
            outcomes = outcomes_under([Fault(kind=kind, calls=calls, retry_after="0.1")])
            print(f"| {kind} | {shown} |", *(f"{word(o)} |" for o in outcomes.values()))


if __name__ == "__main__":
    main()
