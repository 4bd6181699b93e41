"""Streamed answers: the stream of a call, the end of its reading, and the text read.

A streamed answer is a generator that the application reads whenever it likes, in whatever thread
or task, and the model may be called only then, outside of every span. While the generator runs,
its frame is on the stack of everything that it calls: that frame, compared by identity, tells
whose answer it is.

LlamaIndex's own generators hand on what the model says, so the model's events tell the text. They
are neither wrapped nor kept alive. The generator of an application's own query engine may change
that text, cut it, add to it or raise: it is read through a generator that passes everything on.
"""

from __future__ import annotations

import functools
import sys
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
from types import FrameType
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks.capture import Recorder, Run, RunKind
from rag_eval_hooks.capture.records import status_after
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index.vocabulary import STREAMING

__all__ = ["StreamReading", "StreamedAnswers", "Streams"]

_MAX_FRAMES = 400
"""Frames of a stack that are looked at; frameworks nest some dozens."""
_FRAMEWORK = "llama_index.core."
_EMPTY = "empty_response"
"""Part of the names of generators of a fixed text."""
_WRITER = StreamingAgentChatResponse.__name__
_REACT = "ReActAgent"
_THOUGHT, _ANSWER = "Thought", "Answer:"
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}
_STREAMED = (Generator, AsyncGenerator, *STREAMING, StreamingAgentChatResponse)


def _frame_of(generator: Any) -> FrameType | None:
    """Return the frame of a generator, sync or async; None for other objects and after its end."""
    frames = (getattr(generator, name, None) for name in ("gi_frame", "ag_frame"))
    return next((frame for frame in frames if isinstance(frame, FrameType)), None)


def _may_differ(stream: Any) -> bool:
    """Return whether a stream may give out anything else than the model's text.

    LlamaIndex's own generators hand that on, all of it and nothing else, unless no model is called
    or somebody else has read a part.
    """
    frame = _frame_of(stream)
    if frame is None:
        return not (hasattr(stream, "gi_frame") or hasattr(stream, "ag_frame"))
    own = str(frame.f_globals.get("__name__", "")).startswith(_FRAMEWORK)
    # Of async generators, Python 3.11 does not tell.
    is_begun = any(getattr(stream, name, False) for name in ("gi_suspended", "ag_suspended"))
    return not own or is_begun or _EMPTY in frame.f_code.co_name


class Stream:
    """One streamed answer, which refers weakly to its generator and its run.

    Who keeps an answer and does not read it shall not keep all that was captured with it.
    """

    def __init__(self, generator: Any, run: Run, forget: Callable[[Any], None]) -> None:
        self.generator, self._run = weakref.ref(generator, forget), weakref.ref(run)
        # When it was given out; nanoseconds since the epoch.
        self.made = time.time_ns()
        self.foreign = _may_differ(generator)

    @property
    def run(self) -> Run | None:
        """Run that gave it out, as long as anything else refers to it."""
        return self._run()

    @property
    def frame(self) -> FrameType | None:
        """Frame of its generator; None once it ended, was closed, or was dropped."""
        return _frame_of(self.generator())


class Streams:
    """The streams that may still be read, by the identities of their frames.

    Attributes:
        foreign: Keys of streams that may call anything, and not only their model.
    """

    def __init__(self) -> None:
        self._by_frame: dict[int, Stream] = {}
        self.foreign: set[int] = set()

    def add(self, generator: Any, run: Run) -> Stream | None:
        """Add a generator that a run gave out; return the stream, also if an inner run gave it.

        None for another object than a generator, and for an ended one.
        """
        frame = _frame_of(generator)
        stream = None if frame is None else self._of(frame)
        if frame is None or stream is not None:
            return stream
        key = id(frame)
        stream = self._by_frame[key] = Stream(generator, run, functools.partial(self._forget, key))
        if stream.foreign:
            self.foreign.add(key)
        return stream

    def around(self) -> Run | None:
        """Return the run whose stream the caller is reading, or None."""
        frame: FrameType | None = sys._getframe(1) if self._by_frame else None
        for _ in range(_MAX_FRAMES):
            if frame is None:
                return None
            if (stream := self._of(frame)) is not None:
                return stream.run
            frame = frame.f_back
        return None

    def __len__(self) -> int:
        """Return the number of streams whose generator is alive."""
        return len(self._by_frame)

    def _of(self, frame: FrameType) -> Stream | None:
        stream = self._by_frame.get(id(frame))
        return stream if stream is not None and stream.frame is frame else None

    def _forget(self, key: int, generator: weakref.ref[Any]) -> None:
        stream = self._by_frame.get(key)
        # The address may belong to the frame of another stream by now.
        if stream is not None and stream.generator is generator:
            del self._by_frame[key]
            self.foreign.discard(key)


