"""Behaviours of LlamaIndex's workflows and agents, each as its users rely on it.

A behaviour is a function of what a seed draws that returns what its user gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.tools import FunctionTool, QueryEngineTool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from tests.conformance.llama_index.flows import (
    Answered,
    Asking,
    FanOut,
    Flaky,
    Nested,
    Slow,
    Stateful,
    Streaming,
)
from tests.conformance.llama_index.pipelines import Drawn, gathered
from tests.matrix.llama_index.kit import Scripted, pick

try:
    from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent

    HAS_AGENTS = True
except ImportError:  # agents as workflows came later
    HAS_AGENTS = False

__all__ = ["AGENTS", "WORKFLOWS"]


def streams_of_workflows(drawn: Drawn) -> Any:
    """Events that steps write to the stream come out in order, with the result at the end."""

    async def run() -> Any:
        handler = Streaming(drawn.engine()).run(questions=drawn.questions)
        return [event async for event in handler.stream_events()], await handler

    return asyncio.run(run())


def parts_at_once(drawn: Drawn) -> Any:
    """Parts that a step sends are answered by several workers, and all collected."""

    async def run() -> Any:
        flow = FanOut(drawn.engine())
        flow.parts = len(drawn.questions)
        return await flow.run(questions=drawn.questions)

    return asyncio.run(run())


def contexts_of_workflows(drawn: Drawn) -> Any:
    """A context holds what steps put there, over runs and through its plain form."""

    async def run() -> Any:
        flow = Stateful(drawn.engine())
        ctx = Context(flow)
        counts = [await flow.run(ctx=ctx, question=question) for question in drawn.questions]
        again = Context.from_dict(flow, ctx.to_dict())
        counts.append(await flow.run(ctx=again, question=drawn.questions[0]))
        state: Any = getattr(again, "store", again)
        return counts, await state.get("answers"), sorted(again.to_dict())

    return asyncio.run(run())


def humans_in_the_loop(drawn: Drawn) -> Any:
    """A workflow that waits for a human goes on with what the human says."""

    async def run() -> Any:
        handler = Asking(drawn.engine()).run(question=drawn.questions[0])
        async for event in handler.stream_events():
            if isinstance(event, InputRequiredEvent):
                handler.ctx.send_event(HumanResponseEvent(response=drawn.answer))
        return await handler

    return asyncio.run(run())


def retried_steps(drawn: Drawn) -> Any:
    """Steps are tried again as their policy says, and fail with the last exception."""

    async def run(failures: int) -> Any:
        flow = Flaky(drawn.engine())
        flow.failures = failures
        (result,) = await asyncio.gather(
            flow.run(question=drawn.questions[0]), return_exceptions=True
        )
        return flow.attempts, result

    return [asyncio.run(run(failures)) for failures in (0, min(drawn.count, 3), 9)]


def failing_steps(drawn: Drawn) -> Any:
    """An exception of a step comes out of the workflow, nested or at once."""
    broken = drawn.engine(drawn.broken())

    async def run() -> Any:
        flows = [Streaming(broken), Nested(broken), Nested(drawn.engine())]
        runs = [flow.run(questions=drawn.questions) for flow in flows]
        return await asyncio.gather(*runs, return_exceptions=True)

    return asyncio.run(run())


def time_limits(drawn: Drawn) -> Any:
    """A workflow that takes too long ends as ever."""

    async def run() -> Any:
        flow = Slow(drawn.engine(), timeout=0.1)
        return await asyncio.gather(flow.run(question=drawn.questions[0]), return_exceptions=True)

    return asyncio.run(run())


def cancelled_workflows(drawn: Drawn) -> Any:
    """Workflows that are cancelled while they run end as ever, and leave no task."""

    async def started() -> Any:
        handler = Slow(drawn.engine()).run(question=drawn.questions[0])
        async for event in handler.stream_events():
            if isinstance(event, Answered):
                break
        return handler

    async def run() -> Any:
        handler = await started()
        await handler.cancel_run()
        ended = await asyncio.gather(handler, return_exceptions=True)
        waiting = asyncio.ensure_future(_awaited(await started()))
        await asyncio.sleep(0)
        waiting.cancel()
        cancelled = await asyncio.gather(waiting, return_exceptions=True)
        return ended, cancelled

    return asyncio.run(run())


async def _awaited(handler: Any) -> Any:
    try:
        return await handler
    finally:
        await handler.cancel_run()


def cancelled_queries(drawn: Drawn) -> Any:
    """Queries that are cancelled or time out while their model thinks raise as ever."""
    model = drawn.model(delay=60.0)

    async def run() -> Any:
        tasks = [asyncio.ensure_future(drawn.engine(model).aquery(q)) for q in drawn.questions]
        while sum(task.done() for task in tasks) + model.begun < len(tasks):
            await asyncio.sleep(0.001)
        for task in tasks[1:]:
            task.cancel()
        limited = asyncio.wait_for(tasks[0], 0.01)
        return await asyncio.gather(limited, *tasks[1:], return_exceptions=True)

    return asyncio.run(run())


def tools_of(drawn: Drawn) -> list[Any]:
    """Return a query engine and a function as tools."""
    engine = QueryEngineTool.from_defaults(
        drawn.engine(), name="search", description=drawn.questions[0]
    )

    async def count(input: str) -> str:
        return f"{drawn.count} {input}"

    return [engine, FunctionTool.from_defaults(async_fn=count, name="count", description="Counts.")]


def caller(drawn: Drawn, before: int = 0) -> Scripted:
    """Return a model that calls one tool after the other, then answers.

    `before` is the number of tools that others called before it.
    """

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        done = sum(message.role == MessageRole.TOOL for message in messages) - before
        if done < 2:
            return pick(("search", "count")[done], input=drawn.questions[done])
        return drawn.answer

    return Scripted(reply=reply)


def thinker(drawn: Drawn) -> Scripted:
    """Return a model that calls a tool in ReAct's words, then answers."""

    def reply(messages: Sequence[ChatMessage]) -> str:
        if any((message.content or "").startswith("Observation:") for message in messages):
            return f"Thought: I know.\nAnswer: {drawn.answer}"
        return f'Thought: look.\nAction: search\nAction Input: {{"input": "{drawn.questions[0]}"}}'

    return Scripted(reply=reply)


