"""A metric in one sentence, judged by a language model.

python examples/own_criterion.py

A scripted model judges. With OPENAI_API_KEY set, a real one does.
"""

from __future__ import annotations

import json
import os

from rag_eval_hooks import CallableJudge, Criterion, RagEval, Sample, Score
from rag_eval_hooks.score import Outcomes

NOTICE = Criterion("says from which day the notice counts", name="notice_day")


def scripted(messages: list[dict[str, str]]) -> str:
    """Return the verdict that a model would give on the answer in the prompt."""
    is_met = "end of the month" in messages[-1]["content"]
    verdict = {
        "id": "a1",
        "quote": "end of the month" if is_met else "",
        "reason": "It names the day." if is_met else "It names a period, and no day.",
        "verdict": "supported" if is_met else "not_stated",
        "chunks": [1] if is_met else [],
        "partly": [],
        "together": False,
    }
    return json.dumps({"answer_support": [verdict]})


def show(sample: Sample, outcomes: Outcomes) -> None:
    """Print whether an answer meets the criterion, and why."""
    outcome = outcomes[NOTICE.id]
    if isinstance(outcome, Score):
        print(f"{outcome.label}: {sample.answer} ({outcome.explanation['claims'][0]['reason']})")
    else:
        print(f"{outcome.cause}: {outcome.detail}")


def main() -> None:
    """Judge two answers."""
    has_key = "OPENAI_API_KEY" in os.environ
    judge = "openai:gpt-4o-mini" if has_key else CallableJudge(scripted, name="scripted")
    with RagEval(metrics=[NOTICE], judge=judge, sinks=[show]) as evals:
        for answer in ("Three months.", "Three months, to the end of the month."):
            with evals.interaction("What is the notice period?") as it:
                it.contexts(["Either side may end the lease by three months' notice."])
                it.answer(answer)


if __name__ == "__main__":
    main()
