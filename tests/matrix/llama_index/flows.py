"""Workflows of the user's own."""

from __future__ import annotations

from typing import Any

from llama_index.core.workflow import StartEvent, StopEvent

from tests.matrix.llama_index.kit import ASKED, NAMED, index, reader
from tests.matrix.llama_index.workflows import event, flow

NODES = NAMED.name()
Found = event(NAMED, ASKED, NODES)
"""Event with the retrieved nodes."""


def prompt_of(texts: str, question: str) -> str:
    return f"Use only:\n{texts}\nQuestion: {question}"


def own_workflow() -> Any:

    async def retrieve(ctx: Any, ev: Any) -> Any:
        asked = ev.get(ASKED)
        retriever = index().as_retriever(similarity_top_k=2)
        return Found(**{ASKED: asked, NODES: await retriever.aretrieve(asked)})

    async def answer(ctx: Any, ev: Any) -> StopEvent:
        texts = "\n".join(node.get_content() for node in getattr(ev, NODES))
        reply = await reader().acomplete(prompt_of(texts, getattr(ev, ASKED)))
        return StopEvent(result=reply.text)

    return flow(NAMED, (retrieve, StartEvent, Found), (answer, Found, StopEvent))


def own_streaming() -> Any:

    async def ask(ctx: Any, ev: Any) -> StopEvent:
        engine = index().as_query_engine(llm=reader(), streaming=True, similarity_top_k=2)
        return StopEvent(result=await engine.aquery(ev.get(ASKED)))

    return flow(NAMED, (ask, StartEvent, StopEvent))
