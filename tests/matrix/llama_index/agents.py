"""Agents of LlamaIndex: what their tools found, in teams, in turns, and when they break off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core import __version__
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.query_engine import RouterQueryEngine
from llama_index.core.schema import Document
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context

from rag_eval_hooks import Status
from tests.matrix.llama_index.engines import Everything, corpora_with_tools
from tests.matrix.llama_index.kit import (
    STEP_FAILED,
    Asked,
    Corpus,
    Draw,
    Scripted,
    in_turn,
    pick,
    says,
    shape,
)
from tests.waiting import until_async

_LINKED = (0, 14, 22)
NO_TOOL_THREADS = (
    None
    if tuple(map(int, re.findall(r"\d+", __version__)[:3])) >= _LINKED
    else "before 0.14.22 nothing tells which call a thread belongs to"
)
GROUP = "agents"


def name_of(tool: Any) -> str:
    return str(tool.metadata.name)


def found_by(tool: Any, corpus: Corpus) -> list[str]:
    """Return what a tool finds: a retriever's tool puts its argument's name into the query."""
    is_retriever = type(tool).__name__ == "RetrieverTool"
    return corpus.shown(f"input is {corpus.question}" if is_retriever else None)


def called(tool: Any, corpus: Corpus) -> ChatMessage:
    return pick(name_of(tool), input=corpus.question)


def thinking(tool: Any, corpus: Corpus, answer: str) -> Scripted:
    given = json.dumps({"input": corpus.question}, ensure_ascii=False)

    def reply(messages: Sequence[ChatMessage]) -> str:
        if not any((message.content or "").startswith("Observation:") for message in messages):
            return f"Thought: I need it.\nAction: {name_of(tool)}\nAction Input: {given}"
        return f"Thought: I can answer now.\nAnswer: {answer}"

    return Scripted(reply=reply)


def asked(agent: Any, question: str, *, streamed: bool = False) -> Callable[[], Any]:

    async def run() -> None:
        handler = agent.run(user_msg=question)
        if streamed:
            assert [event async for event in handler.stream_events()]
        await handler

    return run


def of_kind(kind: Any, is_retriever: bool) -> None:
    def made(draw: Draw) -> Asked:
        corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()
        tool = corpus.tool(None if is_retriever else draw.sentence())
        steps = in_turn(answer, called(tool, corpus))
        model = steps if kind is FunctionAgent else thinking(tool, corpus, answer)
        inner = () if is_retriever else ("  chat scripted",)
        found = ("  retrieval VectorIndexRetriever", "    embeddings bags")
        spans = ("chat scripted",) * 2 + (f"execute_tool {name_of(tool)}", *inner, *found)
        run = asked(kind(tools=[tool], llm=model), question, streamed=draw.one_of(True, False))
        return Asked(run, question, found_by(tool, corpus), answer, spans=spans)

    beside = "a retriever" if is_retriever else "an engine"
    shape(GROUP, "run", name=f"{kind.__name__} with {beside}")(made)


for _kind in (FunctionAgent, ReActAgent):
    of_kind(_kind, is_retriever=False)
    of_kind(_kind, is_retriever=True)


def with_function(draw: Draw, contexts: Sequence[str], asked_for: str, **how: Any) -> Asked:
    question, answer, name = draw.question(), draw.answer(), draw.name()
    tool = FunctionTool.from_defaults(**how, name=name, description="Searches.")
    streaming = draw.one_of(True, False)
    model = in_turn(answer, pick(name, query=asked_for))
    agent = FunctionAgent(tools=[tool], llm=model, streaming=streaming)
    return Asked(asked(agent, question, streamed=streaming), question, contexts, answer)


@shape(GROUP, missing=NO_TOOL_THREADS)
def tool_of_a_plain_function(draw: Draw) -> Asked:
    corpus = Corpus(draw)
    engine = draw.one_of(corpus.engine(says(draw.sentence())), None)

    def search(query: str) -> Any:
        if engine is not None:
            return str(engine.query(query))
        return "\n\n".join(n.get_content() for n in corpus.retriever.retrieve(query))

    return with_function(draw, corpus.shown(), corpus.question, fn=search)


@shape(GROUP)
def tool_of_a_package_that_searches(draw: Draw) -> Asked:
    texts = draw.passages(draw.chance.randint(1, 4))
    rows = [{draw.name(): text, "url": f"https://{draw.name()}"} for text in texts]
    hits = draw.one_of(texts, rows, json.dumps(rows), [Document(text=text) for text in texts])

    def look(query: str) -> object:
        return hits

    async def look_later(query: str) -> object:
        return hits

    package = draw.one_of("llama_index.tools", draw.name())
    look.__module__ = look_later.__module__ = f"{package}.{draw.name()}"
    how: dict[str, Any] = draw.one_of({"fn": look}, {"async_fn": look_later})
    return with_function(draw, texts, draw.name(), **how)


@shape(GROUP, "run", missing=NO_TOOL_THREADS)
def engines_that_a_running_loop_hands_to_threads(draw: Draw) -> Asked:
    """A thread in which LlamaIndex runs a sync call is a part of that call."""
    _, tools, shown = corpora_with_tools(draw, draw.chance.randint(2, 3))
    question, answer = draw.question(), draw.sentence()
    engine = RouterQueryEngine(selector=Everything(), query_engine_tools=tools, llm=says(answer))
    return Asked(lambda: engine.aquery(question), question, shown, answer, any_order=True)


@shape(GROUP, "run")
def several_turns(draw: Draw) -> Asked:
    corpora = {draw.question(): Corpus(draw) for _ in range(2)}
    answers = {question: draw.answer() for question in corpora}
    tools = {q: c.tool(draw.one_of(None, draw.sentence())) for q, c in corpora.items()}

    def times(a: int, b: int) -> int:
        return a * b

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        last = max(n for n, one in enumerate(messages) if one.role == MessageRole.USER)
        question = str(messages[last].content)
        if any(message.role == MessageRole.TOOL for message in messages[last:]):
            return answers.get(question, "So many.")
        if question in corpora:
            return called(tools[question], corpora[question])
        return pick("times", a=6, b=7)

    reckon = FunctionTool.from_defaults(times, name="times", description=draw.name())
    model = Scripted(reply=reply)
    agent = FunctionAgent(tools=[reckon, *tools.values()], llm=model, streaming=False)

    async def run() -> None:
        context = Context(agent)
        with warnings.catch_warnings():
            # LlamaIndex warns about its own entries in a context.
            warnings.simplefilter("ignore")
            for question in ("6 times 7?", *corpora):
                await agent.run(user_msg=question, ctx=context)

    due = [Asked(run, q, found_by(tools[q], c), answers[q]) for q, c in corpora.items()]
    return Asked(run, also=due)


@shape(GROUP, "run")
def team_that_hands_over(draw: Draw) -> Asked:
    corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()
    desk, writer, tool = draw.name(), draw.name(), corpus.tool()

    def writes(messages: Sequence[ChatMessage]) -> Any:
        told = [m.content or "" for m in messages if m.role == MessageRole.TOOL]
        found = any(node.text[:40] in each for node in corpus.nodes for each in told)
        return answer if found else called(tool, corpus)

    def member(name: str, reply: Callable[[Any], Any], **more: Any) -> Any:
        told = {"description": draw.sentence(), "system_prompt": draw.sentence()}
        return FunctionAgent(name=name, llm=Scripted(reply=reply), **told, **more)

    handing = pick("handoff", to_agent=writer, reason=draw.word())
    agents = [
        member(desk, lambda _: handing, can_handoff_to=[writer]),
        member(writer, writes, tools=[tool]),
    ]
    run = asked(AgentWorkflow(agents=agents, root_agent=desk), question, streamed=True)
    return Asked(run, question, found_by(tool, corpus), answer)


# Agents that break off after their tool retrieved: without an answer, and not scored.


@shape(GROUP, "run")
def agent_that_is_cancelled(draw: Draw) -> Asked:
    corpus, question = Corpus(draw), draw.question()
    tool, by_run = corpus.tool(), draw.one_of(True, False)
    model = in_turn(draw.answer(), called(tool, corpus))
    said = model.reply

    def reply(messages: Sequence[ChatMessage]) -> Any:
        model.delay = 600.0
        return said(messages)

    model.reply = reply
    agent = FunctionAgent(tools=[tool], llm=model, streaming=False)

    async def run() -> None:
        # What a version raises is its own.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            handler = agent.run(user_msg=question)
            await until_async(lambda: model.begun > 1)
            if by_run and hasattr(handler, "cancel_run"):
                await handler.cancel_run()
            else:
                handler.cancel()
            await handler
        await asyncio.sleep(0)

    return Asked(run, question, found_by(tool, corpus), None, Status.CANCELLED)


@shape(GROUP, "run")
def agent_whose_model_fails(draw: Draw) -> Asked:
    corpus, question = Corpus(draw), draw.question()
    tool = corpus.tool()

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if any(message.role == MessageRole.TOOL for message in messages):
            raise ConnectionError("no model")
        return called(tool, corpus)

    async def run() -> None:
        # Some versions raise an error of their own in its place.
        with contextlib.suppress(Exception):
            await FunctionAgent(tools=[tool], llm=Scripted(reply=reply)).run(user_msg=question)

    return Asked(run, question, found_by(tool, corpus), None, STEP_FAILED)