class StreamReading:
    """Text that was read of a stream that is not LlamaIndex's own, at most so many characters."""

    def __init__(self, most: int) -> None:
        # How it ended, or None while it may go on, and when; nanoseconds since the epoch.
        self.status: Status | None = None
        self.ended = 0
        self.error_type: str | None = None
        # Weak reference to the generator that it is read through.
        self.generator: Callable[[], Any] = lambda: None
        self._parts: list[str] = []
        self._left = most
        self._is_text = True

    @property
    def text(self) -> str | None:
        """Text that came out; None if there was anything else, or nothing before it was closed."""
        is_known = self._parts or self.status is Status.OK
        return "".join(self._parts) if self._is_text and is_known else None

    @property
    def is_over(self) -> bool:
        """True once the stream is over, or nobody can read it any more."""
        return self.status is not None or _frame_of(self.generator()) is None

    def note(self, part: Any) -> None:
        """Note a part that came out."""
        if not isinstance(part, str):
            self._is_text = False
        elif part and self._left > 0:
            # Also of a class of the application's own this is a plain text.
            kept = "".join((part,))[: self._left]
            self._left -= len(kept)
            self._parts.append(kept)

    def end(self, error: BaseException) -> None:
        """Note the end, by what the generator raised."""
        is_whole = isinstance(error, StopIteration | StopAsyncIteration)
        self.ended = time.time_ns()
        self.status = Status.OK if is_whole else status_after(type(error))
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


def _watch(response: Any, most: int) -> StreamReading | None:
    """Make the `response_gen` of a streaming response note the text read.

    None where the stream cannot be replaced: it can be read more than once, or is an object of the
    application's own, which may be more than an iterator.
    """
    inner = response.response_gen
    readers = ((Iterator, _read), (AsyncIterator, _read_async))
    read: Any = next((read for base, read in readers if isinstance(inner, base)), None)
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


class StreamedAnswers:
    """Keeps interactions open until their streamed answers are read.

    Args:
        recorder: Of the interactions.
        watch_streams: Whether streams that are not LlamaIndex's own are read through an object
            of ours; otherwise their answers are not known.
    """

    def __init__(self, recorder: Recorder, *, watch_streams: bool) -> None:
        self.streams = Streams()
        self._recorder = recorder
        self._watches = watch_streams

    def note(self, run: Run, given: Any) -> bool:
        """Note what a run gave out; return whether it is a stream.

        The interaction of an outermost run waits for the end of its stream.
        """
        if not _is_subclass(given.__class__, _STREAMED):
            return False
        if isinstance(given, StreamingAgentChatResponse):
            source = self.streams.add(given.chat_stream or given.achat_stream, run)
            self._follow(run, functools.partial(_chat_ending, run, source))
            return True
        reading = self._reading(run, given)
        generator = given.response_gen if isinstance(given, STREAMING) else given
        stream = self.streams.add(generator, run)
        if reading is not None:
            self._follow(run, functools.partial(self._reading_ending, run, reading))
        elif stream is not None:
            is_model = run.kind is RunKind.MODEL
            ending = functools.partial(_stream_ending, run, stream)
            self._follow(run, _model_ending(run, stream) if is_model else ending)
        return stream is not None or reading is not None

    def _follow(self, run: Run, ending: Callable[[], Status | None]) -> None:
        root = run.interaction.root

        def over() -> Status | None:
            # Where the application states the answer, it need not be read.
            is_stated = run is not root and root.text is not None
            return Status.OK if is_stated else ending()

        if run.outermost:
            self._recorder.follow(run, over)

    def _reading(self, run: Run, given: Any) -> StreamReading | None:
        """Watch a response whose stream is not LlamaIndex's own."""
        is_own = not isinstance(given, STREAMING) or not _may_differ(given.response_gen)
        if is_own or not (self._watches and run.outermost):
            return None
        # One more character than is kept, so that a cut can be noticed.
        return _watch(given, self._recorder.longest + 1)

    def _reading_ending(self, run: Run, reading: StreamReading) -> Status | None:
        if not reading.is_over:
            return None
        run.text = self._recorder.text(run, reading.text)
        run.text_unknown = run.text is None
        _blame(run, reading.error_type)
        interaction = run.interaction
        interaction.read_until = max(interaction.read_until, reading.ended)
        return reading.status or Status.CLOSED


