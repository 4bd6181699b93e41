"""Chains of the expression language."""

from __future__ import annotations

from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import Runnable, RunnablePassthrough

from tests.matrix.langchain.kit import PROMPT, joined, reader, shape, store

__all__ = ["SHAPES"]

GROUP = "LCEL"


def plain() -> Runnable[str, str]:
    """Retriever, prompt, model, parser."""
    retriever = store().as_retriever(search_kwargs={"k": 2})
    inputs = {"context": retriever | joined, "question": RunnablePassthrough()}
    return inputs | PROMPT | reader() | StrOutputParser()


SHAPES = (shape(GROUP, "retriever, prompt, model, parser", plain),)
