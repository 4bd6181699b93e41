"""Behaviours of LlamaIndex's dispatcher and of its engines, each as its users rely on it.

A behaviour is a function of what a seed draws that returns what its user gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from inspect import BoundArguments
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.instrumentation.events import BaseEvent

from tests.conformance.llama_index.third_party import Notes, OtherEvents, OtherSpans, installed
from tests.matrix.llama_index.kit import Scripted, index_of, says
from tests.support.variation import Variation


class Drawn:
    """Texts and sizes of one seed."""

    def __init__(self, seed: int) -> None:
        self.text = Variation(seed)
        chance = self.text.chance
        self.passages = tuple(self.text.passages(chance.randint(2, 7)))
        self.questions = [self.text.question() for _ in range(chance.randint(2, 5))]
        self.answer = self.text.sentence()
        self.count = chance.randint(2, 5)
        # Made beforehand: it is made once for all who ask for it.
        index_of(self.passages)

    def model(self, **more: Any) -> Scripted:
        return says(self.answer, **more)

    def broken(self) -> Scripted:

        def reply(_messages: Sequence[ChatMessage]) -> str:
            raise ConnectionError(self.answer)

        return Scripted(reply=reply)

    def engine(self, model: Scripted | None = None, **more: Any) -> Any:
        made = index_of(self.passages)
        return made.as_query_engine(llm=model or self.model(), similarity_top_k=self.count, **more)


Behaviour = Callable[[Drawn], Any]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return error


def gathered(calls: Sequence[Any]) -> Any:

    async def together() -> Any:
        return await asyncio.gather(*calls, return_exceptions=True)

    return asyncio.run(together())


class Own(BaseEvent):
    """Event of the application's own."""

    text: str
    number: int

    @classmethod
    def class_name(cls) -> str:
        return "Own"


def spanned_methods(drawn: Drawn) -> Any:
    """Values and exceptions of spanned methods pass as they are; wrong arguments raise as ever."""
    dispatcher = get_dispatcher(drawn.text.name())
    held = {"text": drawn.answer}

    class Service:
        @dispatcher.span
        def outer(self, text: str, *rest: int, key: str = "k") -> Any:
            return self.inner(text)

        @dispatcher.span
        def inner(self, text: str) -> Any:
            return held

        @dispatcher.span
        def fails(self, text: str) -> Any:
            raise LookupError(text)

    service = Service()
    return (
        service.outer(drawn.answer, 1, 2, key=drawn.questions[0]) is held,
        outcome(lambda: service.fails(drawn.answer)),
        outcome(service.outer),
    )


def spanned_generators(drawn: Drawn) -> Any:
    """Generators, coroutines and futures of spanned functions are their own, and behave so."""
    dispatcher = get_dispatcher(drawn.text.name())
    held = {"text": drawn.answer}

    @dispatcher.span
    def words(text: str) -> Any:
        yield from text.split()

    @dispatcher.span
    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError(drawn.answer)

    @dispatcher.span
    def future() -> Any:
        made = asyncio.get_running_loop().create_future()
        made.set_result(held)
        return made

    async def asynchronous() -> Any:
        failed = await asyncio.gather(fails(), return_exceptions=True)
        return failed, await future() is held

    part = words(drawn.answer)
    return type(part).__name__, next(part, None), part.close(), asyncio.run(asynchronous())


def own_events(drawn: Drawn) -> Any:
    """Events of the application's own reach handlers of each dispatcher up the tree, with tags."""
    name = drawn.text.name()
    notes = Notes()
    parent, child = get_dispatcher(name), get_dispatcher(f"{name}.child")
    child.add_event_handler(OtherEvents.to(notes))
    parent.add_span_handler(OtherSpans.to(notes))
    made = [Own(text=text, number=n) for n, text in enumerate(drawn.questions)]

    @child.span
    def emit(events: Sequence[Own]) -> None:
        for event in events:
            child.event(event, source=drawn.answer)

    @child.span
    async def aemit(event: Own) -> None:
        if hasattr(child, "aevent"):
            await child.aevent(event)

    emit(made)
    with instrument_tags({"user": drawn.answer}):
        emit(made[:1])
        asyncio.run(aemit(made[-1]))
    child.propagate = False
    emit(made)
    child.event(made[0])
    child.propagate = True
    return notes.all(), [event.tags for event in made]


def handlers_with_context(drawn: Drawn) -> Any:
    """A handler that sets a context variable at the start of a span reads it at its end."""
    variable: ContextVar[str] = ContextVar(drawn.text.name(), default="none")
    seen: list[str] = []
    tokens: dict[str, Any] = {}

    class Attaching(OtherSpans):
        def new_span(self, id_: str, bound_args: BoundArguments, *args: Any, **kwargs: Any) -> Any:
            tokens[id_] = variable.set(id_)
            return super().new_span(id_, bound_args, *args, **kwargs)

        def prepare_to_exit_span(self, id_: str, *args: Any, **kwargs: Any) -> Any:
            seen.append(variable.get())
            variable.reset(tokens.pop(id_))
            return self.open_spans.get(id_)

    with installed(Attaching(), None):
        answers = [str(drawn.engine().query(question)) for question in drawn.questions]
        asynchronous = gathered([drawn.engine().aquery(q) for q in drawn.questions[:1]])
    return answers, [str(one) for one in asynchronous], seen, variable.get(), len(tokens)


def handlers_that_change(drawn: Drawn) -> Any:
    """Handlers that are added, or put in place of all others, within a request serve the rest."""
    dispatcher, root = get_dispatcher(drawn.text.name()), get_dispatcher()
    inner, only = Notes(), Notes()

    @dispatcher.span
    def ask() -> str:
        with installed(OtherSpans.to(inner), OtherEvents.to(inner)):
            return str(drawn.engine().query(drawn.questions[0]))

    added = ask()
    before = root.span_handlers, root.event_handlers
    root.span_handlers, root.event_handlers = [OtherSpans.to(only)], [OtherEvents.to(only)]
    replaced = str(drawn.engine().query(drawn.questions[1]))
    root.span_handlers, root.event_handlers = before
    return added, replaced, inner.all(), only.all()


def handed_to_another_process(drawn: Drawn) -> Any:
    """The context for another process, and a shut-down of all handlers, are those of the others."""
    dispatcher = get_dispatcher(drawn.text.name())
    if not hasattr(dispatcher, "capture_propagation_context"):
        return None
    closed: list[str] = []
    restored: list[Any] = []

    class Carrying(OtherSpans):
        def capture_propagation_context(self) -> dict[str, Any]:
            return {"carrying": drawn.answer}

        def restore_propagation_context(self, context: dict[str, Any]) -> None:
            restored.append(context)

        def close(self) -> None:
            closed.append(drawn.answer)

    with installed(Carrying(), None), instrument_tags({"tag": drawn.answer}):
        carried = dispatcher.capture_propagation_context()
        copy_context().run(dispatcher.restore_propagation_context, carried)
        dispatcher.shutdown()
        after = str(drawn.engine().query(drawn.questions[0]))
    return carried, restored, closed, after


BEHAVIOURS: Final[tuple[Behaviour, ...]] = (
    spanned_methods,
    spanned_generators,
    own_events,
    handlers_with_context,
    handlers_that_change,
    handed_to_another_process,
)
