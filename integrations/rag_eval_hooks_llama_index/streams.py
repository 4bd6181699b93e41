"""Tells which streamed answer a call belongs to, without touching the stream.

A streamed answer is a generator that the application reads whenever it likes, in whatever thread
or task, and the model may be called only then, outside of every span. While the generator runs,
its frame is on the stack of everything that it calls: that frame, compared by identity, tells
whose answer it is. The generator itself is neither wrapped nor kept alive.
"""

from __future__ import annotations

import dis
import functools
import sys
import weakref
from types import FrameType
from typing import Any

from rag_eval_hooks.capture import Run

__all__ = ["Stream", "Streams"]

_DEPTH = 400
"""Frames of a stack that are looked at; frameworks nest some dozens."""


class Stream:
    """One streamed answer.

    Attributes:
        generator: Who makes it.
        run: The run that gave it out.
        text: The whole answer, where it was known from the start.
    """

    def __init__(self, generator: weakref.ref[Any], run: Run, text: str | None) -> None:
        self.run = run
        self.text = text
        self.generator = generator
        # Of a fixed text only: no model is called that would tell later whether it was read.
        self._kept = None if text is None else self.frame

    @property
    def begun(self) -> bool:
        """Whether any of a text that was known from the start was read."""
        if self._kept is None:
            return False
        steps = dis.get_instructions(self._kept.f_code)
        first = next((step.offset for step in steps if step.opname == "YIELD_VALUE"), 0)
        return self._kept.f_lasti >= first

    @property
    def over(self) -> bool:
        """Whether nothing can come from it any more: it ended, was closed, or dropped."""
        return self.frame is None

    @property
    def frame(self) -> FrameType | None:
        """The frame of its generator."""
        return _frame_of(self.generator())


class Streams:
    """The streams that may still be read."""

    def __init__(self) -> None:
        self._by_frame: dict[int, Stream] = {}

    def add(self, generator: Any, run: Run, text: str | None = None) -> Stream | None:
        """A run gave out a generator, sync or async.

        Returns:
            The stream, also when it was known from an inner run, or None for what is no generator
            or has ended.
        """
        frame = _frame_of(generator)
        if frame is None:
            return None
        known = self._by_frame.get(id(frame))
        if known is not None and known.frame is frame:
            return known
        forget = functools.partial(self._forget, id(frame))
        stream = Stream(weakref.ref(generator, forget), run, text)
        self._by_frame[id(frame)] = stream
        return stream

    def around(self) -> Run | None:
        """The run whose stream is being read by the caller, or None."""
        if not self._by_frame:
            return None
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_DEPTH):
            if frame is None:
                return None
            stream = self._by_frame.get(id(frame))
            if stream is not None and stream.frame is frame:
                return stream.run
            frame = frame.f_back
        return None

    def __len__(self) -> int:
        """Streams whose generator is alive."""
        return len(self._by_frame)

    def _forget(self, key: int, generator: weakref.ref[Any]) -> None:
        stream = self._by_frame.get(key)
        # The address may belong to the frame of another stream by now.
        if stream is not None and stream.generator is generator:
            del self._by_frame[key]


def _frame_of(generator: Any) -> FrameType | None:
    for name in ("gi_frame", "ag_frame"):
        frame = getattr(generator, name, None)
        if isinstance(frame, FrameType):
            return frame
    return None
