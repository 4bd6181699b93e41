"""Laws of the replies of tools: a record is one context, as the model was shown it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from llama_index.core import MockEmbedding, SQLDatabase
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.query_engine import NLSQLTableQueryEngine
from llama_index.core.tools import FunctionTool

from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.helpers import samples
from tests.matrix.llama_index.kit import Scripted, pick
from tests.matrix.world import World
from tests.support.records import FINDS, NO_FINDS, RECORD_FORMS, drawn_record, envelope, number_in
from tests.support.variation import Variation, seeds

own_loop, world = fixtures.own_loop, fixtures.world
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("own_loop"),
]


varied = pytest.mark.parametrize("seed", seeds(6))


async def ask(found: Mapping[str, Any], answer: str) -> list[str]:
    """Ask an agent whose tools, of these names, find this; return what its model was shown."""
    workflow_agents = pytest.importorskip("llama_index.core.agent.workflow")
    left, shown = list(found), list[str]()

    def reply(messages: Sequence[ChatMessage]) -> ChatMessage | str:
        shown[:] = [str(m.content) for m in messages if m.role == MessageRole.TOOL]
        return pick(left.pop(0), about="x") if left else answer

    def tool(name: str) -> FunctionTool:
        def search(about: str) -> Any:
            return found[name]

        return FunctionTool.from_defaults(search, name=name, description="Searches.")

    agent = workflow_agents.FunctionAgent(tools=list(map(tool, found)), llm=Scripted(reply=reply))
    await agent.run(user_msg=Variation(len(answer)).question())
    return shown


def texts(world: World) -> list[str]:
    (sample,) = samples(world)
    return [context.text for context in sample.contexts or ()]


@varied
@pytest.mark.parametrize("form", RECORD_FORMS)
async def test_a_record_of_a_tool_is_one_context(world: World, form: str, seed: int) -> None:
    """Nested values are not torn out of it, alone and beside what another tool found."""
    drawn = Variation(seed)
    record = drawn_record(drawn)
    found = {drawn.name(): RECORD_FORMS[form](record, drawn)}
    found |= {drawn.name(): drawn.passage()} if drawn.chance.random() < 0.5 else {}
    assert await ask(found, number_in(record)) == texts(world)


@varied
@pytest.mark.parametrize("as_text", [False, True])
async def test_of_a_reply_with_hits_the_hits_count(world: World, as_text: bool, seed: int) -> None:
    """Counts, echoes and pages around them are no finds."""
    drawn = Variation(seed)
    passages = drawn.passages(drawn.chance.randint(1, 3))
    reply: Any = envelope(drawn, passages)
    await ask({drawn.name(): json.dumps(reply) if as_text else reply}, passages[0][:30])
    assert texts(world) == passages


@varied
@pytest.mark.parametrize("kind", NO_FINDS)
async def test_what_says_nothing_is_no_find(world: World, kind: str, seed: int) -> None:
    """The time, failures and empty pages are no contexts, and alone no sample."""
    drawn = Variation(seed)
    reply = NO_FINDS[kind](drawn)
    (shown,) = await ask({drawn.name(): reply}, drawn.sentence())
    assert samples(world) == []
    await ask({drawn.name(): reply, drawn.name(): drawn.passage()}, shown[-30:])
    assert shown not in texts(world)


@varied
@pytest.mark.parametrize("kind", FINDS)
async def test_what_looks_like_a_failure_or_a_receipt_is_a_find(
    world: World, kind: str, seed: int
) -> None:
    """An order's status, an address and a balance are what was looked up."""
    drawn = Variation(seed)
    fact = str(drawn.chance.randint(1000, 9999))
    reply = FINDS[kind](drawn, fact)
    shown = await ask({drawn.name(): reply}, fact)
    assert texts(world) == shown


@varied
async def test_of_a_query_of_a_table_the_rows_count(world: World, seed: int) -> None:
    """However short they are; the statement is a model's."""
    sql, drawn = pytest.importorskip("sqlalchemy"), Variation(seed)
    table, column = drawn.name(), drawn.name()
    counts = [drawn.chance.randint(1, 9999) for _ in range(drawn.chance.randint(1, 3))]
    base = sql.create_engine("sqlite://", poolclass=sql.pool.StaticPool)
    with base.begin() as connection:
        connection.execute(sql.text(f"create table {table}({column} int)"))
        for count in counts:
            connection.execute(sql.text(f"insert into {table} values ({count})"))
    statement = f"SELECT DISTINCT {column} FROM {table} ORDER BY {column}"
    replies = [statement, str(counts[0])]
    engine = NLSQLTableQueryEngine(
        SQLDatabase(base), tables=[table], llm=Scripted(reply=lambda _: replies.pop(0)),
        embed_model=MockEmbedding(8),
    )  # fmt: skip
    engine.query(drawn.question())
    assert texts(world) == [str([(count,) for count in sorted(set(counts))])]
