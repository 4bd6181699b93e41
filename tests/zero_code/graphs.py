"""A graph that `langgraph dev` serves."""

from __future__ import annotations

from typing import TypedDict

from langchain_core.documents import Document
from langgraph.graph import START, StateGraph
from web import PROMPT, clerk, shelf


class Asked(TypedDict, total=False):
    """State of the graph."""

    question: str
    documents: list[Document]
    answer: str


def retrieve(state: Asked) -> Asked:
    """Look the question up."""
    return {"documents": shelf.invoke(state["question"])}


def generate(state: Asked) -> Asked:
    """Answer from the documents."""
    context = state["documents"][0].page_content
    prompt = PROMPT.format(context=context, question=state["question"])
    return {"answer": str(clerk.invoke(prompt).content)}


ask = (
    StateGraph(Asked)
    .add_node("retrieve", retrieve)
    .add_node("generate", generate)
    .add_edge(START, "retrieve")
    .add_edge("retrieve", "generate")
    .compile()
)
