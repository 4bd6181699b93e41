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
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from rag_eval_hooks import Status
from tests.matrix.llama_index.agents import (
    ENGINE_SPANS,
    GROUP,
    NO_TOOL_THREADS,
    RETRIEVER_SPANS,
    agent,
    caller,
    found_by_tool,
    query_tool,
    retriever_tool,
    said,
)
from tests.matrix.llama_index.kit import (
    ASKED,
    BOTH,
    FERRIES,
    NAMED,
    PASSAGES,
    QUERY_SPANS,
    QUESTION,
    QUESTIONS,
    WORDS,
    Scripted,
    answer_to,
    case,
    index,
    pick,
    prompt_text,
    told,
    top,
    until_asked,
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

__all__ = ["SHAPES"]

WRITTEN = told("As the writer says: at 07:40 from the north quay.")
FIND, DESK, WRITER = (NAMED.name() for _ in range(3))
ASK = {ASKED: QUESTION}
PLAIN = answer_to(QUESTION, top(QUESTION))
TWO = ("chat scripted", *QUERY_SPANS[1:], *QUERY_SPANS[1:])


def team() -> Any:
    """One agent hands over to another, which has the tool."""

    def hands_over(messages: Sequence[ChatMessage]) -> Any:
        return pick("handoff", to_agent=WRITER, reason=WORDS("it knows the timetable"))

    def writes(messages: Sequence[ChatMessage]) -> Any:
        told = [m.content or "" for m in messages if m.role == MessageRole.TOOL]
        found = any(text[:40] in each for text in PASSAGES for each in told)
        return WRITTEN if found else pick(FERRIES, input=QUESTION)

    desk = FunctionAgent(
        name=DESK,
        description=WORDS("Hands over."),
        llm=Scripted(reply=hands_over),
        can_handoff_to=[WRITER],
        system_prompt=WORDS("Hand over."),
    )
    writer = FunctionAgent(
        name=WRITER,
        description=WORDS("Writes."),
        tools=[retriever_tool()],
        llm=Scripted(reply=writes),
        system_prompt=WORDS("Write."),
    )
    return AgentWorkflow(agents=[desk, writer], root_agent=DESK)


def find(question: str) -> str:
    """Finds passages."""
    found = index().as_retriever(similarity_top_k=2).retrieve(question)
    return "\n".join(node.get_content() for node in found)


find.__name__ = FIND


async def execute(code: str) -> str:
    """Runs the code of a CodeActAgent."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {FIND: find})
    return out.getvalue()


def coder() -> Any:
    """An agent that writes code, which retrieves."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        if top()[0][:40] in prompt_text(messages):
            return WRITTEN
        return f"{told('I look it up.')}\n<execute>\nprint({FIND}({QUESTION!r}))\n</execute>"

    return CodeActAgent(code_execute_fn=execute, llm=Scripted(reply=reply), tools=[find])


def finder() -> FunctionTool:
    """A plain function that retrieves."""
    return FunctionTool.from_defaults(
        lambda input: find(input), name=FERRIES, description=WORDS("Finds passages.")
    )


async def run(made: Any) -> None:
    """One question."""
    await made.run(user_msg=QUESTION)


async def read(made: Any) -> None:
    """The same, with its events."""
    handler = made.run(user_msg=QUESTION)
    assert [event async for event in handler.stream_events()]
    await handler


async def two_turns() -> None:
    """Two questions in one context: each has its own contexts."""
    made = agent("function", retriever_tool())
    context = Context(made)
    with warnings.catch_warnings():
        # LlamaIndex warns of what it keeps of a context itself.
        warnings.simplefilter("ignore")
        for question in QUESTIONS:
            await made.run(user_msg=question, ctx=context)


async def at_once() -> None:
    """Two agents at once."""
    made = [agent(kind, query_tool()) for kind in ("function", "react")]
    runs = zip(made, QUESTIONS, strict=True)
    await asyncio.gather(*(each.run(user_msg=question) for each, question in runs))


async def timed_out() -> None:
    """The time of `asyncio.timeout` is over while the model thinks about what was retrieved."""
    model = caller()
    call = model.reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        model.delay = 60.0
        return call(messages)

    async def time_is_over(limit: asyncio.Timeout) -> None:
        await until_asked(model, 2)
        limit.reschedule(asyncio.get_running_loop().time())

    model.reply = reply
    made = FunctionAgent(tools=[retriever_tool()], llm=model, streaming=False)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            waiting = asyncio.create_task(time_is_over(limit))
            await made.run(user_msg=QUESTION)
    await waiting


async def model_fails() -> None:
    """The model is down when it should answer."""

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if any(message.role == MessageRole.TOOL for message in messages):
            raise ConnectionError("no model")
        return pick(FERRIES, input=QUESTION)

    made = FunctionAgent(tools=[retriever_tool()], llm=Scripted(reply=reply))
    # Some versions raise an error of their own in its place.
    with contextlib.suppress(Exception):
        await made.run(user_msg=QUESTION)


async def asking() -> None:
    """Somebody is asked on the way."""
    handler: Any = asks_somebody().run(**ASK)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response=WORDS("Yes.")))
    await handler


