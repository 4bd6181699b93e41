"""Finds the streamed answer that a call belongs to, without touching the stream.

A streamed answer is a generator that the application reads whenever it likes, in whatever thread
or task, and the model may be called only then, outside of every span. While the generator runs,
its frame is on the stack of everything that it calls: that frame, compared by identity, tells
whose answer it is. Here no generator is wrapped or kept alive, and nothing of its interaction.
"""

from __future__ import annotations

import dis
import functools
import sys
import weakref
from types import CodeType, FrameType
from typing import Any

from rag_eval_hooks.capture import Run

__all__ = ["Stream", "Streams", "may_differ"]

_DEPTH = 400
"""Frames of a stack that are looked at; frameworks nest some dozens."""
_FRAMEWORK = "llama_index.core."


def may_differ(stream: Any) -> bool:
    """Return whether a stream may give out anything else than the model's text.

    LlamaIndex's own generators hand that on, all of it and nothing else, unless somebody else has
    read a part.
    """
    frame = _frame_of(stream)
    if frame is None:
        is_generator = hasattr(stream, "gi_frame") or hasattr(stream, "ag_frame")
        return not is_generator
    own = str(frame.f_globals.get("__name__", "")).startswith(_FRAMEWORK)
    return not own or _is_begun(frame)


class Stream:
    """One streamed answer.

    Attributes:
        generator: Who makes it.
        text: The whole answer, where it was known from the start.
        foreign: Whether what comes out may be other than what the model said.
    """

    def __init__(self, generator: weakref.ref[Any], run: Run, text: str | None) -> None:
        self.generator = generator
        self.foreign = may_differ(generator())
        self.text = None if self.foreign else text
        # Who keeps an answer and does not read it shall not keep all that was captured with it.
        self._run = weakref.ref(run)
        # Of a fixed text only: no model is called that would tell later whether it was read.
        self._kept = None if self.text is None else self.frame

    @property
    def run(self) -> Run | None:
        """Run that gave it out, as long as anything else refers to it."""
        return self._run()

    @property
    def begun(self) -> bool:
        """Whether any of a text that was known from the start was read."""
        return self._kept is not None and _is_begun(self._kept)

    @property
    def over(self) -> bool:
        """True once it ended, was closed, or was dropped."""
        return self.frame is None

    @property
    def frame(self) -> FrameType | None:
        """Frame of its generator."""
        return _frame_of(self.generator())


class Streams:
    """The streams that may still be read.

    Attributes:
        foreign: Keys of those that may call anything, and not only their model.
    """

    def __init__(self) -> None:
        self._by_frame: dict[int, Stream] = {}
        self.foreign: set[int] = set()

    def add(self, generator: Any, run: Run, text: str | None = None) -> Stream | None:
        """Add a generator that a run gave out, sync or async.

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
        if stream.foreign:
            self.foreign.add(id(frame))
        return stream

    def around(self) -> Run | None:
        """Return the run whose stream the caller is reading, or None."""
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
        """Return the number of streams whose generator is alive."""
        return len(self._by_frame)

    def _forget(self, key: int, generator: weakref.ref[Any]) -> None:
        stream = self._by_frame.get(key)
        # The address may belong to the frame of another stream by now.
        if stream is not None and stream.generator is generator:
            del self._by_frame[key]
            self.foreign.discard(key)


def _frame_of(generator: Any) -> FrameType | None:
    for name in ("gi_frame", "ag_frame"):
        frame = getattr(generator, name, None)
        if isinstance(frame, FrameType):
            return frame
    return None


def _is_begun(frame: FrameType) -> bool:
    return frame.f_lasti >= _first_yield(frame.f_code)


@functools.lru_cache(maxsize=512)
def _first_yield(code: CodeType) -> int:
    """Return the offset at which a generator first gives something out or waits."""
    steps = dis.get_instructions(code)
    return next((step.offset for step in steps if step.opname == "YIELD_VALUE"), 0)
