"""Agents that work together or in turns, and workflows in several steps."""

from __future__ import annotations

import asyncio
import contextlib
import io
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, CodeActAgent, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from rag_eval_hooks import Status
from tests.matrix.llama_index import kit
from tests.matrix.llama_index.agents import (
    ENGINE_SPANS,
    GROUP,
    agent,
    caller,
    found_by_tool,
    query_tool,
    retriever_tool,
    said,
)
from tests.matrix.llama_index.steps import (
    BOTH_TOLD,
    SHOWN_AS,
    Shown,
    asks_somebody,
    breaks,
    fans_out,
    gives_generator,
    nested,
    streams_events,
)
from tests.matrix.shape import Shape
from tests.matrix.world import World

WRITTEN = kit.told("As the writer says: at 07:40 from the north quay.")
FIND, DESK, WRITER = (kit.NAMED.name() for _ in range(3))
ASK = {kit.ASKED: kit.QUESTION}
PLAIN = kit.answer_to(kit.QUESTION, kit.top(kit.QUESTION))
TWO = ("chat scripted", *kit.QUERY_SPANS[1:], *kit.QUERY_SPANS[1:])


def team() -> Any:
    """One agent hands over to another, which has the tool."""

    def hands_over(messages: Sequence[ChatMessage]) -> Any:
        return kit.pick("handoff", to_agent=WRITER, reason=kit.WORDS("it knows the timetable"))

    def writes(messages: Sequence[ChatMessage]) -> Any:
        told = [m.content or "" for m in messages if m.role == MessageRole.TOOL]
        found = any(text[:40] in each for text in kit.PASSAGES for each in told)
        return WRITTEN if found else kit.pick(kit.FERRIES, input=kit.QUESTION)

    desk = FunctionAgent(
        name=DESK,
        description=kit.WORDS("Hands over."),
        llm=kit.Scripted(reply=hands_over),
        can_handoff_to=[WRITER],
        system_prompt=kit.WORDS("Hand over."),
    )
    writer = FunctionAgent(
        name=WRITER,
        description=kit.WORDS("Writes."),
        tools=[retriever_tool()],
        llm=kit.Scripted(reply=writes),
        system_prompt=kit.WORDS("Write."),
    )
    return AgentWorkflow(agents=[desk, writer], root_agent=DESK)


def find(question: str) -> str:
    found = kit.index().as_retriever(similarity_top_k=2).retrieve(question)
    return "\n".join(node.get_content() for node in found)


find.__name__ = FIND


async def execute(code: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {FIND: find})
    return out.getvalue()


def coder() -> Any:

    def reply(messages: Sequence[ChatMessage]) -> str:
        if kit.top()[0][:40] in kit.prompt_text(messages):
            return WRITTEN
        return (
            f"{kit.told('I look it up.')}\n<execute>\nprint({FIND}({kit.QUESTION!r}))\n</execute>"
        )

    return CodeActAgent(code_execute_fn=execute, llm=kit.Scripted(reply=reply), tools=[find])


async def run(made: Any) -> None:
    await made.run(user_msg=kit.QUESTION)


async def read(made: Any) -> None:
    handler = made.run(user_msg=kit.QUESTION)
    assert [event async for event in handler.stream_events()]
    await handler


async def two_turns() -> None:
    """Two questions in one context: each has its own contexts."""
    made = agent("function", retriever_tool())
    context = Context(made)
    with warnings.catch_warnings():
        # LlamaIndex warns of what it keeps of a context itself.
        warnings.simplefilter("ignore")
        for question in kit.QUESTIONS:
            await made.run(user_msg=question, ctx=context)


