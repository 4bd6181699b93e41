"""Behaviours of LlamaIndex that its users and other handlers rely on, without and with capture.

Its archives carry no tests, so the behaviours are written down here.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.instrumentation.events.query import QueryStartEvent
from opentelemetry.sdk.trace import TracerProvider

from rag_eval_hooks import RagEval
from rag_eval_hooks_llama_index import enable
from tests.conformance.third_party import Notes, OtherSpans, handlers, installed, numbered, plain
from tests.matrix.llama_index import SHAPES
from tests.matrix.llama_index.kit import index_of, says
from tests.matrix.shape import Shape
from tests.matrix.world import World
from tests.support.evaluation import total
from tests.support.size import size
from tests.support.variation import Variation, run_seed

pytestmark = pytest.mark.filterwarnings("ignore", "always::RuntimeWarning")


class Drawn(Variation):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.answer, self.index = self.sentence(), index_of(tuple(self.passages(3)))
        self.dispatcher = get_dispatcher(self.name())

    def ask(self) -> str:
        engine = self.index.as_query_engine(llm=says(self.answer), similarity_top_k=2)
        return str(engine.query(self.question()))


def failed(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return error


def spanned_functions(drawn: Drawn) -> Any:
    span, held = drawn.dispatcher.span, {"text": drawn.answer}

    @span
    def fails(text: str) -> Any:
        raise LookupError(text)

    @span
    def words(text: str) -> Any:
        yield from text.split()

    @span
    async def fails_later() -> None:
        await asyncio.sleep(0)
        raise LookupError(drawn.answer)

    @span
    def future() -> Any:
        made = asyncio.get_running_loop().create_future()
        made.set_result(held)
        return made

    async def asynchronous() -> Any:
        late = await asyncio.gather(fails_later(), return_exceptions=True)
        return late, await future() is held

    part = words(drawn.answer)
    failures = (failed(lambda: fails(drawn.answer)), failed(fails))
    return (
        failures,
        type(part).__name__,
        next(part, None),
        part.close(),
        asyncio.run(asynchronous()),
    )


def handlers_with_context(drawn: Drawn) -> Any:
    variable: ContextVar[str] = ContextVar(drawn.name(), default="none")
    seen: list[str] = []
    tokens: dict[str, Any] = {}

    class Attaching(OtherSpans):
        def new_span(self, id_: str, *args: Any, **kwargs: Any) -> Any:
            tokens[id_] = variable.set(id_)
            return super().new_span(id_, *args, **kwargs)

        def prepare_to_exit_span(self, id_: str, *args: Any, **kwargs: Any) -> Any:
            seen.append(variable.get())
            variable.reset(tokens.pop(id_))
            return self.open_spans.get(id_)

    with installed(Attaching()):
        answers = [drawn.ask(), drawn.ask()]
    return answers, seen, variable.get(), len(tokens)


def handlers_that_change(drawn: Drawn) -> Any:
    """Handlers that are added or replaced within a request receive the request's later events."""
    root, inner, only = get_dispatcher(), Notes(), Notes()

    @drawn.dispatcher.span
    def ask() -> str:
        with installed(*handlers(inner)), instrument_tags({"user": drawn.answer}):
            drawn.dispatcher.event(QueryStartEvent(query=drawn.answer), source=drawn.answer)
            return drawn.ask()

    added = ask()
    before, (spans, events) = (root.span_handlers, root.event_handlers), handlers(only)
    root.span_handlers, root.event_handlers = [spans], [events]
    replaced = drawn.ask()
    root.span_handlers, root.event_handlers = before
    return added, replaced, inner.all(), only.all()


def of_shape(shape: Shape, drawn: Drawn) -> None:
    world = World(captures=False)
    try:
        shape.run(world, shape.ways[drawn.seed % len(shape.ways)])
    finally:
        world.close()


BEHAVIOURS: dict[str, Callable[[Drawn], Any]] = {
    one.__name__: one for one in (spanned_functions, handlers_with_context, handlers_that_change)
}
PIPELINES: dict[str, Callable[[Drawn], Any]] = {
    f"{shape.group}, {shape.name}": functools.partial(of_shape, shape)
    for shape in SHAPES
    if shape.missing is None
}


@contextmanager
def captured() -> Iterator[None]:
    evals = RagEval(lambda _: 1.0, tracer_provider=TracerProvider(), capture_content=True)
    registration = enable(evals)
    try:
        yield
    finally:
        registration.disable()
        evals.flush(300)
        evals.shutdown()
    stats = evals.stats()
    assert (stats.incidents, stats.offered) == ({}, total(stats))


@pytest.mark.parametrize(
    "name", [*BEHAVIOURS, *size(list(PIPELINES)[run_seed() % 10 :: 10], list(PIPELINES))]
)
def test_others_see_the_same(
    name: str, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    behaviour = {**BEHAVIOURS, **PIPELINES}[name]

    def observed(capture: Callable[[], AbstractContextManager[Any]] = nullcontext) -> set[str]:
        notes, drawn = Notes(), Drawn(run_seed())
        caplog.clear()
        recwarn.clear()
        spans, events = handlers(notes)
        with installed(spans, events), capture():
            # Sync calls run async code in the thread's loop.
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            # Generators that are left half-way leave their span in the context.
            result = numbered(repr(plain(copy_context().run(behaviour, drawn))))
            asyncio.set_event_loop(None)
            loop.close()
            # Tasks and coroutines that nobody waited for complain when they go.
            gc.collect(1)
        theirs = [one for one in caplog.records if not one.name.startswith("rag_eval_hooks")]
        said = [numbered(one.getMessage().split("<")[0]) for one in theirs]
        # Of coroutines that nobody awaits.
        unawaited = [one for one in recwarn.list if issubclass(one.category, RuntimeWarning)]
        warned = [numbered(str(one.message)) for one in unawaited]
        return {result, f"{len(spans.open_spans)} open", *notes.all(), *said, *warned}

    observed()  # so that all that is made once has been made
    expected = observed()
    with captured():
        before = observed()
    # Briefly: a diff of whole reports takes minutes.
    assert [text[:2000] for text in before ^ expected] == []
    assert [text[:2000] for text in observed(captured) ^ expected] == []
