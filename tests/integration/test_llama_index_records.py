"""What an interface answers a tool with is one context, as the model was shown it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool

from tests.matrix.llama_index.helpers import samples
from tests.matrix.llama_index.kit import Scripted, pick
from tests.matrix.world import World
from tests.support.records import RECORD_FORMS, drawn_record, number_in
from tests.support.variation import Variation, seeds

pytest_plugins = ["tests.matrix.llama_index.fixtures"]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("form", RECORD_FORMS)
async def test_a_record_of_a_tool_is_one_context(world: World, form: str, seed: int) -> None:
    """Nested values are not torn out of it, alone and beside what another tool found."""
    workflow_agents = pytest.importorskip("llama_index.core.agent.workflow")
    drawn = Variation(seed)
    record, passage, is_alone = drawn_record(drawn), drawn.passage(), drawn.chance.random() < 0.5
    value = RECORD_FORMS[form](record, drawn)
    found = {drawn.name(): value} if is_alone else {drawn.name(): value, drawn.name(): passage}
    left, shown = list(found), list[str]()

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        shown[:] = [str(m.content) for m in messages if m.role == MessageRole.TOOL]
        return pick(left.pop(0), about="x") if left else number_in(record)

    def tool(name: str) -> FunctionTool:
        def search(about: str) -> Any:
            return found[name]

        return FunctionTool.from_defaults(search, name=name, description="Searches.")

    agent = workflow_agents.FunctionAgent(tools=list(map(tool, found)), llm=Scripted(reply=reply))
    await agent.run(user_msg=drawn.question())
    (sample,) = samples(world)
    assert [context.text for context in sample.contexts or ()] == shown
