"""More workflows of the user's own. Old versions cannot read annotations that are kept as texts."""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)

from tests.matrix.llama_index.flows import Found, OwnWorkflow
from tests.matrix.llama_index.kit import QUESTIONS, Scripted, index, reader

__all__ = ["BOTH", "Asking", "Breaking", "FanOut", "Nested", "OwnGenerator", "Shown", "Streaming"]

BOTH = "It leaves at 07:40, and a ticket costs 310 crowns."


class Part(Event):
    """One of several questions."""

    question: str


class Shown(Event):
    """A word of the answer."""

    word: str


async def passages(question: str, k: int = 2) -> str:
    """What a retriever finds, as one text."""
    found = await index().as_retriever(similarity_top_k=k).aretrieve(question)
    return "\n".join(node.get_content() for node in found)


class FanOut(Workflow):
    """Retrieves for two questions at once, and answers when both are there."""

    @step
    async def split(self, ctx: Context, ev: StartEvent) -> Part | None:
        """One event each."""
        for question in QUESTIONS:
            ctx.send_event(Part(question=question))
        return None

    @step(num_workers=2)
    async def retrieve(self, ev: Part) -> Found:
        """Runs twice at once."""
        retriever = index().as_retriever(similarity_top_k=1)
        return Found(question=ev.question, nodes=await retriever.aretrieve(ev.question))

    @step
    async def answer(self, ctx: Context, ev: Found) -> StopEvent | None:
        """Waits for both."""
        found = ctx.collect_events(ev, [Found] * len(QUESTIONS))
        if found is None:
            return None
        found.sort(key=lambda each: QUESTIONS.index(each.question))
        text = "\n".join(node.get_content() for each in found for node in each.nodes)
        return StopEvent(result=str(await Scripted(reply=lambda _: BOTH).acomplete(text)))


class Asking(Workflow):
    """Retrieves, asks somebody, and answers with what it kept in the store."""

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> InputRequiredEvent:
        """Ends with a question to the user."""
        store: Any = getattr(ctx, "store", ctx)
        await store.set("question", ev.query)
        await store.set("text", await passages(ev.query))
        return InputRequiredEvent(prefix="Shall I answer?")

    @step
    async def answer(self, ctx: Context, ev: HumanResponseEvent) -> StopEvent:
        """Goes on with the reply."""
        store: Any = getattr(ctx, "store", ctx)
        text, question = await store.get("text"), await store.get("question")
        reply = await reader().acomplete(f"Use only:\n{text}\nQuestion: {question}")
        return StopEvent(result=reply.text)


class Breaking(Workflow):
    """Raises after it has retrieved."""

    @step
    async def retrieve(self, ev: StartEvent) -> StopEvent:
        """The only step."""
        raise ConnectionError(await passages(ev.query))


class Nested(Workflow):
    """Lets another workflow answer, and gives out a mapping."""

    @step
    async def ask(self, ev: StartEvent) -> StopEvent:
        """The only step."""
        return StopEvent(result={"answer": await OwnWorkflow(timeout=120).run(query=ev.query)})


class Streaming(Workflow):
    """Writes the words of the answer to the stream of events."""

    @step
    async def answer(self, ctx: Context, ev: StartEvent) -> StopEvent:
        """The only step."""
        prompt = f"Use only:\n{await passages(ev.query)}\nQuestion: {ev.query}"
        said = ""
        async for part in await reader().astream_chat([ChatMessage(role="user", content=prompt)]):
            ctx.write_event_to_stream(Shown(word=part.delta or ""))
            said = part.message.content or ""
        return StopEvent(result=said)


class OwnGenerator(Workflow):
    """Gives out a generator of its own, or the model's."""

    own: bool = True

    @step
    async def answer(self, ev: StartEvent) -> StopEvent:
        """The only step."""
        prompt = f"Use only:\n{await passages(ev.query)}\nQuestion: {ev.query}"
        stream = await reader().astream_chat([ChatMessage(role="user", content=prompt)])

        async def shouted() -> Any:
            async for part in stream:
                yield (part.delta or "").upper()

        return StopEvent(result=shouted() if self.own else stream)
