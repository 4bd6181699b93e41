"""Laws of the replies of tools: a record is one context, as the model was shown it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tests.matrix.world import World
from tests.support.records import FINDS, NO_FINDS, RECORD_FORMS, drawn_record, envelope, number_in
from tests.support.size import each_once
from tests.support.variation import Variation, run_seed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
Found = Mapping[str, Any]


def ask_langchain(world: World, found: Found, question: str, answer: str) -> list[str]:
    messages = pytest.importorskip("langchain_core.messages")
    tools = pytest.importorskip("langchain_core.tools")
    agents = pytest.importorskip("langchain.agents")
    from tests.matrix.langchain import kit

    shown: list[str] = []

    def say(prompt: Sequence[Any]) -> Any:
        shown[:] = [str(one.content) for one in prompt if isinstance(one, messages.ToolMessage)]
        calls = [{"name": name, "args": {"about": "x"}, "id": name} for name in found]
        return answer if shown else messages.AIMessage("", tool_calls=calls)

    def tool(name: str) -> Any:
        def search(about: str) -> Any:
            return found[name]

        make = tools.StructuredTool.from_function
        return make(search, name=name, description="Searches.")

    agent = agents.create_agent(kit.Chat(reply=say), list(map(tool, found)))
    agent.invoke({"messages": [messages.HumanMessage(question)]}, kit.config(world))
    return shown


def ask_llama_index(world: World, found: Found, question: str, answer: str) -> list[str]:
    workflow = pytest.importorskip("llama_index.core.agent.workflow")
    tools = pytest.importorskip("llama_index.core.tools")
    from rag_eval_hooks_llama_index import enable
    from tests.matrix.llama_index.kit import Scripted, pick

    left, shown = list(found), list[str]()

    def reply(messages: Sequence[Any]) -> Any:
        shown[:] = [str(one.content) for one in messages if one.role.value == "tool"]
        return pick(left.pop(0), about="x") if left else answer

    def tool(name: str) -> Any:
        def search(about: str) -> Any:
            return found[name]

        return tools.FunctionTool.from_defaults(search, name=name, description="Searches.")

    async def run() -> None:
        agent = workflow.FunctionAgent(tools=list(map(tool, found)), llm=Scripted(reply=reply))
        await agent.run(user_msg=question)

    registration = enable(world.evals)
    try:
        asyncio.run(run())
    finally:
        registration.disable()
    return shown


@pytest.fixture
def drawn() -> Variation:
    return Variation(run_seed())


Ask = Callable[[World, Found, str, str], list[str]]
ASKS = [ask_langchain, ask_llama_index]


def asked(ask: Ask, found: Found, answer: str) -> tuple[list[str], list[str] | None]:
    """Ask an agent whose tools, of these names, find this.

    Returns:
        What its model was shown, and the contexts, or None without a sample.
    """
    world = World()
    try:
        shown = ask(world, found, Variation(len(answer)).question(), answer)
        samples = [seen.sample for seen in world.seen()]
    finally:
        world.close()
    assert len(samples) < 2
    return shown, [one.text for one in samples[0].contexts or ()] if samples else None


@pytest.mark.parametrize(("form", "ask"), each_once(list(RECORD_FORMS), ASKS))
def test_record_of_a_tool_is_one_context(ask: Ask, form: str, drawn: Variation) -> None:
    """Nested values are not torn out of it, alone and beside what another tool found."""
    record = drawn_record(drawn)
    found = {drawn.name(): RECORD_FORMS[form](record, drawn)}
    found |= {drawn.name(): drawn.passage()} if drawn.chance.random() < 0.5 else {}
    shown, contexts = asked(ask, found, number_in(record))
    assert contexts == shown


@pytest.mark.parametrize(("as_text", "ask"), each_once([False, True], ASKS))
def test_reply_with_hits_and_counts_gives_the_hits(
    ask: Ask, as_text: bool, drawn: Variation
) -> None:
    passages = drawn.passages(drawn.chance.randint(1, 3))
    reply: Any = envelope(drawn, passages)
    found = {drawn.name(): json.dumps(reply) if as_text else reply}
    assert asked(ask, found, passages[0][:30])[1] == passages


@pytest.mark.parametrize(("kind", "ask"), each_once(list(NO_FINDS), ASKS))
def test_reply_that_says_nothing_is_no_context(ask: Ask, kind: str, drawn: Variation) -> None:
    """The time, failures and empty pages are no contexts, and alone no sample."""
    reply = NO_FINDS[kind](drawn)
    (shown,), contexts = asked(ask, {drawn.name(): reply}, drawn.sentence())
    assert contexts is None
    found = {drawn.name(): reply, drawn.name(): drawn.passage()}
    assert shown not in (asked(ask, found, shown[-30:])[1] or ())


@pytest.mark.parametrize(("kind", "ask"), each_once(list(FINDS), ASKS))
def test_reply_resembling_a_failure_with_a_fact_is_a_context(
    ask: Ask, kind: str, drawn: Variation
) -> None:
    """An order's status, an address and a balance are what was looked up."""
    fact = str(drawn.chance.randint(1000, 9999))
    shown, contexts = asked(ask, {drawn.name(): FINDS[kind](drawn, fact)}, fact)
    assert contexts == shown
