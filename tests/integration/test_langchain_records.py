"""What an interface answers a tool with is one context, as the model was shown it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool

from tests.matrix.langchain.compat import AGENTS_MISSING, agent
from tests.matrix.langchain.kit import Chat
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts
from tests.support.records import RECORD_FORMS, drawn_record, number_in
from tests.support.variation import Variation, seeds

pytestmark = pytest.mark.skipif(AGENTS_MISSING is not None, reason=str(AGENTS_MISSING))


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("form", RECORD_FORMS)
def test_a_record_of_a_tool_is_one_context(world: World, form: str, seed: int) -> None:
    """Nested values are not torn out of it, alone and beside what another tool found."""
    drawn = Variation(seed)
    record, passage, is_alone = drawn_record(drawn), drawn.passage(), drawn.chance.random() < 0.5
    value = RECORD_FORMS[form](record, drawn)
    found = {drawn.name(): value} if is_alone else {drawn.name(): value, drawn.name(): passage}
    shown: list[str] = []

    def say(messages: list[BaseMessage]) -> Any:
        shown[:] = [str(one.content) for one in messages if isinstance(one, ToolMessage)]
        calls = [{"name": name, "args": {"about": "x"}, "id": name} for name in found]
        return number_in(record) if shown else AIMessage("", tool_calls=calls)

    def tool(name: str) -> StructuredTool:
        def search(about: str) -> Any:
            return found[name]

        return StructuredTool.from_function(search, name=name, description="Searches.")

    made = agent(Chat(reply=say), list(map(tool, found)))
    made.invoke({"messages": [HumanMessage(drawn.question())]}, config(world))
    assert texts(only(world)) == shown
