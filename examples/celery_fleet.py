"""Ship samples to workers on other machines, which judge them and keep the scores.

    pip install "rag-eval-hooks[celery]"
    export RAG_EVAL_BROKER=redis://localhost:6379/0
    RAG_EVAL_SINKS=jsonl:scores.jsonl celery -A rag_eval_hooks_celery.tasks worker     (a worker)
    python examples/celery_fleet.py                                                      (here)

Judge, metrics and sinks are settings of the worker: here is neither a key nor a model.
"""

from __future__ import annotations

from rag_eval_hooks import RagEval


def main() -> None:
    """Answer a question, and say what became of the sample."""
    with RagEval(run_on="celery") as evals:
        with evals.interaction("How long is the guarantee?") as it:
            it.contexts(["The guarantee covers 2 years."])
            it.answer("The guarantee covers 5 years.")
        evals.flush()
        print(evals.stats())


if __name__ == "__main__":
    main()
