"""Law 1: nothing that the application hands on is consumed."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
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
from tests.support.size import size


class OneShot:
    def __init__(self, make: Callable[[OneShot, list[Any]], Any], items: list[Any]) -> None:
        self.was_read = False
        self.value = make(self, items)

    def __repr__(self) -> str:
        return f"OneShot({type(self.value).__name__})"

    def read(self, item: Any) -> Any:
        self.was_read = True
        return item


class _LazyMapping(Mapping[str, Any]):
    def __init__(self, shot: OneShot, items: list[Any]) -> None:
        self._shot, self._items = shot, {str(n): item for n, item in enumerate(items)}

    def __getitem__(self, key: str) -> Any:
        return self._shot.read(self._items[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class _File(io.StringIO):
    def __init__(self, shot: OneShot, items: list[Any]) -> None:
        super().__init__("\n".join(map(str, items)))
        self._shot = shot

    def read(self, size: int | None = -1) -> str:
        return str(self._shot.read(super().read(size)))

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        return str(self._shot.read(super().readline(size)))


def _generator(shot: OneShot, items: list[Any]) -> Iterator[Any]:
    return (shot.read(item) for item in items)


async def _async_generator(shot: OneShot, items: list[Any]) -> AsyncIterator[Any]:
    for item in items:
        yield shot.read(item)


_MAKERS: tuple[Callable[[OneShot, list[Any]], Any], ...] = (
    _LazyMapping,
    _File,
    _generator,
    _async_generator,
    lambda shot, items: map(shot.read, items),
)

ONE_SHOT = st.builds(
    lambda make, texts: lambda of: OneShot(make, [of(text) for text in texts]),
    st.sampled_from(_MAKERS),
    st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=3),
)

Make = Callable[[Callable[[str], Any]], OneShot]
RELAXED = settings(
    max_examples=size(20, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
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
