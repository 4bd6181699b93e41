"""Failures of a pipeline, and what is captured then."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
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
from tests.matrix.shape import Expected
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
    expected: Sequence[Expected],
    raises: type[BaseException] | None = None,
    **more: Any,
) -> Callable[[kit.Build], kit.Build]:
    """Register a chain that is asked once, and raises or does not."""

    def register(build: kit.Build) -> kit.Build:
        def run(world: World, way: str) -> None:
            with _raising(raises) if raises else contextlib.nullcontext():
                kit.call(way, build(), [kit.QUESTION], config(world))

        kit.scene(GROUP, name, expected, kit.CHAIN_WAYS, **more)(run)
        return build

    return register


@contextlib.contextmanager
def _raising(kind: type[BaseException]) -> Any:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} did not reach the application")


class Raising(BaseCallbackHandler):
    """Another vendor's handler, which is broken."""

    raise_error = False
    run_inline = True

    def _raise(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("another handler")

    on_chain_start = on_chain_end = on_retriever_start = on_retriever_end = _raise
    on_chat_model_start = on_llm_end = _raise


LONG = "The timetable of the line in full. " + "x" * 5_000_000


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


trouble("retriever raises", [UNFOUND], LookupError)(lambda: kit.answering(Failing()))


@trouble("retriever raises, answered anyway", [ANYWAY])
def answered_anyway() -> Any:
    """The application catches what its retriever raises, and asks the model without documents."""

    def found(question: str) -> list[Document]:
        try:
            return Failing().invoke(question)
        except LookupError:
            return []

    return kit.answering(RunnableLambda(found))


trouble("model raises", [FAILED], ConnectionError)(
    lambda: kit.answering(kit.base(), kit.Chat(reply=down))
)


@trouble("fallback of a model", [due(spans=("chat scripted", *SPANS))])
def model_fallback() -> Any:
    return kit.answering(kit.base(), kit.Chat(reply=down).with_fallbacks([kit.reader()]))


@trouble("empty retrieval", [EMPTY])
def empty() -> Any:
    return kit.answering(Finding(documents=[]))


@kit.scene(GROUP, "a stream closed early", [due(answer=None, status=Status.CLOSED)], STREAM_WAYS)
def closed(world: World, way: str) -> None:
    kit.leave(getattr(plain(), way)(kit.QUESTION, config(world)))


@kit.scene(
    GROUP,
    "a cancelled task",
    [due(answer=None, status=Status.CANCELLED)],
    ("ainvoke", "abatch", "astream"),
)
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


@kit.scene(GROUP, "another handler raises", [due()], kit.CHAIN_WAYS)
def beside_a_broken_one(world: World, way: str) -> None:
    ours = RagEvalCallbackHandler(world.evals)
    kit.call(way, plain(), [kit.QUESTION], {"callbacks": [Raising(), ours, Raising()]})


@trouble(
    "payloads of 5 MB",
    [
        due(
            contexts=[LONG[:20_000]],
            answer="It is long.",
            spans=("chat scripted", "retrieval Finding"),
        )
    ],
    incidents={"span content omitted": 1},
)
def huge() -> Any:
    documents = [Document(LONG, metadata={"raw": LONG}) for _ in range(3)]
    return kit.answering(
        Finding(documents=documents), kit.Chat(reply=lambda messages: "It is long.")
    )