def function_agents(drawn: Drawn) -> Any:
    """Agents with tools give their events, answer, memory and context."""

    async def run() -> Any:
        agent = FunctionAgent(tools=tools_of(drawn), llm=caller(drawn))
        ctx, memory = Context(agent), ChatMemoryBuffer.from_defaults(token_limit=100_000)
        handler = agent.run(user_msg=drawn.questions[0], ctx=ctx, memory=memory)
        events = [event async for event in handler.stream_events()]
        first = await handler
        second = await agent.run(user_msg=drawn.questions[1], ctx=ctx, memory=memory)
        return events, first, second, [m.content for m in memory.get_all()]

    return asyncio.run(run())


def agents_at_once(drawn: Drawn) -> Any:
    """Agents of both kinds that run at once give their own answers."""

    async def ask(agent: Any, question: str) -> str:
        return str(await agent.run(user_msg=question))

    agents = [
        FunctionAgent(tools=tools_of(drawn), llm=caller(drawn)),
        ReActAgent(tools=tools_of(drawn)[:1], llm=thinker(drawn), streaming=False),
        ReActAgent(tools=tools_of(drawn)[:1], llm=thinker(drawn)),
    ]
    return gathered([ask(agent, question) for agent in agents for question in drawn.questions[:2]])


def teams_of_agents(drawn: Drawn) -> Any:
    """An agent that hands over to another one does."""

    def hand_over(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        if any(message.role == MessageRole.TOOL for message in messages):
            return drawn.answer
        return pick("handoff", to_agent="second", reason=drawn.questions[1])

    first = FunctionAgent(
        name="first", description="Asks.", llm=Scripted(reply=hand_over), can_handoff_to=["second"]
    )
    second = FunctionAgent(
        name="second", description="Answers.", llm=caller(drawn, before=1), tools=tools_of(drawn)
    )

    async def run() -> Any:
        team = AgentWorkflow(agents=[first, second], root_agent="first")
        handler = team.run(user_msg=drawn.questions[0])
        return [event async for event in handler.stream_events()], str(await handler)

    return asyncio.run(run())


def failing_agents(drawn: Drawn) -> Any:
    """Agents whose model fails raise, and those whose tool fails go on, as ever."""

    async def fails(input: str) -> str:
        raise PermissionError(drawn.answer)

    tool = FunctionTool.from_defaults(async_fn=fails, name="search", description="Fails.")
    others = tools_of(drawn)[1:]

    async def ask(agent: Any) -> str:
        return str(await agent.run(user_msg=drawn.questions[0]))

    return gathered(
        [
            ask(FunctionAgent(tools=tools_of(drawn), llm=drawn.broken())),
            ask(FunctionAgent(tools=[tool, *others], llm=caller(drawn))),
        ]
    )


Behaviour = Callable[[Drawn], Any]
WORKFLOWS: Final[tuple[Behaviour, ...]] = (
    streams_of_workflows,
    parts_at_once,
    contexts_of_workflows,
    humans_in_the_loop,
    retried_steps,
    failing_steps,
    time_limits,
    cancelled_workflows,
    cancelled_queries,
)
AGENTS: Final[tuple[Behaviour, ...]] = (
    (function_agents, agents_at_once, teams_of_agents, failing_agents) if HAS_AGENTS else ()
)
