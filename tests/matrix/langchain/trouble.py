"""Failures of a pipeline, and what is captured then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda

from rag_eval_hooks import Status
from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.matrix.langchain import kit
from tests.matrix.langchain.application import SPANS, config, due
from tests.matrix.langchain.lcel import plain
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

GROUP = "trouble"
STREAM_WAYS = ("stream", "astream")


class Failing(BaseRetriever):
    """A store that is down."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        raise LookupError("the store is down")


class Finding(BaseRetriever):
    """Gives what it holds."""

    documents: list[Any]

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return list(self.documents)


def down(messages: list[BaseMessage]) -> str:
    raise ConnectionError("the model is down")


def trouble(
    name: str,
    build: Callable[[], Any],
    expected: Sequence[Expected],
    raises: type[BaseException] | None = None,
    ways: Sequence[str] = kit.CHAIN_WAYS,
) -> Shape:

    def run(world: World, way: str) -> None:
        caught: contextlib.AbstractContextManager[Any] = (
            _raising(raises) if raises else contextlib.nullcontext()
        )
        with caught:
            kit.call(way, build(), [kit.QUESTION], config(world))

    return kit.scene(GROUP, name, run, expected, ways)


@contextlib.contextmanager
def _raising(kind: type[BaseException]) -> Any:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} did not reach the application")


def model_fallback() -> Any:
    return kit.answering(kit.base(), kit.Chat(reply=down).with_fallbacks([kit.reader()]))


def answered_anyway() -> Any:
    """The application catches what its retriever raises, and asks the model without documents."""

    def found(question: str) -> list[Document]:
        try:
            return Failing().invoke(question)
        except LookupError:
            return []

    return kit.answering(RunnableLambda(found))


def closed(world: World, way: str) -> None:
    if way == "stream":
        stream: Any = plain().stream(kit.QUESTION, config(world))
        next(stream)
        stream.close()
        return

    async def read() -> None:
        tokens: Any = plain().astream(kit.QUESTION, config(world))
        await anext(tokens)
        await tokens.aclose()
        await asyncio.sleep(0.05)

    asyncio.run(read())


def cancelled(world: World, way: str) -> None:
    model = kit.reader(delay=60.0)
    chain, told = plain(model=model), config(world)

    async def read() -> None:
        async for _ in chain.astream(kit.QUESTION, told):
            pass

    async def request() -> None:
        calls: dict[str, Any] = {
            "ainvoke": lambda: chain.ainvoke(kit.QUESTION, told),
            "abatch": lambda: chain.abatch([kit.QUESTION], told),
            "astream": read,
        }
        work = calls[way]()
        task = asyncio.create_task(work)
        await kit.until_asked(model)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(request())


class Raising(BaseCallbackHandler):
    """Another vendor's handler, which is broken."""

    raise_error = False
    run_inline = True

    def _raise(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("another handler")

    on_chain_start = on_chain_end = on_retriever_start = on_retriever_end = _raise
    on_chat_model_start = on_llm_end = _raise


def beside_a_broken_one(world: World, way: str) -> None:
    ours = RagEvalCallbackHandler(world.evals)
    kit.call(way, plain(), [kit.QUESTION], {"callbacks": [Raising(), ours, Raising()]})


LONG = "The timetable of the line in full. " + "x" * 5_000_000


def huge() -> Any:
    documents = [Document(LONG, metadata={"raw": LONG}) for _ in range(3)]
    return kit.answering(
        Finding(documents=documents), kit.Chat(reply=lambda messages: "It is long.")
    )


def empty() -> Any:
    return kit.answering(Finding(documents=[]))


UNFOUND = due(contexts=None, answer=None, status=Status.ERROR, spans=("retrieval Failing",))
ANYWAY = due(
    contexts=None,
    answer=kit.answer_to(kit.QUESTION, ()),
    spans=("chat scripted", "retrieval Failing"),
)
FAILED = due(answer=None, status=Status.ERROR)
EMPTY = due(
    contexts=(),
    answer=kit.answer_to(kit.QUESTION, ()),
    spans=("chat scripted", "retrieval Finding"),
)


SHAPES = (
    trouble("retriever raises", lambda: kit.answering(Failing()), [UNFOUND], LookupError),
    trouble("retriever raises, answered anyway", answered_anyway, [ANYWAY]),
    trouble(
        "model raises",
        lambda: kit.answering(kit.base(), kit.Chat(reply=down)),
        [FAILED],
        ConnectionError,
    ),
    trouble("fallback of a model", model_fallback, [due(spans=("chat scripted", *SPANS))]),
    trouble("empty retrieval", empty, [EMPTY]),
    kit.scene(
        GROUP,
        "a stream closed early",
        closed,
        [due(answer=None, status=Status.CLOSED)],
        STREAM_WAYS,
    ),
    kit.scene(
        GROUP,
        "a cancelled task",
        cancelled,
        [due(answer=None, status=Status.CANCELLED)],
        ("ainvoke", "abatch", "astream"),
    ),
    kit.scene(GROUP, "another handler raises", beside_a_broken_one, [due()], kit.CHAIN_WAYS),
    replace(
        trouble(
            "payloads of 5 MB",
            huge,
            [
                due(
                    contexts=[LONG[:20_000]],
                    answer="It is long.",
                    spans=("chat scripted", "retrieval Finding"),
                )
            ],
        ),
        # So long a text is on no span.
        incidents={"span content left out": 1},
    ),
)
