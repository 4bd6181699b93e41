"""Agents of LlamaIndex: what their tools found, in teams, in turns, and when they break off."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import llama_index.core.agent as old_agents
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
NO_RUNNERS = (
    None if hasattr(old_agents, "AgentRunner") else "this version has no AgentRunner any more"
)
GROUP = "agents"


def name_of(tool: Any) -> str:
    return str(tool.metadata.name)


def asked_by_tool(corpus: Corpus, tool: Any) -> str:
    """Return what a retriever's tool asks: it puts its argument's name into the query."""
    is_retriever = type(tool).__name__ == "RetrieverTool"
    return f"input is {corpus.question}" if is_retriever else corpus.question


def thinking(tool: str, query: str, answer: str) -> Scripted:
    """A model that reasons in text, calls a tool once and answers."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        if not any((message.content or "").startswith("Observation:") for message in messages):
            return f'Thought: I need it.\nAction: {tool}\nAction Input: {{"input": "{query}"}}'
        return f"Thought: I can answer now.\nAnswer: {answer}"

    return Scripted(reply=reply)


def asked(agent: Any, question: str, *, streamed: bool = False) -> Callable[[], Any]:

    async def run() -> None:
        handler = agent.run(user_msg=question)
        if streamed:
            assert [event async for event in handler.stream_events()]
        await handler

    return run


def calling(draw: Draw, tools: Sequence[Any], calls: Sequence[ChatMessage], **due: Any) -> Asked:
    """Return the question to an agent that makes these calls, its events streamed or not."""
    question, answer, streaming = draw.question(), draw.answer(), draw.one_of(True, False)
    model = in_turn(answer, *calls)
    agent = FunctionAgent(tools=list(tools), llm=model, streaming=streaming)
    return Asked(asked(agent, question, streamed=streaming), question, answer=answer, **due)


def of_kind(kind: str, is_retriever: bool) -> None:
    """Register an agent of a kind with a tool of a kind."""

    def made(draw: Draw) -> Asked:
        corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()
        tool = corpus.tool(None if is_retriever else draw.sentence())
        call = pick(name_of(tool), input=corpus.question)
        agent: Any
        if kind == "FunctionAgent":
            agent = FunctionAgent(tools=[tool], llm=in_turn(answer, call))
        else:
            model = thinking(name_of(tool), corpus.question, answer)
            agent = ReActAgent(tools=[tool], llm=model)
        inner = () if is_retriever else ("  chat scripted",)
        found = ("  retrieval VectorIndexRetriever", "    embeddings bags")
        spans = ("chat scripted",) * 2 + (f"execute_tool {name_of(tool)}", *inner, *found)
        shown = corpus.shown(asked_by_tool(corpus, tool))
        run = asked(agent, question, streamed=draw.one_of(True, False))
        return Asked(run, question, shown, answer, spans=spans)

    named = f"{kind} with {'a retriever' if is_retriever else 'an engine'}"
    shape(GROUP, "run", name=named)(made)


for _kind in ("FunctionAgent", "ReActAgent"):
    of_kind(_kind, is_retriever=False)
    of_kind(_kind, is_retriever=True)


@shape(GROUP, missing=NO_TOOL_THREADS)
def tool_of_a_plain_function(draw: Draw) -> Asked:
    """Around an engine, around a retriever, or a search of its own."""
    corpus, name = Corpus(draw), draw.name()
    kind = draw.one_of("engine", "retriever", "texts", "rows", "text")
    engine, texts = corpus.engine(says(draw.sentence())), corpus.shown()

    def search(query: str) -> Any:
        if kind == "engine":
            return str(engine.query(query))
        if kind == "retriever":
            return "\n\n".join(n.get_content() for n in corpus.retriever.retrieve(query))
        if kind == "rows":
            return [{draw.name(): n, "text": text} for n, text in enumerate(texts)]
        return texts if kind == "texts" else texts[0]

    tool = FunctionTool.from_defaults(search, name=name, description="Searches.")
    contexts = texts[:1] if kind == "text" else texts
    return calling(draw, [tool], [pick(name, query=corpus.question)], contexts=contexts)


