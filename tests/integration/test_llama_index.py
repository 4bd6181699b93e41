"""Laws of the capture of LlamaIndex that no single shape shows."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.instrumentation.dispatcher import instrument_tags

from rag_eval_hooks_llama_index import enable
from tests.matrix.llama_index import fixtures
from tests.matrix.llama_index.agents import called, name_of
from tests.matrix.llama_index.chats import chat_over
from tests.matrix.llama_index.engines import corpora_with_tools
from tests.matrix.llama_index.fixtures import only, samples
from tests.matrix.llama_index.kit import Corpus, Draw, in_turn, says
from tests.matrix.llama_index.retrieval import masked_passages
from tests.matrix.world import World

plain_world, world, draw = fixtures.plain_world, fixtures.world, fixtures.draw
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_instrument_tags_become_metadata(draw: Draw) -> None:
    tags = {"session_id": "s-1", "user_id": "u-1", "question_id": "q-1", "reference": "At 07:40."}
    odd: Any = {"tags": ["beta"], "tenant": "acme", 1: "x", None: 2, ("a", 1): object()}
    corpus = Corpus(draw)
    with instrument_tags({**tags, **odd}):
        corpus.engine(says(draw.answer())).query(corpus.question)
    sample = only(draw.world)
    assert {name: getattr(sample, name) for name in tags} == tags
    assert (sample.tags, sample.metadata["tenant"]) == (("beta",), "acme")
    assert draw.world.evals.stats().incidents == {}


def test_context_has_id_score_and_metadata_of_its_node(draw: Draw) -> None:
    corpus = Corpus(draw, metadata=True)
    corpus.engine(says(draw.answer())).query(corpus.question)
    nodes = corpus.retriever.retrieve(corpus.question)
    found = [(one.id, one.score, one.metadata) for one in only(draw.world).contexts or ()]
    assert found == [(one.node_id, one.score, one.node.metadata) for one in nodes]


def test_masked_text_is_in_no_field_of_the_sample_and_on_no_span(world: World) -> None:
    for seed in range(8):
        asked, secret = masked_passages(Draw(seed, "query", world))
        asked.run()
        assert world.seen()
        spans = [dict(span.attributes or {}) for span in world.exporter.get_finished_spans()]
        shown = [[sample.to_dict() for sample in samples(world)], spans]
        assert secret not in json.dumps(shown, ensure_ascii=False), seed


# Failures of ours.


def test_failure_in_our_handler_is_counted_and_logged_without_content(
    draw: Draw, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    corpus, evals = Corpus(draw), draw.world.evals

    def broken(*_: object, **__: object) -> None:
        raise ValueError(corpus.question)

    monkeypatch.setattr(evals.recorder, "documents", broken)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        corpus.engine(says(draw.answer())).query(corpus.question)
    assert evals.stats().incidents["capture exit: ValueError"] >= 1
    assert corpus.question not in caplog.text


# Questions, tools and blocks.


def test_condensed_question_is_metadata(draw: Draw) -> None:
    corpus, asked = Corpus(draw), draw.question()
    chat_over(corpus, "condense_plus_context", draw.sentence()).chat(asked)
    sample = only(draw.world)
    assert (sample.question, sample.metadata["condensed_question"]) == (asked, corpus.question)
    assert "retrieval_queries" not in sample.metadata


def test_tools_of_an_agent_have_ids_of_calls_and_queries_that_are_no_question(draw: Draw) -> None:
    corpora, tools, _ = corpora_with_tools(draw, 3)
    calls = [called(tool, corpus) for tool, corpus in zip(tools, corpora, strict=True)]
    agent = FunctionAgent(tools=tools, llm=in_turn(draw.sentence(), *calls))

    async def run() -> None:
        await agent.run(user_msg=draw.question())

    asyncio.run(run())
    metadata = only(draw.world).metadata
    assert "condensed_question" not in metadata
    assert metadata["retrieval_queries"]
    spans = [dict(span.attributes or {}) for span in draw.world.exporter.get_finished_spans()]
    shown = [one for one in spans if "gen_ai.tool.name" in one]
    ids = {name_of(tool): f"call-{name_of(tool)}" for tool in tools}
    assert {one["gen_ai.tool.name"]: one.get("gen_ai.tool.call.id") for one in shown} == ids


def test_paused_block_captures_nothing_that_starts_in_it(draw: Draw) -> None:
    """Another task, and whatever comes later, is captured."""
    registration, corpus = enable(draw.world.evals), Corpus(draw)
    engine = corpus.engine(says(draw.answer()))

    async def paused() -> None:
        with registration.paused():
            await asyncio.gather(*(engine.aquery(corpus.question) for _ in range(4)))

    async def both() -> None:
        await asyncio.gather(paused(), engine.aquery(corpus.question))

    asyncio.run(both())
    engine.query(corpus.question)
    assert len(samples(draw.world)) == 2
