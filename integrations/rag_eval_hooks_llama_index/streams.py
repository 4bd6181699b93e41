"""Keeps requests open until the application has read their streamed answers.

While the application reads a stream, LlamaIndex may call a model outside all spans.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import ContextVar, Token
from functools import lru_cache, partial
from typing import Any

from llama_index.core.chat_engine.types import StreamingAgentChatResponse

from rag_eval_hooks.capture import Recorder, Run, RunKind
from rag_eval_hooks.capture.records import status_after
from rag_eval_hooks.sample import Status
from rag_eval_hooks_llama_index.vocabulary import STREAMING

_WRITER = StreamingAgentChatResponse.__name__
_REACT = "ReActAgent"
_THOUGHT, _ANSWER = "Thought", "Answer:"
_STATUS = {"GeneratorExit": Status.CLOSED, "CancelledError": Status.CANCELLED}
_STREAMED = (Generator, AsyncGenerator, *STREAMING, StreamingAgentChatResponse)
_read_run: ContextVar[Callable[[], Run | None] | None] = ContextVar("rag_eval_stream", default=None)


def current_stream() -> Run | None:
    reading = _read_run.get()
    return None if reading is None else reading()


def follow_stream(recorder: Recorder, run: Run, given: Any) -> bool:
    if not is_subclass(given.__class__, _STREAMED):
        return False
    if isinstance(given, StreamingAgentChatResponse):
        source = weakref.ref(given.chat_stream or given.achat_stream)
        _follow(recorder, run, partial(_chat_ending, run, source))
        return True
    generator = given.response_gen if isinstance(given, STREAMING) else given
    is_bare = isinstance(generator, Generator | AsyncGenerator)
    if is_bare and _is_over(generator):
        return False
    # Keep one character more than the recorder, so that the recorder detects longer texts.
    is_watched = generator is not given and run.outermost
    if is_watched and (reading := _watch(given, run, recorder.longest + 1)) is not None:
        _follow(recorder, run, partial(reading.ending, recorder, run))
        return True
    if is_bare:
        ending = _model_ending if run.kind is RunKind.MODEL else _bare_ending
        _follow(recorder, run, partial(ending, run, weakref.ref(generator)))
    return is_bare


# Pydantic is slow at `isinstance`.
@lru_cache(maxsize=2048)
def is_subclass(kind: type, bases: tuple[type, ...]) -> bool:
    return issubclass(kind, bases)


def _follow(recorder: Recorder, run: Run, ending: Callable[[], Status | None]) -> None:
    root = run.interaction.root

    def over() -> Status | None:
        # If the application records the answer, the request does not wait for the stream.
        is_stated = run is not root and root.text is not None
        return Status.OK if is_stated else ending()

    if run.outermost:
        run.interaction.streams.append(over)


def _is_over(generator: Any) -> bool:
    # A finished, closed or dropped generator has no frame.
    return getattr(generator, "gi_frame", getattr(generator, "ag_frame", None)) is None


class _WatchedStream:
    # The object refers weakly to the stream's run. Otherwise an unread answer would keep captured
    # texts in memory.
    def __init__(self, run: Run, inner: Any, most: int) -> None:
        self._run = weakref.ref(run)
        frame = getattr(inner, "gi_frame", None) or getattr(inner, "ag_frame", None)
        module = "" if frame is None else str(frame.f_globals.get("__name__"))
        # Whether the framework reads the stream. A part of such a stream is not an answer.
        self._is_own = module.startswith("llama_index.core.")
        # Status and end time (nanoseconds since the epoch), or None while the stream is open.
        self._status: Status | None = None
        self._ended = 0
        self._error_type = ""
        self.generator: Callable[[], Any] = lambda: None
        self._parts: list[str] = []
        # Number of further characters to keep.
        self._left = most
        self._is_text = True

    def enter(self) -> Token[Callable[[], Run | None] | None]:
        return _read_run.set(self._run)

    def note(self, part: Any) -> None:
        if not isinstance(part, str):
            self._is_text = False
        elif part and self._left > 0:
            # `join` also turns an application's subclass of `str` into plain text.
            kept = part if type(part) is str else "".join((part,))
            if (size := len(kept)) > self._left:
                kept = kept[: self._left]
            self._left -= size
            self._parts.append(kept)

    def end(self, error: BaseException) -> None:
        is_whole = isinstance(error, StopIteration | StopAsyncIteration)
        self._ended = time.time_ns()
        self._status = Status.OK if is_whole else status_after(type(error))
        self._error_type = type(error).__qualname__

    def ending(self, recorder: Recorder, run: Run) -> Status | None:
        status = self._status
        if status is None:
            if not _is_over(self.generator()):
                return None
            status = Status.CLOSED
        is_known = status is Status.OK or (self._parts and not self._is_own)
        run.text = recorder.text(run, "".join(self._parts)) if is_known and self._is_text else None
        run.text_unknown = run.text is None
        if status is Status.ERROR:
            _blame(run, self._error_type)
        run.interaction.read_until = max(run.interaction.read_until, self._ended)
        return status


def _read(inner: Any, reading: _WatchedStream) -> Generator[Any, Any, Any]:
    step: Callable[[], Any] = inner.__next__
    try:
        while True:
            token = reading.enter()
            try:
                part = step()
            finally:
                _read_run.reset(token)
            reading.note(part)
            try:
                sent = yield part
                step = inner.__next__ if sent is None else partial(inner.send, sent)
            except Exception as error:  # noqa: BLE001 - the application's error is passed on
                step = partial(inner.throw, error)
    except StopIteration as end:
        reading.end(end)
        return end.value
    except BaseException as error:
        reading.end(error)
        if isinstance(error, GeneratorExit) and hasattr(inner, "close"):
            inner.close()
        raise


async def _read_async(inner: Any, reading: _WatchedStream) -> AsyncGenerator[Any, Any]:
    step: Callable[[], Awaitable[Any]] = inner.__anext__
    try:
        while True:
            token = reading.enter()
            try:
                part = await step()
            finally:
                # Garbage collection may close a stream in another context.
                with suppress(ValueError):
                    _read_run.reset(token)
            reading.note(part)
            try:
                sent = yield part
                step = inner.__anext__ if sent is None else partial(inner.asend, sent)
            except Exception as error:  # noqa: BLE001 - the application's error is passed on
                step = partial(inner.athrow, error)
    except StopAsyncIteration as end:
        reading.end(end)
    except BaseException as error:
        reading.end(error)
        if isinstance(error, GeneratorExit) and hasattr(inner, "aclose"):
            await inner.aclose()
        raise


def _watch(response: Any, run: Run, most: int) -> _WatchedStream | None:
    # A generator cannot replace a stream that can be read several times, or the application's
    # object with more methods than an iterator.
    inner = response.response_gen
    readers = ((Iterator, _read), (AsyncIterator, _read_async))
    read: Any = next((read for base, read in readers if isinstance(inner, base)), None)
    if read is None or hasattr(inner, "__dict__"):
        return None
    # A model call while the application reads the stream belongs to the synthesizer.
    reading = _WatchedStream(_last_inside(run, lambda inner: inner.joins) or run, inner, most)
    made = read(inner, reading)
    made.__name__ = getattr(inner, "__name__", made.__name__)
    reading.generator = weakref.ref(made)
    with suppress(AttributeError):
        response.response_gen = made
    return reading if response.response_gen is made else None


def _bare_ending(run: Run, generator: Callable[[], Any]) -> Status | None:
    # A plain generator cannot be watched. The last inner model call gives the status.
    if not _is_over(generator()):
        return None
    run.text_unknown = True
    model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
    return Status.CLOSED if model is None or model.end is None else _taken_over(run, model)


def _model_ending(run: Run, generator: Callable[[], Any]) -> Status | None:
    if run is not run.interaction.models[-1]:
        # The application retried.
        return Status.OK
    # A directly called model is the root, which stays open until its stream finishes.
    if run.end is not None or (run.parent is None and run.interaction.returned):
        return _taken_over(run, run)
    return Status.CLOSED if _is_over(generator()) else None


def _chat_ending(run: Run, source: Callable[[], Any]) -> Status | None:
    # LlamaIndex reads the stream in a separate run. In old versions, the user or a thread without a
    # run reads the stream.
    writer = _last_inside(run, lambda inner: inner.name == _WRITER)
    model = _last_inside(run, lambda inner: inner.kind is RunKind.MODEL)
    last = model if writer is None else writer
    if writer is None and not _is_over(source()):
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


def _blame(run: Run, error_type: str) -> None:
    run.error_type = run.interaction.root.error_type = error_type


def _last_inside(run: Run, is_meant: Callable[[Run], bool]) -> Run | None:
    runs = reversed(run.interaction.runs)
    return next((one for one in runs if is_meant(one) and run in one.ancestors()), None)
