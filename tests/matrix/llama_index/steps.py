"""More workflows of the user's own."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.workflow import (
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
)

from tests.matrix.llama_index.flows import NODES, Found, own_workflow, prompt_of
from tests.matrix.llama_index.kit import ASKED, NAMED, QUESTIONS, Scripted, index, reader, told
from tests.matrix.llama_index.workflows import event, flow, store

BOTH_TOLD = told("It leaves at 07:40, and a ticket costs 310 crowns.")
KEPT, ANSWER, SHOWN_AS = (NAMED.name() for _ in range(3))
Part = event(NAMED, ASKED)
"""One of several questions."""
Shown = event(NAMED, SHOWN_AS)
"""A piece of the answer."""


async def passages(question: str) -> str:
    """Return the texts that a retriever finds, as one text."""
    found = await index().as_retriever(similarity_top_k=2).aretrieve(question)
    return "\n".join(node.get_content() for node in found)


async def stream_for(question: str) -> Any:
    prompt = prompt_of(await passages(question), question)
    return await reader().astream_chat([ChatMessage(role="user", content=prompt)])


def fans_out() -> Any:
    """Retrieves for two questions at once, and answers when both are there."""

    async def split(ctx: Any, ev: Any) -> Any:
        for question in QUESTIONS:
            ctx.send_event(Part(**{ASKED: question}))

    async def retrieve(ctx: Any, ev: Any) -> Any:
        asked = getattr(ev, ASKED)
        retriever = index().as_retriever(similarity_top_k=1)
        return Found(**{ASKED: asked, NODES: await retriever.aretrieve(asked)})

    async def answer(ctx: Any, ev: Any) -> Any:
        found = ctx.collect_events(ev, [Found] * len(QUESTIONS))
        if found is None:
            return None
        found.sort(key=lambda each: QUESTIONS.index(getattr(each, ASKED)))
        text = "\n".join(node.get_content() for each in found for node in getattr(each, NODES))
        return StopEvent(result=str(await Scripted(reply=lambda _: BOTH_TOLD).acomplete(text)))

    return flow(
        NAMED,
        (split, StartEvent, Part | None),
        (retrieve, Part, Found),
        (answer, Found, StopEvent | None),
        workers=2,
    )


def asks_somebody(timeout: float = 120.0) -> Any:
    """Retrieves, asks somebody, and answers with what it kept in the store."""

    async def retrieve(ctx: Any, ev: Any) -> InputRequiredEvent:
        await store(ctx).set(ASKED, ev.get(ASKED))
        await store(ctx).set(KEPT, await passages(ev.get(ASKED)))
        return InputRequiredEvent(prefix="Shall I answer?")

    async def answer(ctx: Any, ev: Any) -> StopEvent:
        text, question = await store(ctx).get(KEPT), await store(ctx).get(ASKED)
        return StopEvent(result=(await reader().acomplete(prompt_of(text, question))).text)

    return flow(
        NAMED,
        (retrieve, StartEvent, InputRequiredEvent),
        (answer, HumanResponseEvent, StopEvent),
        timeout=timeout,
    )


def breaks() -> Any:

    async def retrieve(ctx: Any, ev: Any) -> StopEvent:
        raise ConnectionError(await passages(ev.get(ASKED)))

    return flow(NAMED, (retrieve, StartEvent, StopEvent))


def nested() -> Any:

    async def ask(ctx: Any, ev: Any) -> StopEvent:
        return StopEvent(result={ANSWER: await own_workflow().run(**{ASKED: ev.get(ASKED)})})

    return flow(NAMED, (ask, StartEvent, StopEvent))


def streams_events() -> Any:
    """Writes the pieces of the answer to the stream of events."""

    async def answer(ctx: Any, ev: Any) -> StopEvent:
        said = ""
        async for part in await stream_for(ev.get(ASKED)):
            ctx.write_event_to_stream(Shown(**{SHOWN_AS: part.delta or ""}))
            said = part.message.content or ""
        return StopEvent(result=said)

    return flow(NAMED, (answer, StartEvent, StopEvent))


def gives_generator() -> Any:
    """Gives out a generator of its own."""

    async def answer(ctx: Any, ev: Any) -> StopEvent:
        stream = await stream_for(ev.get(ASKED))

        async def shouted() -> Any:
            async for part in stream:
                yield (part.delta or "").upper()

        return StopEvent(result=shouted())

    return flow(NAMED, (answer, StartEvent, StopEvent))
