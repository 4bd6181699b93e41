"""Notes what the application reads of a stream that is not LlamaIndex's own.

LlamaIndex's own generators hand on what the model says, so the model's events tell the text. The
generator of a query engine that an application wrote may change it, cut it, add to it or raise:
only what comes out of it is the answer. It is read through an object that passes everything on.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from functools import lru_cache
from typing import Any

from rag_eval_hooks_llama_index.reading import StreamReading
from rag_eval_hooks_llama_index.values import class_of

__all__ = ["watch"]


class _Reader:
    """Stand-in for a stream that passes on its attributes, too."""

    __slots__ = ("__weakref__", "_inner", "_reading")
    _inner: Any
    _reading: StreamReading

    def __init__(self, inner: Any, reading: StreamReading) -> None:
        object.__setattr__(self, "_inner", inner)
        object.__setattr__(self, "_reading", reading)
        reading.reader = weakref.ref(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __str__(self) -> str:
        return str(self._inner)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._inner.__reduce_ex__(protocol)

    def _raised(self, error: BaseException) -> None:
        # A generator that is misused, as by two readers at once, raises and goes on.
        frames = (getattr(self._inner, name, None) for name in ("gi_frame", "ag_frame"))
        if not any(frames):
            self._reading.end(error)


class _Iterator(_Reader):
    """Stand-in for an iterator."""

    __slots__ = ()

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        return self._step(self._inner.__next__)

    def _step(self, call: Any, *arguments: Any) -> Any:
        entered = self._reading.enter()
        try:
            part = call(*arguments)
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._reading.leave(entered)
        self._reading.note(part)
        return part


class _Generator(_Iterator):
    """Stand-in for a generator."""

    __slots__ = ()

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._inner.throw, *error)

    def close(self) -> Any:
        entered = self._reading.enter()
        try:
            return self._inner.close()
        finally:
            self._reading.leave(entered)
            self._raised(GeneratorExit())


class _AsyncIterator(_Reader):
    """Stand-in for an async iterator."""

    __slots__ = ()

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        return await self._step(self._inner.__anext__())

    async def _step(self, awaited: Any) -> Any:
        entered = self._reading.enter()
        try:
            part = await awaited
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            self._reading.leave(entered)
        self._reading.note(part)
        return part


class _AsyncGenerator(_AsyncIterator):
    """Stand-in for an async generator."""

    __slots__ = ()

    async def asend(self, value: Any) -> Any:
        return await self._step(self._inner.asend(value))

    async def athrow(self, *error: Any) -> Any:
        return await self._step(self._inner.athrow(*error))

    async def aclose(self) -> None:
        entered = self._reading.enter()
        try:
            await self._inner.aclose()
        finally:
            self._reading.leave(entered)
            self._raised(GeneratorExit())


_READERS: tuple[tuple[type, type[_Reader]], ...] = (
    (Generator, _Generator),
    (AsyncGenerator, _AsyncGenerator),
    (Iterator, _Iterator),
    (AsyncIterator, _AsyncIterator),
)

_UNASKED = {
    *("__del__", "__copy__", "__deepcopy__", "__getstate__", "__setstate__"),
    *("__class_getitem__", "__length_hint__", "__post_init__"),
}
"""Special methods that nobody misses who iterates."""


@lru_cache(maxsize=256)
def _reader_for(kind: type) -> type[_Reader] | None:
    """Return the stand-in for streams of a class, or None.

    Python looks special methods up on the class. Of a stream that also is a context manager, has
    a length, or can be read both sync and async, nothing else can be one.
    """
    made = next((reader for base, reader in _READERS if issubclass(kind, base)), None)
    if made is None:
        return None
    special = {name for name in dir(kind) if name.startswith("__") and name.endswith("__")}
    missed = special - _UNASKED - set(dir(made))
    return None if any(callable(getattr(kind, name, None)) for name in missed) else made


def watch(response: Any, run_id: str, most: int) -> StreamReading | None:
    """Make the `response_gen` of a streaming response note what is read of it.

    Args:
        response: What a query engine gave out.
        run_id: The run that did.
        most: Characters that are kept.

    Returns:
        What will be read; the same for a response that is watched already. None where the stream
        cannot be replaced: it is no iterator and can be read more than once, or is more than one.
    """
    inner = response.response_gen
    if isinstance(inner, _Reader):
        return inner._reading
    # A proxy, as another instrumentor puts in its place, has every special method there is.
    made = _reader_for(class_of(inner))
    if made is None:
        return None
    reading = StreamReading(run_id, most)
    try:
        response.response_gen = reader = made(inner, reading)
    except AttributeError:
        return None
    return reading if response.response_gen is reader else None
