"""Ask a pipeline the questions of a file, score its answers, and fail the build if they are bad.

    pip install "rag-eval-hooks[langchain,report]"
    cd examples
    rag-eval-hooks evaluate questions.csv --chain dataset_gate:chain -o new.jsonl
    rag-eval-hooks compare base.jsonl new.jsonl --fail-on-point "ragas.faithfulness<0.8"

`base.jsonl` is what the first command wrote on the main branch. The second ends with 1 where the
new mean is below 0.8. With dozens of questions use `--fail-on`, which fails only where the samples
show it: two prove nothing. `rag-eval-hooks report new.jsonl --worst 5` shows the worst answers.
"""

from __future__ import annotations

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

PASSAGES = [
    "The ferry to Skarn leaves the north quay at 07:40 on every working day.",
    "A season ticket costs 310 crowns and is sold at the office by the gate.",
]


class Handbook(BaseRetriever):
    """Return the passage that shares most words with the question."""

    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        asked = set(query.lower().strip("?").split())
        return [Document(max(PASSAGES, key=lambda text: len(asked & set(text.lower().split()))))]


def model(inputs: dict[str, object]) -> str:
    """Answer with one wrong price; replace by a prompt and a model."""
    if "cost" in str(inputs["question"]):
        return "A season ticket costs 250 crowns."
    return PASSAGES[0]


chain: Runnable[str, str] = {
    "passages": Handbook(),
    "question": RunnablePassthrough(),
} | RunnableLambda(model)