# Pydantic is slow at `isinstance`.
@functools.lru_cache(maxsize=2048)
def _is_subclass(kind: type, bases: tuple[type, ...]) -> bool:
    return issubclass(kind, bases)


def _stream_ending(run: Run, stream: Stream) -> Status | None:
    """Return how a query engine's stream ended: its last model call shows the status."""
    if stream.frame is not None:
        return None
    model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
    run.text_unknown = stream.foreign
    if model is None or model.end is None:
        return Status.CLOSED
    if model.end < stream.made and not stream.foreign:
        # An earlier call of the same synthesizer: nobody read what it should end with.
        return Status.CLOSED
    return _taken_over(run, model)


def _model_ending(run: Run, stream: Stream) -> Callable[[], Status | None]:
    """Follow a model's stream that the application reads itself, after the outer run ended.

    What was over by then is the application's own affair: it may have tried another model.
    """
    waited = False

    def ending() -> Status | None:
        nonlocal waited
        # A model called by hand is the root, which is open until its stream is over.
        replied = run.end is not None or (run.parent is None and run.interaction.returned)
        if not waited and replied:
            return Status.OK
        waited = True
        if replied:
            return _taken_over(run, run)
        return Status.CLOSED if stream.frame is None else None

    return ending


def _chat_ending(run: Run, stream: Stream | None) -> Status | None:
    """Return how a chat engine's stream ended: LlamaIndex reads it in a run of its own.

    Old versions let the user read it, or read it in a thread that knows of no run.
    """
    writer = _last_inside(run, lambda inner: inner.name == _WRITER)
    if writer is None:
        return None if stream is None else _spoken(run, _stream_ending(run, stream))
    if writer.end is None:
        return None
    status = _taken_over(run, writer)
    if run.text is None and status is Status.OK:
        model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
        run.text = None if model is None else model.text
    return _spoken(run, status)


def _spoken(run: Run, status: Status | None) -> Status | None:
    """Leave of an agent's text the answer: what it thought before, old versions do not give out."""
    if run.name == _REACT and run.text is not None and run.text.startswith(_THOUGHT):
        run.text = run.text.partition(_ANSWER)[2].strip() or run.text
    return status


def _taken_over(run: Run, last: Run) -> Status:
    """Take over text and failure of the last run inside; return its status."""
    run.text = None if run.text_unknown else last.text
    if last.error_type is None:
        return Status.OK
    status = _STATUS.get(last.error_type, Status.ERROR)
    if status is Status.ERROR:
        _blame(run, last.error_type)
    return status


def _blame(run: Run, error_type: str | None) -> None:
    if error_type is not None:
        run.error_type = run.interaction.root.error_type = error_type


def _last_inside(run: Run, is_meant: Callable[[Run], bool]) -> Run | None:
    """Return the last run inside another that is meant, or None."""
    runs = reversed(run.interaction.runs)
    return next((one for one in runs if is_meant(one) and run in one.ancestors()), None)
