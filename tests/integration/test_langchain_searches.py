"""Searches of vector stores that an application calls itself, and a model, in plain functions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from rag_eval_hooks_langchain import disable, enable
from tests.matrix.langchain.kit import (
    QUESTION,
    Bags,
    answer_to,
    joined,
    reader,
    store,
    top,
)
from tests.matrix.world import World
from tests.support.langchain_requests import config, only, texts

ANSWER = answer_to(QUESTION, top())
Search = Callable[[VectorStore], Any]
SEARCHES: dict[str, Search] = {
    "similarity_search": lambda kept: kept.similarity_search(QUESTION, k=2),
    "by_vector": lambda kept: kept.similarity_search_by_vector(Bags().embed_query(QUESTION), k=2),
    "mmr": lambda kept: kept.max_marginal_relevance_search(QUESTION, k=2, lambda_mult=1.0),
    "with_score": lambda kept: asyncio.run(kept.asimilarity_search_with_score(QUESTION, k=2)),
    "retriever": lambda kept: asyncio.run(
        kept.as_retriever(search_kwargs={"k": 2}).ainvoke(QUESTION)
    ),
}


@pytest.fixture
def everywhere(world: World) -> Iterator[World]:
    enable(world.evals)
    yield world
    disable()


def asked(search: Search) -> Callable[[str], str]:
    def ask(question: str) -> str:
        documents = [one[0] if isinstance(one, tuple) else one for one in search(store())]
        prompt = f"Use only:\n{joined(documents)}\n\nQuestion: {question}"
        return str(reader().invoke(prompt).content)

    return ask


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_and_a_model_in_one_function_are_a_sample(name: str, everywhere: World) -> None:
    ask = asked(SEARCHES[name])
    # Without a query and a chain nobody can tell the question from the rest of the prompt.
    said = RunnableLambda(ask).invoke(QUESTION) if name == "by_vector" else ask(QUESTION)
    assert said == ANSWER
    sample = only(everywhere)
    assert (texts(sample), sample.question, sample.answer) == (top(), QUESTION, ANSWER)
    spans = everywhere.exporter.get_finished_spans()
    (span,) = [span for span in spans if span.name.startswith("retrieval")]
    found = dict(span.attributes or {})
    assert found["gen_ai.retrieval.top_k"] == 2
    assert found["gen_ai.data_source.id"] == "InMemoryVectorStore"
    scores = [context.score for context in sample.contexts or ()]
    assert all(score is not None for score in scores) is (name == "with_score")


def test_a_callback_alone_does_not_see_a_search(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    ask = RunnableLambda(asked(SEARCHES["similarity_search"]))
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        for _ in range(3):
            ask.invoke(QUESTION, config(world))
            world.evals.flush(300)
    assert world.seen() == []
    assert world.evals.stats().without_retrieval == 3
    (hint,) = [one for one in caplog.records if "no retrieved text" in one.getMessage()]
    assert hint.levelno == logging.WARNING
    assert "enable(evals)" in hint.getMessage()


def test_disable_gives_the_methods_back(world: World) -> None:
    before = {name: vars(InMemoryVectorStore).get(name) for name in dir(InMemoryVectorStore)}
    enable(world.evals)
    enable(world.evals)
    assert vars(InMemoryVectorStore)["similarity_search"] is not before["similarity_search"]
    disable()
    after = {name: vars(InMemoryVectorStore).get(name) for name in dir(InMemoryVectorStore)}
    assert after == before
    assert "__init_subclass__" not in vars(VectorStore)


def test_a_class_that_is_defined_later_is_seen_and_its_errors_reach_the_caller(
    everywhere: World,
) -> None:
    class Broken(InMemoryVectorStore):
        def similarity_search(self, query: str, k: int = 4, **_: Any) -> list[Document]:
            raise ConnectionError(query)

    search: Any = RunnableLambda(lambda _: Broken(Bags()).similarity_search("here"))
    with pytest.raises(ConnectionError, match="here"):
        search.invoke(QUESTION)
    with pytest.raises(TypeError):
        Broken(Bags()).similarity_search()  # type: ignore[call-arg]
    everywhere.evals.flush(300)
    assert everywhere.evals.stats().dropped == {"error": 1}
