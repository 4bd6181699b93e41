"""Law 1: nothing that the application hands on is consumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool
from llama_index.core import QueryBundle, Response
from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.callbacks import CallbackManager
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.schema import NodeWithScore, TextNode

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from rag_eval_hooks_llama_index import enable
from tests.support.one_shot import ONE_SHOT, OneShot

Make = Callable[[Callable[[str], Any]], OneShot]
RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
dispatcher = get_dispatcher(__name__)
KEYS = st.sampled_from(["documents", "context", "answer", "output", "result", "question", "x"])


def document(text: str) -> Document:
    return Document(page_content=text)


def node(text: str) -> NodeWithScore:
    return NodeWithScore(node=TextNode(text=text))


class Lazy(BaseRetriever):
    shot: Any

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found: list[Document] = self.shot.value
        return found


@pytest.fixture(scope="module")
def evals() -> Any:
    with RagEval(["lexical.keyword_coverage"]) as evals:
        yield evals


@RELAXED
@given(make=ONE_SHOT, key=KEYS, is_async=st.booleans())
def test_langchain_events_of_unread_values_leave_them_unread(
    evals: RagEval, make: Make, key: str, is_async: bool
) -> None:
    config: Any = {"callbacks": [RagEvalCallbackHandler(evals)]}
    shots = [make(document) for _ in range(6)]
    retrieved, given_in, mapped, listed, result, artifact = shots
    steps = [
        (Lazy(shot=retrieved), "question"),
        (RunnableLambda(lambda _: result.value), {"question": "q", key: given_in.value}),
        (RunnableLambda(lambda _: {key: mapped.value}), "question"),
        (RunnableLambda(lambda _: [listed.value]), given_in.value),
        (
            StructuredTool.from_function(
                lambda query: ("text", artifact.value),
                name="search",
                description="searches",
                response_format="content_and_artifact",
            ),
            {"type": "tool_call", "id": "1", "name": "search", "args": {"query": "q"}},
        ),
    ]

    def run_all(_: Any, config: Any) -> str:
        for step, value in steps:
            step.invoke(value, config)
        return "answer"

    RunnableLambda(run_all).invoke("question", config)
    for step, value in steps:
        step.invoke(value, config)
    evals.flush()
    assert [shot for shot in shots if shot.was_read] == []


class Engine(BaseQueryEngine):
    """Answers with a response whose parts, and those of its steps, are read once."""

    def __init__(self, response: Response, key: str, steps: list[Any]) -> None:
        super().__init__(CallbackManager())
        self._response, self._key, self._steps = response, key, steps

    def _get_prompt_modules(self) -> Any:
        return {}

    @dispatcher.span
    def retrieve_from_store(self, value: Any) -> Any:
        return value

    def _query(self, query_bundle: QueryBundle) -> Response:
        for value in self._steps:
            self.retrieve_from_store(value)
            self.retrieve_from_store({self._key: value})
            self.retrieve_from_store([value])
        return self._response

    async def _aquery(self, query_bundle: QueryBundle) -> Response:
        return self._query(query_bundle)


@RELAXED
@given(make=ONE_SHOT, key=KEYS)
def test_llama_index_events_of_unread_values_leave_them_unread(
    evals: RagEval, make: Make, key: str
) -> None:
    sources, metadata, step = shots = [make(node) for _ in range(3)]
    response = Response("answer", metadata={key: metadata.value})
    response.source_nodes = sources.value
    capture = enable(evals)
    try:
        Engine(response, key, [step.value]).query("question")
    finally:
        capture.disable()
    evals.flush()
    assert [shot for shot in shots if shot.was_read] == []
