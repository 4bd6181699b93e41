"""Text that is read of a stream, and the calls that happen in it meanwhile."""

from __future__ import annotations

import time
import weakref
from contextvars import ContextVar
from typing import Any, NamedTuple

from llama_index.core.instrumentation.span import active_span_id

from rag_eval_hooks.capture.recorder import status_after
from rag_eval_hooks.sample import Status

__all__ = ["StreamReading", "run_being_read"]


class _RunBeingRead(NamedTuple):
    run_id: str
    outside: str | None
    """LlamaIndex's span around the reader."""


_being_read: ContextVar[_RunBeingRead | None] = ContextVar("rag_eval_reading", default=None)


def run_being_read(parent_id: str | None) -> str | None:
    """Return the run whose stream the caller reads, unless a span of the stream is between.

    Args:
        parent_id: The span that LlamaIndex takes for the caller's parent.
    """
    read = _being_read.get()
    return None if read is None or read.outside != parent_id else read.run_id


class StreamReading:
    """Text that was read of one stream.

    Args:
        run_id: The run that gave it out.
        most: Characters that are kept.

    Attributes:
        status: How it ended, or None while it may go on.
        ended: When; nanoseconds since the epoch, or 0.
        error_type: Class name of the exception that it raised.
        reader: The object through which it is read, while that is alive.
    """

    def __init__(self, run_id: str, most: int) -> None:
        self.status: Status | None = None
        self.ended = 0
        self.error_type: str | None = None
        self.reader: weakref.ref[Any] | None = None
        self._run_id = run_id
        self._parts: list[str] = []
        self._left = most
        self._legible = True

    @property
    def text(self) -> str | None:
        """Text that came out, or None if there was anything else."""
        return "".join(self._parts) if self._legible else None

    @property
    def over(self) -> bool:
        """True once the stream is over, or nobody can read it any more."""
        return self.status is not None or self.reader is None or self.reader() is None

    def enter(self) -> tuple[_RunBeingRead, _RunBeingRead | None]:
        """Note that the generator goes on.

        Returns:
            What `leave` needs.
        """
        before, here = _being_read.get(), _RunBeingRead(self._run_id, active_span_id.get())
        _being_read.set(here)
        return here, before

    def leave(self, entered: tuple[_RunBeingRead, _RunBeingRead | None]) -> None:
        """Note that the generator pauses or ends."""
        here, before = entered
        # A coroutine may be closed in another context, where the value is not ours to take back.
        if _being_read.get() is here:
            _being_read.set(before)

    def note(self, part: Any) -> None:
        """Note a part that came out."""
        if not isinstance(part, str):
            self._legible = False
        elif part and self._left > 0:
            # Also of a class of the application's own this is a plain text.
            kept = "".join((part,))[: self._left]
            self._left -= len(kept)
            self._parts.append(kept)

    def end(self, error: BaseException | None) -> None:
        """Note the end, by what the iterator raised; the first time counts."""
        if self.status is not None:
            return
        self.ended = time.time_ns()
        if isinstance(error, StopIteration | StopAsyncIteration):
            self.status = Status.OK
        else:
            self.status = Status.CLOSED if error is None else status_after(type(error))
            if self.status is Status.ERROR:
                self.error_type = type(error).__qualname__