async def timed_out() -> None:
    """The time of `asyncio.timeout` is over while the model thinks about what was retrieved."""
    model = caller()
    call = model.reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        model.delay = 60.0
        return call(messages)

    async def time_is_over(limit: asyncio.Timeout) -> None:
        await kit.until_asked(model, 2)
        limit.reschedule(asyncio.get_running_loop().time())

    model.reply = reply
    made = FunctionAgent(tools=[retriever_tool()], llm=model, streaming=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            waiting = asyncio.create_task(time_is_over(limit))
            await made.run(user_msg=kit.QUESTION)
    await waiting


async def model_fails() -> None:

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if any(message.role == MessageRole.TOOL for message in messages):
            raise ConnectionError("no model")
        return kit.pick(kit.FERRIES, input=kit.QUESTION)

    made = FunctionAgent(tools=[retriever_tool()], llm=kit.Scripted(reply=reply))
    # Some versions raise an error of their own in its place.
    with contextlib.suppress(Exception):
        await made.run(user_msg=kit.QUESTION)


async def asking() -> None:
    handler: Any = asks_somebody().run(**ASK)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response=kit.WORDS("Yes.")))
    await handler


async def never_told() -> None:
    with contextlib.suppress(Exception):
        await asks_somebody(timeout=1.0).run(**ASK)


async def breaking() -> None:
    with contextlib.suppress(Exception):
        await breaks().run(**ASK)


async def words_as_events() -> None:
    handler: Any = streams_events().run(**ASK)
    shown = [
        getattr(event, SHOWN_AS)
        async for event in handler.stream_events()
        if isinstance(event, Shown)
    ]
    assert "".join(shown) == await handler


async def generator() -> None:
    stream: Any = await gives_generator().run(**ASK)
    assert [part async for part in stream]


def team_shape(
    name: str,
    body: Callable[[], Awaitable[Any]],
    answer: str | Callable[[str], str] | None = PLAIN,
    *,
    spans: Sequence[str] | None = None,
    **expected: Any,
) -> Shape:
    """A shape that is one coroutine; of several questions the answer is a function."""

    async def run(world: World, way: str) -> None:
        await body()

    answers = answer if callable(answer) else lambda question: answer
    return kit.case(GROUP, name, run, answer=answers, spans=spans, **expected)


SHAPES = (
    team_shape(
        "AgentWorkflow, events streamed", lambda: read(team()), WRITTEN, contexts=found_by_tool
    ),
    team_shape(
        "ReActAgent, events streamed",
        lambda: read(agent("react", query_tool())),
        said(kit.QUESTION),
        spans=ENGINE_SPANS,
    ),
    team_shape("CodeActAgent", lambda: run(coder()), WRITTEN),
    team_shape(
        "agent in two turns", two_turns, said, questions=kit.QUESTIONS, contexts=found_by_tool
    ),
    team_shape("agent timed out", timed_out, None, status=Status.CANCELLED, contexts=found_by_tool),
    team_shape(
        "agent whose model fails", model_fails, None, status=Status.ERROR, contexts=found_by_tool
    ),
    team_shape(
        "workflow that fans out",
        lambda: fans_out().run(**{kit.ASKED: kit.BOTH}),
        answer=BOTH_TOLD,
        questions=[kit.BOTH],
        contexts=lambda q: list(
            dict.fromkeys([*kit.top(kit.QUESTIONS[0], 1), *kit.top(kit.QUESTIONS[1], 1)])
        ),
        spans=TWO,
    ),
    team_shape("workflow that asks somebody", asking, spans=kit.QUERY_SPANS),
    team_shape(
        "workflow that nobody replies to",
        never_told,
        None,
        status=Status.ERROR,
        spans=kit.QUERY_SPANS[1:],
    ),
    team_shape(
        "workflow that raises", breaking, None, status=Status.ERROR, spans=kit.QUERY_SPANS[1:]
    ),
    team_shape("workflow in a workflow", lambda: nested().run(**ASK)),
    team_shape("workflow that streams events", words_as_events, spans=kit.QUERY_SPANS),
    team_shape(
        "workflow that gives out a generator of its own",
        generator,
        None,
        spans=kit.QUERY_SPANS,
    ),
)
