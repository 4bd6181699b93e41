"""Score answers without a framework, a key or a network."""

from __future__ import annotations

from rag_eval_hooks import MemorySink, RagEval

HANDBOOK = {
    "h1": "The ferry to Skarn leaves the north quay at 07:40 on every working day.",
    "h2": "Bicycles travel free of charge outside the months of July and August.",
    "h3": "A season ticket costs 310 crowns and is sold at the office by the gate.",
}


def search(question: str, k: int = 2) -> list[dict[str, object]]:
    """Return the passages that share most words with the question."""
    asked = set(question.lower().strip("?").split())
    shared = {key: len(asked & set(text.lower().split())) for key, text in HANDBOOK.items()}
    best = sorted(shared, key=shared.__getitem__, reverse=True)[:k]
    return [{"id": key, "text": HANDBOOK[key], "score": float(shared[key])} for key in best]


def answer(question: str, documents: list[dict[str, object]]) -> str:
    """Return an answer, as a model would."""
    return str(documents[0]["text"])


def main() -> None:
    """Answer two questions and print their scores."""
    sink = MemorySink()
    with RagEval(metrics=["ragas.faithfulness"], sinks=[sink]) as evals:
        for question in ("When does the ferry to Skarn leave?", "What does a season ticket cost?"):
            with evals.interaction(question, metadata={"session_id": "s1"}) as it:
                documents = search(question)
                it.contexts(documents)
                it.answer(answer(question, documents))
        evals.flush()
    for result in sink.results:
        outcome = result.outcomes["ragas.faithfulness"]
        print(f"{result.sample.question}  faithfulness {getattr(outcome, 'value', None)}")


if __name__ == "__main__":
    main()
