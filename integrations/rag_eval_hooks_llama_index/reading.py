"""Notes what the application reads of a stream that is not LlamaIndex's own.

LlamaIndex's own generators hand on what the model says, so the model's events tell the text. The
generator of a query engine that an application wrote may change it, cut it, add to it or raise:
only what comes out of it is the answer. It is read through an object that passes everything on.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from llama_index.core.instrumentation.span import active_span_id

from rag_eval_hooks.sample import Status

__all__ = ["Reading", "run_being_read", "watch"]


class _Place(NamedTuple):
    run_id: str
    outside: str | None
    """LlamaIndex's span around the reader."""


_place: ContextVar[_Place | None] = ContextVar("rag_eval_reading", default=None)


def run_being_read(parent_id: str | None) -> str | None:
    """The run whose stream is being read by the caller, unless a span of the stream is around it.

    Args:
        parent_id: The span that LlamaIndex takes for the caller's parent.
    """
    place = _place.get()
    return None if place is None or place.outside != parent_id else place.run_id


class Reading:
    """What was read of one stream.

    Args:
        run_id: The run that gave it out.
        most: Characters that are kept.

    Attributes:
        status: How it ended, or None while it may go on.
        error_type: Class name of the exception that it raised.
        reader: The object through which it is read, while that is alive.
    """

    def __init__(self, run_id: str, most: int) -> None:
        self.status: Status | None = None
        self.error_type: str | None = None
        self.reader: weakref.ref[Any] | None = None
        self._run_id = run_id
        self._parts: list[str] = []
        self._room = most
        self._legible = True

    @property
    def text(self) -> str | None:
        """What came out, or None where it was no text."""
        return "".join(self._parts) if self._legible else None

    @property
    def over(self) -> bool:
        """Whether nothing can come any more."""
        return self.status is not None or self.reader is None or self.reader() is None

    def enter(self) -> _Place | None:
        """The generator goes on.

        Returns:
            What `leave` needs.
        """
        before = _place.get()
        _place.set(_Place(self._run_id, active_span_id.get()))
        return before

    def leave(self, before: _Place | None) -> None:
        """The generator pauses or ends."""
        _place.set(before)

    def note(self, part: Any) -> None:
        """Something came out."""
        if not isinstance(part, str):
            self._legible = False
        elif self._room > 0:
            # Also of a class of the application's own this is a plain text.
            kept = "".join((part,))[: self._room]
            self._room -= len(kept)
            self._parts.append(kept)

    def end(self, error: BaseException | None) -> None:
        """It ended with what an iterator raises; the first time counts."""
        if self.status is not None:
            return
        if isinstance(error, StopIteration | StopAsyncIteration):
            self.status = Status.OK
        elif error is None or isinstance(error, GeneratorExit):
            self.status = Status.CLOSED
        elif isinstance(error, asyncio.CancelledError):
            self.status = Status.CANCELLED
        else:
            self.error_type = type(error).__qualname__
            self.status = Status.ERROR


class _Reader:
    """What stands in for a stream: passes on attributes, too."""

    __slots__ = ("__weakref__", "_inner", "_reading")

    def __init__(self, inner: Any, reading: Reading) -> None:
        self._inner = inner
        self._reading = reading
        reading.reader = weakref.ref(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._inner.__reduce_ex__(protocol)

    def _raised(self, error: BaseException) -> None:
        # A generator that is misused, as by two readers at once, raises and goes on.
        frames = (getattr(self._inner, name, None) for name in ("gi_frame", "ag_frame"))
        if not any(frames):
            self._reading.end(error)


class _Iterator(_Reader):
    """In place of an iterator."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._step(self._inner.__next__)

    def _step(self, call: Any, *arguments: Any) -> Any:
        before = self._reading.enter()
        try:
            part = call(*arguments)
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._reading.leave(before)
        self._reading.note(part)
        return part


class _Generator(_Iterator):
    """In place of a generator."""

    __slots__ = ()

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._inner.throw, *error)

    def close(self) -> Any:
        before = self._reading.enter()
        try:
            return self._inner.close()
        finally:
            self._reading.leave(before)
            self._raised(GeneratorExit())


class _AsyncIterator(_Reader):
    """In place of an async iterator."""

    __slots__ = ()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await self._step(self._inner.__anext__())

    async def _step(self, awaited: Any) -> Any:
        before = self._reading.enter()
        try:
            part = await awaited
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._reading.leave(before)
        self._reading.note(part)
        return part


class _AsyncGenerator(_AsyncIterator):
    """In place of an async generator."""

    __slots__ = ()

    async def asend(self, value: Any) -> Any:
        return await self._step(self._inner.asend(value))

    async def athrow(self, *error: Any) -> Any:
        return await self._step(self._inner.athrow(*error))

    async def aclose(self) -> None:
        before = self._reading.enter()
        try:
            await self._inner.aclose()
        finally:
            self._reading.leave(before)
            self._raised(GeneratorExit())


_READERS: tuple[tuple[type, type[_Reader]], ...] = (
    (Generator, _Generator),
    (AsyncGenerator, _AsyncGenerator),
    (Iterator, _Iterator),
    (AsyncIterator, _AsyncIterator),
)


def watch(response: Any, run_id: str, most: int) -> Reading | None:
    """Has the `response_gen` of a streaming response note what is read of it.

    Args:
        response: What a query engine gave out.
        run_id: The run that did.
        most: Characters that are kept.

    Returns:
        What will be read; the same for a response that is watched already. None where the stream
        cannot be replaced, or is no iterator and can be read more than once.
    """
    inner = response.response_gen
    if isinstance(inner, _Reader):
        return inner._reading
    made = next((reader for kind, reader in _READERS if isinstance(inner, kind)), None)
    if made is None:
        return None
    reading = Reading(run_id, most)
    try:
        response.response_gen = reader = made(inner, reading)
    except AttributeError:
        return None
    return reading if response.response_gen is reader else None