@shape(GROUP)
def tool_of_a_package_that_searches(draw: Draw) -> Asked:
    """No event shows what it finds, whoever wrote its function, sync or async."""
    texts, name = draw.passages(draw.chance.randint(1, 4)), draw.name()
    rows = [{draw.name(): text, "url": f"https://{draw.name()}"} for text in texts]
    hits = draw.one_of(rows, json.dumps(rows), [Document(text=text) for text in texts])

    def look(subject: str) -> object:
        return hits

    async def look_later(subject: str) -> object:
        return hits

    package = draw.one_of("llama_index.tools", draw.name())
    look.__module__ = look_later.__module__ = f"{package}.{draw.name()}"
    how: dict[str, Any] = draw.one_of({"fn": look}, {"async_fn": look_later})
    tool = FunctionTool.from_defaults(**how, name=name, description="Searches.")
    return calling(draw, [tool], [pick(name, subject=draw.name())], contexts=texts)


@shape(GROUP, "run", missing=NO_TOOL_THREADS)
def engines_that_a_running_loop_hands_to_threads(draw: Draw) -> Asked:
    """A thread in which LlamaIndex runs a sync call is a part of that call."""
    _, tools, shown = corpora_with_tools(draw, draw.chance.randint(2, 3))
    question, answer = draw.question(), draw.sentence()
    engine = RouterQueryEngine(selector=Everything(), query_engine_tools=tools, llm=says(answer))

    async def run() -> None:
        await engine.aquery(question)

    return Asked(run, question, shown, answer, any_order=True)


def in_one_context(agent: Any, questions: Sequence[str]) -> Callable[[], Any]:

    async def run() -> None:
        context = Context(agent)
        with warnings.catch_warnings():
            # LlamaIndex warns of what it keeps of a context itself.
            warnings.simplefilter("ignore")
            for question in questions:
                await agent.run(user_msg=question, ctx=context)

    return run


@shape(GROUP, "run")
def second_turn_retrieves(draw: Draw) -> Asked:
    """An agent that reckons in its first turn and asks an engine in its second, as in tutorials."""
    corpus, question, answer, name = Corpus(draw), draw.question(), draw.answer(), draw.name()
    factors = [draw.chance.randint(2, 99) for _ in range(2)]
    engine = corpus.engine(says(draw.sentence()))

    async def search(query: str) -> str:
        return str(await engine.aquery(query))

    def times(a: int, b: int) -> int:
        return a * b

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        last = max(n for n, one in enumerate(messages) if one.role == MessageRole.USER)
        if any(message.role == MessageRole.TOOL for message in messages[last:]):
            return answer
        if messages[last].content == question:
            return pick(name, query=corpus.question)
        return pick("times", a=factors[0], b=factors[1])

    tools = [
        FunctionTool.from_defaults(async_fn=search, name=name, description=draw.name()),
        FunctionTool.from_defaults(times, name="times", description=draw.name()),
    ]
    agent = FunctionAgent(tools=tools, llm=Scripted(reply=reply), streaming=False)
    run = in_one_context(agent, [f"{factors[0]} * {factors[1]}?", question])
    return Asked(run, question, corpus.shown(), answer)


@shape(GROUP, "run")
def both_turns_retrieve(draw: Draw) -> Asked:
    """Two questions in one context: each has its own contexts."""
    corpora = {draw.question(): Corpus(draw) for _ in range(2)}
    answers = {question: draw.answer() for question in corpora}
    tools = {question: corpus.tool() for question, corpus in corpora.items()}

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        last = max(n for n, one in enumerate(messages) if one.role == MessageRole.USER)
        question = str(messages[last].content)
        if any(message.role == MessageRole.TOOL for message in messages[last:]):
            return answers[question]
        return pick(name_of(tools[question]), input=corpora[question].question)

    agent = FunctionAgent(tools=list(tools.values()), llm=Scripted(reply=reply), streaming=False)
    run = in_one_context(agent, list(corpora))
    due = [
        Asked(
            run, question, corpus.shown(asked_by_tool(corpus, tools[question])), answers[question]
        )
        for question, corpus in corpora.items()
    ]
    return Asked(run, also=due)


