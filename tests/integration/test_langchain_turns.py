"""Turns of a conversation, graphs that go on, blocks around calls, and what the user's own is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from rag_eval_hooks import Sample, Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import graphs, interrupts
from tests.matrix.langchain.agents import asks, pick, search, stepping
from tests.matrix.langchain.compat import GRAPHS_MISSING, MIDDLEWARE_MISSING, agent
from tests.matrix.langchain.kit import (
    ASKED,
    FOUND,
    PASSAGES,
    QUESTION,
    QUESTIONS,
    store,
    top,
)
from tests.matrix.langchain.lcel import plain
from tests.matrix.world import World
from tests.support.langchain_requests import config, line, texts

needs_graphs = pytest.mark.skipif(GRAPHS_MISSING is not None, reason=str(GRAPHS_MISSING))
needs_middleware = pytest.mark.skipif(
    MIDDLEWARE_MISSING is not None, reason=str(MIDDLEWARE_MISSING)
)
OTHER = QUESTIONS[1]


def in_thread(world: World) -> Any:
    return config(world) | {"configurable": {"thread_id": "t1"}}


def samples(world: World) -> list[Sample]:
    return [seen.sample for seen in world.seen()]


@needs_graphs
def test_what_a_command_brings_counts(world: World) -> None:
    """Documents of the update are candidates; its `goto` is no question."""
    command = import_module("langgraph.types").Command
    app = interrupts.approving()
    app.invoke({ASKED: QUESTION}, in_thread(world))
    more = [Document(PASSAGES[4])]
    app.invoke(command(resume=True, update={FOUND: more}), in_thread(world))
    if interrupts.NO_EVENTS is None:  # older versions send only to nodes of their own choice
        app.invoke(command(goto="generate"), in_thread(world))
    assert {sample.question for sample in samples(world)} == {QUESTION}
    assert {str(texts(sample)) for sample in samples(world)} == {str([PASSAGES[4]])}


@needs_graphs
def test_a_new_question_gives_up_what_waits(world: World) -> None:
    """An interaction that waits is counted as interrupted as soon as a new question comes."""
    app = interrupts.approving()
    app.invoke({ASKED: QUESTION}, in_thread(world))
    app.invoke({ASKED: OTHER}, in_thread(world))
    assert [(s.question, s.status) for s in samples(world)] == [(QUESTION, Status.INTERRUPTED)]


def test_tags_and_metadata_are_the_users(world: World) -> None:
    """Keys that frameworks set themselves are left out by their full names, and nothing else."""
    chain = RunnableLambda(str) | plain().with_config(
        callbacks=[RagEvalCallbackHandler(world.evals)],
        tags=["mine", "branch:main", "condition:ok"],
    )
    mine = {"ls_team": "a", "lc_cost": 1, "langgraph_tier": "gold", "checkpoint_age": 3}
    theirs = {"ls_provider": "x", "langgraph_plan": "x"}
    chain.invoke(QUESTION, {"metadata": {**mine, **theirs}})
    (sample,) = samples(world)
    assert set(sample.tags) == {"mine", "branch:main", "condition:ok"}
    assert sample.metadata == mine


@needs_graphs
def test_a_named_question_is_read_in_the_state_too(world: World) -> None:
    """A graph that goes on in another process has its question under the name that was given."""
    steps: list[Any] = [
        lambda s: {**s, FOUND: store().similarity_search(s["topic"], k=2)},
        lambda s: {**s, **graphs.generate({**s, ASKED: s["topic"]})},
    ]
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    app = line(dict, steps, checkpointer=saver, interrupt_before=["step1"])
    elsewhere = World()
    app.invoke({"topic": QUESTION, "tone": "kind"}, in_thread(elsewhere))
    elsewhere.close()
    handler = RagEvalCallbackHandler(world.evals, question="topic")
    app.invoke(None, {**in_thread(world), "callbacks": [handler]})
    (sample,) = samples(world)
    assert (sample.question, texts(sample)) == (QUESTION, top())


@needs_middleware
def test_artifacts_from_a_checkpoint_are_documents_again(world: World) -> None:
    """A checkpoint writes the documents of an artifact as mappings; ids and metadata are kept."""
    middleware = import_module("langchain.agents.middleware").HumanInTheLoopMiddleware

    @tool
    def book(query: str) -> str:
        """Books."""
        return "Booked."

    model = stepping(lambda q: pick((search.name, q)), lambda q: pick(("book", q)))
    saver = import_module("langgraph.checkpoint.memory").MemorySaver()
    asking = middleware(interrupt_on={"book": True})
    app = agent(model, [search, book], middleware=[asking], checkpointer=saver)
    elsewhere = World()
    app.invoke(asks(QUESTION), in_thread(elsewhere))
    elsewhere.close()
    approve = import_module("langgraph.types").Command(resume={"decisions": [{"type": "approve"}]})
    app.invoke(approve, in_thread(world))
    (sample,) = samples(world)
    pages = [PASSAGES.index(text) for text in top()]
    assert [(c.id, c.metadata) for c in sample.contexts or ()] == [
        (f"p{page}", {"page": page}) for page in pages
    ]
