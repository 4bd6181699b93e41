"""What tests of LangChain pipelines share: one request through a handler, and what came of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from rag_eval_hooks import Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.world import World


class Fixed(BaseRetriever):
    documents: list[Document]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return self.documents


def config(world: World, **options: Any) -> Any:
    return {"callbacks": [RagEvalCallbackHandler(world.evals, **options)]}


def only(world: World) -> Sample:
    (seen,) = world.seen()
    assert not world.evals.stats().incidents
    return seen.sample


def texts(sample: Sample) -> list[str] | None:
    return None if sample.contexts is None else [context.text for context in sample.contexts]


def line(schema: Any, nodes: Sequence[Callable[[Any], Any]], **options: Any) -> Any:
    made = pytest.importorskip("langgraph.graph").StateGraph(schema)
    names = [f"step{number}" for number in range(len(nodes))]
    for name, node in zip(names, nodes, strict=True):
        made.add_node(name, node)
    for one, other in itertools.pairwise(["__start__", *names, "__end__"]):
        made.add_edge(one, other)
    return made.compile(**options)
