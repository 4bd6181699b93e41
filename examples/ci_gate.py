"""Ask a pipeline the questions of a file, score the answers, and fail the build if the mean is low.

    pip install ".[langchain,openai,report]" langchain-openai    # in a clone
    cd examples
    rag-eval-hooks evaluate questions.csv --chain ci_gate:chain -o new.jsonl \
        --fail-on-point "ragas.faithfulness<0.8"

The command exits with code 1 if the mean is below 0.8. If you have dozens of questions, use
`--fail-on`, which fails only if the whole confidence interval is below 0.8. `--judge
openai:gpt-4o-mini` uses an LLM as the judge. With OPENAI_API_KEY, gpt-4o-mini answers. Without
OPENAI_API_KEY, a scripted model answers, and one of its answers states a wrong price.
"""

from __future__ import annotations

import os
from typing import Any

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough

PASSAGES = [
    "The ferry to Skarn leaves the north quay at 07:40 on every working day.",
    "A season ticket costs 310 crowns and is sold at the office by the gate.",
]


class Handbook(BaseRetriever):
    """Returns the passage that shares the most words with the question."""

    def _get_relevant_documents(self, query: str, **_: object) -> list[Document]:
        asked = set(query.lower().strip("?").split())
        return [Document(max(PASSAGES, key=lambda text: len(asked & set(text.lower().split()))))]


def scripted(prompt: Any) -> str:
    """Answer, and state a wrong price for the ticket."""
    asks_price = "cost?" in prompt.to_string()
    return "A season ticket costs 250 crowns." if asks_price else PASSAGES[0]


def model() -> Runnable[Any, Any]:
    """Return a real model if `OPENAI_API_KEY` is set, else the scripted model."""
    if "OPENAI_API_KEY" not in os.environ:
        return RunnableLambda(scripted)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o-mini")


prompt = ChatPromptTemplate.from_template("{passages}\n\nQuestion: {question}")
chain: Runnable[str, str] = (
    {"passages": Handbook(), "question": RunnablePassthrough()}
    | prompt
    | model()
    | StrOutputParser()
)
