"""Failures of a pipeline, and what is captured then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from rag_eval_hooks import Status
from tests.matrix.langchain import kit
from tests.matrix.langchain.kit import due
from tests.matrix.langchain.lcel import TWO_CALLS, plain
from tests.matrix.shape import named
from tests.matrix.world import World
from tests.support.langchain_requests import Fixed
from tests.waiting import until_async

GROUP = "failures"
MODEL = "chat scripted"
LONG = "The timetable of the line in full. " + "x" * 5_000_000


class Failing(BaseRetriever):
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise LookupError("the store is down")


def down(messages: list[BaseMessage]) -> str:
    raise ConnectionError("the model is down")


def trouble(
    raises: type[BaseException] | None = None, name: str = "", **expected: Any
) -> Callable[[kit.Build], kit.Build]:
    incidents = expected.pop("incidents", {})

    def register(build: kit.Build) -> kit.Build:
        def run(world: World, way: str) -> None:
            with pytest.raises(raises) if raises else contextlib.nullcontext():
                kit.call(way, build(), [kit.QUESTION], kit.config(world))

        called = name or named(build)
        made = [due(**expected)]
        kit.scene(GROUP, made, kit.CHAIN_WAYS, name=called, incidents=incidents)(run)
        return build

    return register


ERROR: dict[str, Any] = {"answer": None, "status": Status.ERROR}
FAILED: Any = {**ERROR, "contexts": None, "spans": ("retrieval Failing",)}
trouble(LookupError, "retriever raises", **FAILED)(lambda: kit.answering(Failing()))
trouble(ConnectionError, "model raises", **ERROR)(
    lambda: kit.answering(kit.base(), kit.Chat(reply=down))
)
NO_PASSAGE = kit.answer_to(kit.QUESTION, ())


@trouble(
    name="the retriever raises, and the model answers",
    contexts=None,
    answer=NO_PASSAGE,
    spans=(MODEL, "retrieval Failing"),
)
def answered_anyway() -> Any:
    def found(question: str) -> list[Document]:
        with contextlib.suppress(LookupError):
            return Failing().invoke(question)
        return []

    return kit.answering(RunnableLambda(found))


@trouble(spans=TWO_CALLS)
def fallback_of_a_model() -> Any:
    return kit.answering(kit.base(), kit.Chat(reply=down).with_fallbacks([kit.reader()]))


@trouble(contexts=(), answer=NO_PASSAGE, spans=(MODEL, "retrieval Fixed"))
def empty_retrieval() -> Any:
    return kit.answering(Fixed(documents=[]))


@kit.scene(GROUP, [due(answer=None, status=Status.CLOSED)], ("stream", "astream"))
def a_stream_closed_early(world: World, way: str) -> None:
    kit.leave(getattr(plain(), way)(kit.QUESTION, kit.config(world)))


@kit.scene(GROUP, [due(answer=None, status=Status.CANCELLED)], ("ainvoke", "abatch", "astream"))
def a_cancelled_task(world: World, way: str) -> None:
    model = kit.reader(delay=60.0)

    async def request() -> None:
        chain, told = plain(model=model), kit.config(world)
        if way == "abatch":
            work: Any = chain.abatch([kit.QUESTION], told)
        else:
            work = kit.call_together(way, chain, [kit.QUESTION], told)
        task = asyncio.create_task(work)
        await until_async(lambda: model.begun)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(request())


@trouble(
    name="payloads of 5 MB",
    contexts=[LONG[:20_000]],
    answer="It is long.",
    spans=(MODEL, "retrieval Fixed"),
    incidents={"span content omitted": 1},
)
def huge() -> Any:
    documents = [Document(LONG, metadata={"raw": LONG}) for _ in range(3)]
    return kit.answering(Fixed(documents=documents), kit.Chat(reply=lambda _: "It is long."))
