"""Laws of the replies of tools: a record is one context, as the model was shown it.

They hold below the frameworks; an agent of LangChain asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool

from tests.matrix.langchain.kit import Chat, config
from tests.matrix.world import World
from tests.support.records import FINDS, NO_FINDS, RECORD_FORMS, drawn_record, envelope, number_in
from tests.support.variation import Variation, run_seed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
agents = pytest.importorskip("langchain.agents")


@pytest.fixture
def drawn() -> Variation:
    return Variation(run_seed())


def asked(found: Mapping[str, Any], answer: str) -> tuple[list[str], list[str] | None]:
    """Ask an agent whose tools, of these names, find this.

    Returns:
        What its model was shown, and the contexts, or None without a sample.
    """
    shown: list[str] = []

    def say(prompt: Sequence[Any]) -> Any:
        shown[:] = [str(one.content) for one in prompt if one.type == "tool"]
        calls = [{"name": name, "args": {"about": "x"}, "id": name} for name in found]
        return answer if shown else AIMessage("", tool_calls=calls)

    def search(name: str) -> Any:
        finds = lambda about: found[name]  # noqa: E731
        return StructuredTool.from_function(finds, name=name, description="Searches.")

    world, question = World(), Variation(len(answer)).question()
    try:
        agent = agents.create_agent(Chat(reply=say), list(map(search, found)))
        agent.invoke({"messages": [HumanMessage(question)]}, config(world))
        samples = [seen.sample for seen in world.seen()]
    finally:
        world.close()
    assert len(samples) < 2
    return shown, [one.text for one in samples[0].contexts or ()] if samples else None


@pytest.mark.parametrize("form", RECORD_FORMS)
def test_record_of_a_tool_is_one_context(form: str, drawn: Variation) -> None:
    record = drawn_record(drawn)
    found = {drawn.name(): RECORD_FORMS[form](record, drawn)}
    found |= {drawn.name(): drawn.passage()} if drawn.chance.random() < 0.5 else {}
    shown, contexts = asked(found, number_in(record))
    assert contexts == shown


@pytest.mark.parametrize("as_text", [False, True])
def test_reply_with_hits_and_counts_gives_the_hits(as_text: bool, drawn: Variation) -> None:
    passages = drawn.passages(drawn.chance.randint(1, 3))
    reply: Any = envelope(drawn, passages)
    found = {drawn.name(): json.dumps(reply) if as_text else reply}
    assert asked(found, passages[0][:30])[1] == passages


@pytest.mark.parametrize("kind", NO_FINDS)
def test_reply_that_says_nothing_is_no_context(kind: str, drawn: Variation) -> None:
    """The time, failures and empty pages are no contexts, and alone no sample."""
    reply = NO_FINDS[kind](drawn)
    (shown,), contexts = asked({drawn.name(): reply}, drawn.sentence())
    assert contexts is None
    found = {drawn.name(): reply, drawn.name(): drawn.passage()}
    assert shown not in (asked(found, shown[-30:])[1] or ())


@pytest.mark.parametrize("kind", FINDS)
def test_reply_resembling_a_failure_with_a_fact_is_a_context(kind: str, drawn: Variation) -> None:
    """An order's status, an address and a balance are what was looked up."""
    fact = str(drawn.chance.randint(1000, 9999))
    shown, contexts = asked({drawn.name(): FINDS[kind](drawn, fact)}, fact)
    assert contexts == shown
