"""Follows streamed answers, and notices when the application has read them.

The application may read a stream at any time, in any thread or task. In a streaming response, our
generator replaces the original. A plain generator cannot be replaced, so its text is unknown.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks.capture import Recorder, Run, RunKind
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index.vocabulary import STREAMING
from rag_eval_hooks_llama_index.watched import StreamReading, is_over, watch

__all__ = ["StreamedAnswers"]

_WRITER = StreamingAgentChatResponse.__name__
_REACT = "ReActAgent"
_THOUGHT, _ANSWER = "Thought", "Answer:"
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}
_STREAMED = (Generator, AsyncGenerator, *STREAMING, StreamingAgentChatResponse)


class StreamedAnswers:
    """Keeps requests open until the application has read their streamed answers.

    With `watch_streams`, our generator replaces the generator of a streaming response. If
    `watch_streams` is false, streamed answers are not captured.
    """

    def __init__(self, recorder: Recorder, *, watch_streams: bool) -> None:
        self._recorder = recorder
        self._watches = watch_streams
        # The run that created each generator. Outer runs pass the generator on.
        self._makers: weakref.WeakKeyDictionary[Any, Callable[[], Run | None]]
        self._makers = weakref.WeakKeyDictionary()

    def note(self, run: Run, given: Any) -> bool:
        """Record a run's result. Return whether the result is a stream.

        An outermost run's request stays open until its stream finishes.
        """
        if not _is_subclass(given.__class__, _STREAMED):
            return False
        if isinstance(given, StreamingAgentChatResponse):
            source = weakref.ref(given.chat_stream or given.achat_stream)
            self._follow(run, functools.partial(_chat_ending, run, source))
            return True
        is_response = isinstance(given, STREAMING)
        generator = given.response_gen if is_response else given
        is_bare = isinstance(generator, Generator | AsyncGenerator)
        if is_bare and is_over(generator):
            return False
        maker: Callable[[], Run | None] = weakref.ref(run)
        if is_bare:
            maker = self._makers.setdefault(generator, maker)
        if is_response and self._watches and run.outermost:
            # One more character than the limit, so that a cut is visible.
            reading = watch(given, maker, self._recorder.longest + 1)
            if reading is not None:
                self._follow(run, functools.partial(self._reading_ending, run, reading))
                return True
        if is_bare:
            ending = _model_ending if run.kind is RunKind.MODEL else _bare_ending
            self._follow(run, ending(run, weakref.ref(generator)))
        return is_bare

    def _follow(self, run: Run, ending: Callable[[], Status | None]) -> None:
        root = run.interaction.root

        def over() -> Status | None:
            # If the application records the answer, the stream need not be read.
            is_stated = run is not root and root.text is not None
            return Status.OK if is_stated else ending()

        if run.outermost:
            self._recorder.follow(run, over)

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


def _bare_ending(run: Run, generator: Callable[[], Any]) -> Callable[[], Status | None]:
    """Follow a generator that cannot be watched. The last inner model call gives the status."""

    def ending() -> Status | None:
        if not is_over(generator()):
            return None
        run.text_unknown = True
        model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
        return Status.CLOSED if model is None or model.end is None else _taken_over(run, model)

    return ending


def _model_ending(run: Run, generator: Callable[[], Any]) -> Callable[[], Status | None]:
    """Follow a model's stream that the application reads after the outer run has ended.

    A stream that finished before the run ended is ignored, because the application may have
    retried.
    """
    waited = False

    def ending() -> Status | None:
        nonlocal waited
        # A directly called model is the root, which stays open until its stream finishes.
        replied = run.end is not None or (run.parent is None and run.interaction.returned)
        if not waited and replied:
            return Status.OK
        waited = True
        if replied:
            return _taken_over(run, run)
        return Status.CLOSED if is_over(generator()) else None

    return ending


def _chat_ending(run: Run, source: Callable[[], Any]) -> Status | None:
    """Return how a chat engine's stream ended. LlamaIndex reads the stream in a separate run.

    In old versions, the user or a thread without a run reads the stream.
    """
    writer = _last_inside(run, lambda inner: inner.name == _WRITER)
    model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
    last = model if writer is None else writer
    if writer is None and not is_over(source()):
        return None
    if last is None or last.end is None:
        return Status.CLOSED if writer is None else None
    status = _taken_over(run, last)
    if run.text is None and status is Status.OK:
        run.text = None if model is None else model.text
    if run.name == _REACT and run.text is not None and run.text.startswith(_THOUGHT):
        # Old versions hide an agent's thoughts before its answer.
        run.text = run.text.partition(_ANSWER)[2].strip() or run.text
    return status


def _taken_over(run: Run, last: Run) -> Status:
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
    runs = reversed(run.interaction.runs)
    return next((one for one in runs if is_meant(one) and run in one.ancestors()), None)