async def never_told() -> None:
    """Nobody replies in time."""
    with contextlib.suppress(Exception):
        await asks_somebody(timeout=1.0).run(**ASK)


async def breaking() -> None:
    """A step raises."""
    with contextlib.suppress(Exception):
        await breaks().run(**ASK)


async def words_as_events() -> None:
    """The words are read as events."""
    handler: Any = streams_events().run(**ASK)
    shown = [
        getattr(event, SHOWN_AS)
        async for event in handler.stream_events()
        if isinstance(event, Shown)
    ]
    assert "".join(shown) == await handler


async def generator(own: bool) -> None:
    """A generator is read after the workflow has ended."""
    stream: Any = await gives_generator(own).run(**ASK)
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
    return case(GROUP, name, run, answer=answers, spans=spans, **expected)


SHAPES = (
    team_shape("AgentWorkflow with handoff", lambda: run(team()), WRITTEN, contexts=found_by_tool),
    team_shape(
        "AgentWorkflow, events streamed", lambda: read(team()), WRITTEN, contexts=found_by_tool
    ),
    team_shape(
        "ReActAgent, events streamed",
        lambda: read(agent("react", query_tool())),
        said(QUESTION),
        spans=ENGINE_SPANS,
    ),
    team_shape("CodeActAgent", lambda: run(coder()), WRITTEN),
    team_shape(
        "FunctionTool that retrieves",
        lambda: run(agent("function", finder())),
        said(QUESTION),
        spans=RETRIEVER_SPANS,
        missing=NO_TOOL_THREADS,
    ),
    team_shape("agent in two turns", two_turns, said, questions=QUESTIONS, contexts=found_by_tool),
    team_shape("agents at once", at_once, said, questions=QUESTIONS, spans=ENGINE_SPANS),
    team_shape("agent timed out", timed_out, None, status=Status.CANCELLED, contexts=found_by_tool),
    team_shape(
        "agent whose model fails", model_fails, None, status=Status.ERROR, contexts=found_by_tool
    ),
    team_shape(
        "workflow that fans out",
        lambda: fans_out().run(**{ASKED: BOTH}),
        answer=BOTH_TOLD,
        questions=[BOTH],
        contexts=lambda q: list(dict.fromkeys([*top(QUESTIONS[0], 1), *top(QUESTIONS[1], 1)])),
        spans=TWO,
    ),
    team_shape("workflow that asks somebody", asking, spans=QUERY_SPANS),
    team_shape(
        "workflow that nobody replies to",
        never_told,
        None,
        status=Status.ERROR,
        spans=QUERY_SPANS[1:],
    ),
    team_shape("workflow that raises", breaking, None, status=Status.ERROR, spans=QUERY_SPANS[1:]),
    team_shape("workflow in a workflow", lambda: nested().run(**ASK)),
    team_shape("workflow that streams events", words_as_events, spans=QUERY_SPANS),
    team_shape(
        "workflow that gives out the model's stream",
        lambda: generator(own=False),
        spans=QUERY_SPANS,
    ),
    team_shape(
        "workflow that gives out a generator of its own",
        lambda: generator(own=True),
        None,
        spans=QUERY_SPANS,
    ),
)
