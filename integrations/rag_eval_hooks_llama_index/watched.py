"""Reads a streamed answer through a generator that passes everything on.

The generator records the text. Models may be called only while the stream is read, outside every
span. The generator assigns such calls to the answer's run.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from rag_eval_hooks.capture import Run
from rag_eval_hooks.capture.records import status_after
from rag_eval_hooks.sample import Status

__all__ = ["StreamReading", "current_stream", "is_over", "watch"]

_read_run: ContextVar[Callable[[], Run | None]] = ContextVar(
    "rag_eval_stream", default=lambda: None
)


def current_stream() -> Run | None:
    return _read_run.get()()


class StreamReading:
    """One reading of a stream.

    The object refers weakly to the stream's run. Otherwise an unread answer would keep captured
    texts in memory.
    """

    def __init__(self, run: Callable[[], Run | None], most: int, *, is_own: bool) -> None:
        self._run = run
        # The framework's own stream. A part of the stream is not an answer.
        self._is_own = is_own
        # Status and end time (nanoseconds since the epoch). None while the stream is open.
        self.status: Status | None = None
        self.ended = 0
        self.error_type: str | None = None
        self.generator: Callable[[], Any] = lambda: None
        self._parts: list[str] = []
        # Remaining characters to keep.
        self._left = most
        self._is_text = True

    @property
    def text(self) -> str | None:
        """Text so far. None if the stream yielded other objects, or was closed before any text."""
        is_known = self.status is Status.OK or (self._parts and not self._is_own)
        return "".join(self._parts) if self._is_text and is_known else None

    @property
    def is_over(self) -> bool:
        """Whether the stream has finished or can no longer be read."""
        return self.status is not None or is_over(self.generator())

    @contextmanager
    def step(self) -> Iterator[None]:
        """Assign the calls in the block to the stream's run."""
        token = _read_run.set(self._run)
        try:
            yield
        finally:
            # Garbage collection may close a stream in another context.
            with suppress(ValueError):
                _read_run.reset(token)

    def note(self, part: Any) -> None:
        if not isinstance(part, str):
            self._is_text = False
        elif part and self._left > 0:
            # `join` also turns an application's subclass of `str` into plain text.
            kept = "".join((part,))[: self._left]
            self._left -= len(kept)
            self._parts.append(kept)

    def end(self, error: BaseException) -> None:
        """Record the end of the stream, from the exception that its generator raised."""
        is_whole = isinstance(error, StopIteration | StopAsyncIteration)
        self.ended = time.time_ns()
        self.status = Status.OK if is_whole else status_after(type(error))
        if self.status is Status.ERROR:
            self.error_type = type(error).__qualname__


def _read(inner: Any, reading: StreamReading) -> Generator[Any, Any, Any]:
    step: Callable[[], Any] = inner.__next__
    try:
        while True:
            with reading.step():
                part = step()
            reading.note(part)
            try:
                sent = yield part
                step = inner.__next__ if sent is None else functools.partial(inner.send, sent)
            except Exception as error:  # noqa: BLE001 - what the application threw in is passed on
                step = functools.partial(inner.throw, error)
    except StopIteration as end:
        reading.end(end)
        return end.value
    except BaseException as error:
        reading.end(error)
        if isinstance(error, GeneratorExit) and hasattr(inner, "close"):
            inner.close()
        raise


async def _read_async(inner: Any, reading: StreamReading) -> AsyncGenerator[Any, Any]:
    step: Callable[[], Awaitable[Any]] = inner.__anext__
    try:
        while True:
            with reading.step():
                part = await step()
            reading.note(part)
            try:
                sent = yield part
                step = inner.__anext__ if sent is None else functools.partial(inner.asend, sent)
            except Exception as error:  # noqa: BLE001 - what the application threw in is passed on
                step = functools.partial(inner.athrow, error)
    except StopAsyncIteration as end:
        reading.end(end)
    except BaseException as error:
        reading.end(error)
        if isinstance(error, GeneratorExit) and hasattr(inner, "aclose"):
            await inner.aclose()
        raise


def watch(response: Any, run: Callable[[], Run | None], most: int) -> StreamReading | None:
    """Make the `response_gen` of a streaming response record the text.

    Returns None if the stream cannot be replaced. The stream may be readable several times, or an
    object of the application with more methods than an iterator.
    """
    inner = response.response_gen
    readers = ((Iterator, _read), (AsyncIterator, _read_async))
    read: Any = next((read for base, read in readers if isinstance(inner, base)), None)
    if read is None or hasattr(inner, "__dict__"):
        return None
    frame = getattr(inner, "gi_frame", None) or getattr(inner, "ag_frame", None)
    module = "" if frame is None else str(frame.f_globals.get("__name__"))
    reading = StreamReading(run, most, is_own=module.startswith("llama_index.core."))
    made = read(inner, reading)
    made.__name__ = getattr(inner, "__name__", made.__name__)
    try:
        response.response_gen = made
    except AttributeError:
        return None
    reading.generator = weakref.ref(made)
    return reading if response.response_gen is made else None


def is_over(generator: Any) -> bool:
    """Return whether a generator, sync or async, has finished, or was closed or dropped."""
    frames = (getattr(generator, name, None) for name in ("gi_frame", "ag_frame"))
    return all(frame is None for frame in frames)
