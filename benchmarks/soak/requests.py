"""The kinds of requests, and what each is to be in the books."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.soak.pipelines import (
    HAS_GRAPHS,
    HAS_LLAMA_INDEX,
    SEARCH_S,
    WORD_S,
    Boom,
    Graph,
    chain_of,
    query_engine,
)
from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks_langchain import RagEvalCallbackHandler

__all__ = ["KINDS", "Application"]


class Application:
    """What serves one block of requests.

    Args:
        batch: A sample for each request.
        evals: The evaluator, or None for no handler at all.
    """

    def __init__(self, batch: list[Sample], evals: RagEval | None) -> None:
        self.batch = batch
        self.evals = evals
        self.callbacks = [] if evals is None else [RagEvalCallbackHandler(evals)]
        self.reached: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.chain = chain_of(batch, self.reached)
        self.graph = Graph(batch) if HAS_GRAPHS else None
        self.engine = query_engine() if HAS_LLAMA_INDEX else None
        self.feedback = 0

    def asked(self, number: int, manner: str) -> str:
        """The question of a request."""
        return f"{number} {manner} {self.batch[number].question}"

    def config(self, run_id: uuid.UUID | None = None) -> Any:
        """What a request is called with."""
        more = {} if run_id is None else {"run_id": run_id}
        return {"callbacks": self.callbacks, **more}

    def interaction(self, question: str) -> Any:
        """One opened by hand, or nothing."""
        if self.evals is None:
            return contextlib.nullcontext()
        return self.evals.interaction(question)

    def thumb(self, run_id: uuid.UUID) -> None:
        """A user's feedback."""
        if self.evals is not None:
            self.feedback += 1
            self.evals.feedback(run_id, score=1.0)


async def ainvoke(app: Application, number: int) -> None:
    """A chain, with feedback to every fourth answer."""
    run_id = uuid.uuid4()
    await app.chain.ainvoke(app.asked(number, "answers"), app.config(run_id))
    if number % 4 == 0:
        app.thumb(run_id)


async def invoke(app: Application, number: int) -> None:
    """A chain in a thread."""
    await asyncio.to_thread(app.chain.invoke, app.asked(number, "answers"), app.config())


async def stream(app: Application, number: int) -> None:
    """A stream that is read in a thread."""

    def read() -> None:
        for _ in app.chain.stream(app.asked(number, "answers"), app.config()):
            pass

    await asyncio.to_thread(read)


async def astream(app: Application, number: int) -> None:
    """A stream that is read to its end."""
    async for _ in app.chain.astream(app.asked(number, "answers"), app.config()):
        pass


async def closed(app: Application, number: int) -> None:
    """A stream that is closed after its first words."""
    reading: Any = app.chain.astream(app.asked(number, "answers"), app.config())
    async with contextlib.aclosing(reading) as words:
        async for _ in words:
            break


async def fails(app: Application, number: int) -> None:
    """The model raises."""
    with contextlib.suppress(Boom):
        await app.chain.ainvoke(app.asked(number, "fails"), app.config())


async def cancelled(app: Application, number: int) -> None:
    """The request is cancelled while the model is at work."""
    task = asyncio.create_task(app.chain.ainvoke(app.asked(number, "waits"), app.config()))
    await app.reached[number].wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def graph(app: Application, number: int) -> None:
    """A graph that answers."""
    await _graph(app, number, "answers")


async def resumed(app: Application, number: int) -> None:
    """A graph that asks, and then answers."""
    await _graph(app, number, "resumes")


async def interrupted(app: Application, number: int) -> None:
    """A graph that asks, and gets no reply."""
    await _graph(app, number, "stays")


async def _graph(app: Application, number: int, manner: str) -> None:
    assert app.graph is not None
    await app.graph.run(app.asked(number, manner), app.config(), uuid.uuid4().hex)


async def query(app: Application, number: int) -> None:
    """A query engine of LlamaIndex, in a thread."""
    assert app.engine is not None
    voyage = f"At what time does the ferry leave on voyage {uuid.uuid4().int}?"
    await asyncio.to_thread(app.engine.query, voyage)


async def by_hand(app: Application, number: int) -> None:
    """Retrieval and model called by hand."""
    sample = app.batch[number]
    with app.interaction(sample.question) as it:
        await asyncio.sleep(SEARCH_S + 4 * WORD_S)
        if it is not None:
            it.contexts(sample.contexts)
            it.answer(sample.answer)


async def fails_by_hand(app: Application, number: int) -> None:
    """Code within an interaction raises."""
    with contextlib.suppress(Boom), app.interaction(app.batch[number].question) as it:
        await asyncio.sleep(SEARCH_S)
        if it is not None:
            it.contexts(app.batch[number].contexts)
        raise Boom


async def own(app: Application, number: int) -> None:
    """A sample that the application made itself."""
    await asyncio.sleep(SEARCH_S + 4 * WORD_S)
    if app.evals is not None:
        app.evals.offer(replace(app.batch[number], sample_id=uuid.uuid4().hex))


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    Attributes:
        run: Makes one.
        share: Of all, as a weight.
        status: How its interaction ends.
    """

    run: Callable[[Application, int], Awaitable[None]]
    share: int = 1
    status: str = "ok"


_ALWAYS = (
    Kind(ainvoke, 4),
    Kind(invoke, 3),
    Kind(stream, 2),
    Kind(astream, 2),
    Kind(by_hand, 1),
    Kind(own, 1),
    Kind(closed, 1, "closed"),
    Kind(fails, 1, "error"),
    Kind(fails_by_hand, 1, "error"),
    Kind(cancelled, 1, "cancelled"),
)
_GRAPHS = (Kind(graph, 2), Kind(resumed, 1), Kind(interrupted, 1, "interrupted"))
_QUERIES = (Kind(query, 2),)
KINDS = [
    kind
    for kind in (
        *_ALWAYS,
        *(_GRAPHS if HAS_GRAPHS else ()),
        *(_QUERIES if HAS_LLAMA_INDEX else ()),
    )
    for _ in range(kind.share)
]
"""Each as often as its share says."""
