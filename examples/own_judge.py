"""A judge of your own: any function that asks a model.

    pip install "rag-eval-hooks[openai]"
    export OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_API_KEY=none MODEL=llama3.1
    python examples/own_judge.py

Prompts, parsing of replies, retries and limits are those of every judge; only the call is yours.
"""

from __future__ import annotations

import os
from typing import Any, cast

from openai import AsyncOpenAI

from rag_eval_hooks import CallableJudge, RagEval, Score

MODEL = os.environ.get("MODEL", "gpt-4o-mini")
client = AsyncOpenAI()


async def ask(messages: list[dict[str, str]]) -> str:
    """Return the model's reply; an exception makes the metrics absent, with `judge_failed`."""
    reply = await client.chat.completions.create(
        model=MODEL,
        messages=cast("list[Any]", messages),
        response_format={"type": "json_object"},
        temperature=0,
    )
    return reply.choices[0].message.content or ""


def main() -> None:
    """Judge one answer now, and print the score with its reason."""
    with RagEval(metrics=["ragas.faithfulness"], judge=CallableJudge(ask, name=MODEL)) as evals:
        outcomes = evals.evaluate(
            {
                "question": "How long is the guarantee?",
                "contexts": ["The guarantee covers 2 years."],
                "answer": "The guarantee covers 2 years. It covers batteries, too.",
            }
        )
    outcome = outcomes["ragas.faithfulness"]
    if isinstance(outcome, Score):
        print(f"faithfulness {outcome.value:.2f}, judged by {outcome.annotator}")
    else:
        print(f"no score: {outcome.cause}")


if __name__ == "__main__":
    main()