@shape(GROUP, "run")
def team_that_hands_over(draw: Draw) -> Asked:
    corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()
    desk, writer, tool = draw.name(), draw.name(), corpus.tool()

    def writes(messages: Sequence[ChatMessage]) -> Any:
        told = [m.content or "" for m in messages if m.role == MessageRole.TOOL]
        found = any(node.text[:40] in each for node in corpus.nodes for each in told)
        return answer if found else pick(name_of(tool), input=corpus.question)

    handing = pick("handoff", to_agent=writer, reason=draw.word())
    agents: list[Any] = [
        FunctionAgent(
            name=desk,
            description=draw.sentence(),
            llm=Scripted(reply=lambda _: handing),
            can_handoff_to=[writer],
            system_prompt=draw.sentence(),
        ),
        FunctionAgent(
            name=writer,
            description=draw.sentence(),
            tools=[tool],
            llm=Scripted(reply=writes),
            system_prompt=draw.sentence(),
        ),
    ]
    run = asked(AgentWorkflow(agents=agents, root_agent=desk), question, streamed=True)
    return Asked(run, question, corpus.shown(asked_by_tool(corpus, tool)), answer)


# Agents that break off after their tool retrieved: without an answer, and not scored.


@shape(GROUP, "run")
def agent_that_is_cancelled(draw: Draw) -> Asked:
    """By the workflow's own means, by its task, or by a timeout around it."""
    corpus, question = Corpus(draw), draw.question()
    tool = corpus.tool()
    model = in_turn(draw.answer(), pick(name_of(tool), input=corpus.question))
    said, way = model.reply, draw.one_of("run", "task", "timeout")

    def reply(messages: Sequence[ChatMessage]) -> Any:
        model.delay = 600.0
        return said(messages)

    model.reply = reply
    agent = FunctionAgent(tools=[tool], llm=model, streaming=False)

    async def run() -> None:
        # What a version raises is its own.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            if way == "timeout":
                async with asyncio.timeout(None) as limit:
                    waiting = asyncio.create_task(time_is_over(limit))
                    await agent.run(user_msg=question)
                await waiting
                return
            handler = agent.run(user_msg=question)
            await until_async(lambda: model.begun > 1)
            if way == "run" and hasattr(handler, "cancel_run"):
                await handler.cancel_run()
            else:
                handler.cancel()
            await handler
        await asyncio.sleep(0)

    async def time_is_over(limit: asyncio.Timeout) -> None:
        await until_async(lambda: model.begun > 1)
        limit.reschedule(asyncio.get_running_loop().time())

    shown = corpus.shown(asked_by_tool(corpus, tool))
    return Asked(run, question, shown, None, Status.CANCELLED)


@shape(GROUP, "run")
def agent_whose_model_fails(draw: Draw) -> Asked:
    corpus, question = Corpus(draw), draw.question()
    tool = corpus.tool()

    def reply(messages: Sequence[ChatMessage]) -> Any:
        if any(message.role == MessageRole.TOOL for message in messages):
            raise ConnectionError("no model")
        return pick(name_of(tool), input=corpus.question)

    async def run() -> None:
        # Some versions raise an error of their own in its place.
        with contextlib.suppress(Exception):
            await FunctionAgent(tools=[tool], llm=Scripted(reply=reply)).run(user_msg=question)

    shown = corpus.shown(asked_by_tool(corpus, tool))
    return Asked(run, question, shown, None, STEP_FAILED)


def runner(kind: str, ways: Sequence[str]) -> None:
    """Register an agent of old versions, which is no workflow."""

    def made(draw: Draw) -> Asked:
        corpus, question, answer = Corpus(draw), draw.question(), draw.sentence()
        tool = corpus.tool(draw.one_of(None, draw.sentence()))
        if kind == "FunctionCallingAgent":
            model = in_turn(answer, pick(name_of(tool), input=corpus.question))
        else:
            model = thinking(name_of(tool), corpus.question, answer)
        agent = getattr(old_agents, kind).from_tools([tool], llm=model)
        shown = corpus.shown(asked_by_tool(corpus, tool))
        return Asked(draw.call(agent, question), question, shown, answer)

    shape(GROUP, *ways, missing=NO_RUNNERS, name=f"{kind} of a runner")(made)


runner("FunctionCallingAgent", ("chat", "achat"))
runner("ReActAgent", ("chat", "achat", "stream_chat", "astream_chat"))
