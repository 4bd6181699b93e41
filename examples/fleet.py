"""Send samples to workers on other machines. The workers judge the samples and store the scores.

    pip install ".[celery,openai]"    # in a clone
    export RAG_EVAL_BROKER=redis://localhost:6379/0
    RAG_EVAL_SINKS=jsonl:scores.jsonl rag-eval-hooks worker    # the worker, in another terminal
    python examples/fleet.py

The worker's settings choose judge, metrics and sinks. RAG_EVAL_JUDGE=openai:gpt-4o-mini uses an LLM
as the judge. Without OPENAI_API_KEY, a scripted model answers with a wrong number of years.
"""

from __future__ import annotations

import os

from rag_eval_hooks import RagEval

PASSAGE = "The guarantee covers 2 years."


def answer(question: str) -> str:
    """Return a real model's answer if `OPENAI_API_KEY` is set, else a fixed wrong answer."""
    if "OPENAI_API_KEY" not in os.environ:
        return "The guarantee covers 5 years."
    from openai import OpenAI

    prompt = f"{PASSAGE}\n\nQuestion: {question}"
    reply = OpenAI().chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": prompt}]
    )
    return str(reply.choices[0].message.content)


def main() -> None:
    """Answer a question, and print the statistics."""
    question = "How long is the guarantee?"
    with RagEval(run_on="celery") as evals:
        with evals.interaction(question) as it:
            it.contexts([PASSAGE])
            it.answer(answer(question))
        evals.flush()
        print(evals.stats())


if __name__ == "__main__":
    main()
