"""Notes what the application reads of a stream that is not LlamaIndex's own.

LlamaIndex's own generators hand on what the model says, so the model's events tell the text. The
generator of a query engine that an application wrote may change it, cut it, add to it or raise:
only what comes out of it is the answer. It is read through a generator that passes everything on.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from functools import partial
from types import FrameType
from typing import Any

from rag_eval_hooks.capture.recorder import status_after
from rag_eval_hooks.sample import Status

__all__ = ["StreamReading", "frame_of", "watch"]


class StreamReading:
    """Text that was read of one stream.

    Args:
        most: Characters that are kept.

    Attributes:
        status: How it ended, or None while it may go on.
        ended: When; nanoseconds since the epoch, or 0.
        error_type: Class name of the exception that it raised.
        generator: Weak reference to what it is read through.
    """

    def __init__(self, most: int) -> None:
        self.status: Status | None = None
        self.ended = 0
        self.error_type: str | None = None
        self.generator: weakref.ref[Any] | None = None
        self._parts: list[str] = []
        self._left = most
        self._legible = True

    @property
    def text(self) -> str | None:
        """Text that came out; None if there was anything else, or nothing before it was closed."""
        is_known = self._parts or self.status is Status.OK
        return "".join(self._parts) if self._legible and is_known else None

    @property
    def over(self) -> bool:
        """True once the stream is over, or nobody can read it any more."""
        generator = None if self.generator is None else self.generator()
        return self.status is not None or frame_of(generator) is None

    def note(self, part: Any) -> None:
        """Note a part that came out."""
        if not isinstance(part, str):
            self._legible = False
        elif part and self._left > 0:
            # Also of a class of the application's own this is a plain text.
            kept = "".join((part,))[: self._left]
            self._left -= len(kept)
            self._parts.append(kept)

    def end(self, error: BaseException) -> None:
        """Note the end, by what the generator raised."""
        self.ended = time.time_ns()
        if isinstance(error, StopIteration | StopAsyncIteration):
            self.status = Status.OK
            return
        self.status = status_after(type(error))
        if self.status is Status.ERROR:
            self.error_type = type(error).__qualname__


def _read(inner: Any, reading: StreamReading) -> Generator[Any, Any, Any]:
    step: Callable[[], Any] = inner.__next__
    try:
        while True:
            part = step()
            reading.note(part)
            try:
                sent = yield part
                step = inner.__next__ if sent is None else partial(inner.send, sent)
            except Exception as error:  # noqa: BLE001 - what the application threw in is passed on
                step = partial(inner.throw, error)
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
            part = await step()
            reading.note(part)
            try:
                sent = yield part
                step = inner.__anext__ if sent is None else partial(inner.asend, sent)
            except Exception as error:  # noqa: BLE001 - what the application threw in is passed on
                step = partial(inner.athrow, error)
    except StopAsyncIteration as end:
        reading.end(end)
    except BaseException as error:
        reading.end(error)
        if isinstance(error, GeneratorExit) and hasattr(inner, "aclose"):
            await inner.aclose()
        raise


def watch(response: Any, most: int) -> StreamReading | None:
    """Make the `response_gen` of a streaming response note what is read of it.

    Args:
        response: What a query engine gave out.
        most: Characters that are kept.

    Returns:
        What will be read; None where the stream cannot be replaced: it can be read more than once,
        or is an object of the application's own, which may be more than an iterator.
    """
    inner = response.response_gen
    read = next((read for base, read in _READS if isinstance(inner, base)), None)
    if read is None or hasattr(inner, "__dict__"):
        return None
    reading = StreamReading(most)
    made = read(inner, reading)
    made.__name__ = getattr(inner, "__name__", made.__name__)
    try:
        response.response_gen = made
    except AttributeError:
        return None
    reading.generator = weakref.ref(made)
    return reading if response.response_gen is made else None


_READS: tuple[tuple[type, Callable[[Any, StreamReading], Any]], ...] = (
    (Iterator, _read),
    (AsyncIterator, _read_async),
)


def frame_of(generator: Any) -> FrameType | None:
    """Return the frame of a generator, sync or async; None for other objects and after its end."""
    for name in ("gi_frame", "ag_frame"):
        frame = getattr(generator, name, None)
        if isinstance(frame, FrameType):
            return frame
    return None
