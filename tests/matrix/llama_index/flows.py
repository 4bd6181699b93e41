"""Workflows of the user's own. Old versions cannot read annotations that are kept as texts."""

from typing import Any

from llama_index.core.workflow import Event, StartEvent, StopEvent, Workflow, step

from tests.matrix.llama_index.kit import index, reader

__all__ = ["Found", "OwnStreaming", "OwnWorkflow"]


class Found(Event):
    """What was retrieved."""

    question: str
    nodes: list[Any]


class OwnWorkflow(Workflow):
    """Retrieves in one step, answers in another."""

    @step
    async def retrieve(self, ev: StartEvent) -> Found:
        """The first step."""
        retriever = index().as_retriever(similarity_top_k=2)
        return Found(question=ev.query, nodes=await retriever.aretrieve(ev.query))

    @step
    async def answer(self, ev: Found) -> StopEvent:
        """The second step."""
        texts = "\n".join(node.get_content() for node in ev.nodes)
        reply = await reader().acomplete(f"Use only:\n{texts}\nQuestion: {ev.question}")
        return StopEvent(result=reply.text)


class OwnStreaming(OwnWorkflow):
    """Gives out a stream."""

    @step
    async def retrieve(self, ev: StartEvent) -> StopEvent:
        """The only step."""
        engine = index().as_query_engine(llm=reader(), streaming=True, similarity_top_k=2)
        return StopEvent(result=await engine.aquery(ev.query))

    @step
    async def answer(self, ev: Found) -> StopEvent:
        """Is never reached."""
        raise NotImplementedError
