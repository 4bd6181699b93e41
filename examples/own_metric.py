"""A metric of your own beside those of RAGAS: a function of the sample.

python examples/own_metric.py
"""

from __future__ import annotations

import re

from rag_eval_hooks import RagEval, Sample, Score
from rag_eval_hooks.score import Outcomes


def cites_a_source(sample: Sample) -> float | None:
    """Return the share of the answer's sentences that end in a source such as [2].

    None where there is no answer: a score is right or absent.
    """
    sentences = re.findall(r"[^.!?]+[.!?]", sample.answer or "")
    cited = [sentence for sentence in sentences if re.search(r"\[\d+\][.!?]$", sentence)]
    return len(cited) / len(sentences) if sentences else None


def show(sample: Sample, outcomes: Outcomes) -> None:
    """Print the scores of a sample; a function is a sink."""
    for metric, outcome in outcomes.items():
        value = f"{outcome.value:.2f}" if isinstance(outcome, Score) else outcome.cause
        print(f"{metric:24} {value}  {sample.question}")


def main() -> None:
    """Score two answers, one of them without a source for its second sentence."""
    contexts = ["The guarantee covers 2 years.", "Repairs are free within the guarantee."]
    with RagEval(metrics=["ragas.faithfulness", cites_a_source], sinks=[show]) as evals:
        for answer in (
            "The guarantee covers 2 years [1]. Repairs are free within the guarantee.",
            "The guarantee covers 2 years [1].",
        ):
            with evals.interaction("What does the guarantee cover?") as it:
                it.contexts(contexts)
                it.answer(answer)


if __name__ == "__main__":
    main()
