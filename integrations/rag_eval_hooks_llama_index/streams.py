"""Streamed answers: which one a call belongs to, and how its reading ended.

A streamed answer is a generator that the application reads whenever it likes, in whatever thread
or task, and the model may be called only then, outside of every span. While the generator runs,
its frame is on the stack of everything that it calls: that frame, compared by identity, tells
whose answer it is. Here no generator is wrapped or kept alive, and nothing of its interaction.
"""

from __future__ import annotations

import dis
import functools
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks.capture import Recorder, Run, RunKind
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index.stream_readers import StreamReading, frame_of, watch
from rag_eval_hooks_llama_index.values import STREAMING, generator_of

__all__ = ["StreamedAnswers", "Streams"]

_MAX_FRAMES = 400
"""Frames of a stack that are looked at; frameworks nest some dozens."""
_FRAMEWORK = "llama_index.core."
_EMPTY = "empty_response"
"""Part of the names of generators of a fixed text."""
_WRITER = StreamingAgentChatResponse.__name__
_REACT = "ReActAgent"
_THOUGHT, _ANSWER = "Thought", "Answer:"
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}


class Stream:
    """One streamed answer.

    Attributes:
        generator: Weak reference to who makes it.
        foreign: Whether what comes out may be other than what the model said.
        made: When it was given out; nanoseconds since the epoch.
    """

    def __init__(self, generator: weakref.ref[Any], run: Run) -> None:
        self.generator = generator
        self.made = time.time_ns()
        self.foreign = _may_differ(generator())
        # Who keeps an answer and does not read it shall not keep all that was captured with it.
        self._run = weakref.ref(run)

    @property
    def run(self) -> Run | None:
        """Run that gave it out, as long as anything else refers to it."""
        return self._run()

    @property
    def frame(self) -> FrameType | None:
        """Frame of its generator; None once it ended, was closed, or was dropped."""
        return frame_of(self.generator())


class Streams:
    """The streams that may still be read.

    Attributes:
        foreign: Keys of those that may call anything, and not only their model.
    """

    def __init__(self) -> None:
        self._by_frame: dict[int, Stream] = {}
        self.foreign: set[int] = set()

    def add(self, generator: Any, run: Run) -> Stream | None:
        """Add a generator that a run gave out, sync or async.

        Returns:
            The stream, also when it was known from an inner run, or None for what is no generator
            or has ended.
        """
        frame = frame_of(generator)
        if frame is None:
            return None
        known = self._by_frame.get(id(frame))
        if known is not None and known.frame is frame:
            return known
        forget = functools.partial(self._forget, id(frame))
        stream = Stream(weakref.ref(generator, forget), run)
        self._by_frame[id(frame)] = stream
        if stream.foreign:
            self.foreign.add(id(frame))
        return stream

    def around(self) -> Run | None:
        """Return the run whose stream the caller is reading, or None."""
        frame: FrameType | None = sys._getframe(1) if self._by_frame else None
        for _ in range(_MAX_FRAMES):
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


class StreamedAnswers:
    """Keeps interactions open until their streamed answers are read.

    Args:
        recorder: Of the interactions.
        watch_streams: Whether streams that are not LlamaIndex's own are read through an object
            of ours; otherwise their answers are not known.

    Attributes:
        streams: Which of them a call belongs to.
    """

    def __init__(self, recorder: Recorder, *, watch_streams: bool) -> None:
        self.streams = Streams()
        self._recorder = recorder
        self._watches = watch_streams

    def note(self, run: Run, given: Any) -> bool:
        """Note a streamed answer; the interaction of an outermost one then waits for it.

        Args:
            run: Who gave it out.
            given: The streamed answer, or a response that is none.

        Returns:
            Whether it is a stream.
        """
        if isinstance(given, StreamingAgentChatResponse):
            source = self.streams.add(given.chat_stream or given.achat_stream, run)
            if run.outermost:
                self._follow(run, functools.partial(_chat_ending, run, source))
            return True
        reading = self._reading(run, given)
        stream = self.streams.add(generator_of(given), run)
        if reading is not None:
            self._follow(run, functools.partial(self._reading_ending, run, reading))
        elif stream is not None and run.outermost:
            is_model = run.kind is RunKind.MODEL
            ending = _model_ending(run, stream) if is_model else None
            self._follow(run, ending or functools.partial(_stream_ending, run, stream))
        return stream is not None or reading is not None

    def _follow(self, run: Run, ending: Callable[[], Status | None]) -> None:
        root = run.interaction.root

        def over() -> Status | None:
            # Where the application states the answer, it need not be read.
            stated = run is not root and root.text is not None
            return Status.OK if stated else ending()

        self._recorder.follow(run, over)

    def _reading(self, run: Run, given: Any) -> StreamReading | None:
        """Watch a response whose stream is not LlamaIndex's own."""
        is_own = not isinstance(given, STREAMING) or not _may_differ(given.response_gen)
        if is_own or not (self._watches and run.outermost):
            return None
        # One more character than is kept, so that a cut can be noticed.
        return watch(given, self._recorder.longest + 1)

    def _reading_ending(self, run: Run, reading: StreamReading) -> Status | None:
        if not reading.over:
            return None
        run.text = self._recorder.text(run, reading.text)
        run.text_unknown = run.text is None
        _blame(run, reading.error_type)
        interaction = run.interaction
        interaction.read_until = max(interaction.read_until, reading.ended)
        return reading.status or Status.CLOSED


def _stream_ending(run: Run, stream: Stream) -> Status | None:
    """Return how a query engine's stream ended: its last model call shows the status."""
    if stream.frame is not None:
        return None
    model = next(_inside(run, lambda inner: inner.kind is RunKind.MODEL), None)
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
    writer = next(_inside(run, lambda inner: inner.name == _WRITER), None)
    if writer is None:
        return None if stream is None else _spoken(run, _stream_ending(run, stream))
    if writer.end is None:
        return None
    status = _taken_over(run, writer)
    if run.text is None and status is Status.OK:
        models = _inside(run, lambda inner: inner.kind is RunKind.MODEL)
        run.text = next((model.text for model in models), None)
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


def _inside(run: Run, wanted: Callable[[Run], bool]) -> Iterator[Run]:
    """Yield the runs inside another that are wanted, the last first."""
    return (r for r in reversed(run.interaction.runs) if wanted(r) and run in r.ancestors())


def _may_differ(stream: Any) -> bool:
    """Return whether a stream may give out anything else than the model's text.

    LlamaIndex's own generators hand that on, all of it and nothing else, unless no model is called
    or somebody else has read a part.
    """
    frame = frame_of(stream)
    if frame is None:
        return not (hasattr(stream, "gi_frame") or hasattr(stream, "ag_frame"))
    code = frame.f_code
    is_begun = frame.f_lasti >= _first_yield(code)
    own = str(frame.f_globals.get("__name__", "")).startswith(_FRAMEWORK)
    return not own or is_begun or _EMPTY in code.co_name


@functools.lru_cache(maxsize=512)
def _first_yield(code: CodeType) -> int:
    """Return the offset at which a generator first gives something out or waits."""
    steps = dis.get_instructions(code)
    return next((step.offset for step in steps if step.opname == "YIELD_VALUE"), 0)
