"""Counts the exceptions that this package catches, and logs the first exception of each kind."""

from __future__ import annotations

import functools
import inspect
import logging
import re
import signal
import sys
import sysconfig
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import CodeType, FrameType
from typing import Any, Final, TypeVar, cast

from rag_eval_hooks.errors import InputError, RedactionError
from rag_eval_hooks.own_requests import is_work_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_logger = logging.getLogger("rag_eval_hooks")
_USERS: Final = ("metric ", "sink ")
_STDLIB: Final = sysconfig.get_path("stdlib")


class Incidents:
    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()  # a fork may have copied a held lock

    def report(self, origin: str, error: BaseException) -> None:
        """Count an exception, and log the first of its kind.

        The log omits the exception's message, because the message may quote a request.
        """
        # Celery and RQ raise exceptions in signal handlers at time limits.
        if _is_from_signal_handler(error):
            raise error
        # The first sentence of an argument error contains no content.
        kind = stated_in(error).partition(". ")[0] or type(error).__name__
        if self._is_first(f"{origin}: {kind.rstrip('.')}"):
            _warn(f"{origin}: {_story(error)}")
            if origin.startswith(_USERS):
                # At DEBUG level only, because a traceback may contain content.
                _logger.debug("%s raised", origin, exc_info=error)

    def count(self, kind: str, times: int = 1, *, detail: str = "") -> None:
        # `kind` and `detail` appear in the log, so they must not quote a request.
        if times and self._is_first(kind, times):
            # Capitalize the first word, unless the word is a value such as `judge_failed`.
            told = re.sub(r"^[a-z](?=[a-z]*[ :])", lambda first: first[0].upper(), detail)
            _warn(f"{_ended(kind)} {told}" if told else kind)

    def mistake(self, kind: str, advice: str = "") -> None:
        called = f"Called at {place}" if (place := place_of_caller()) else ""
        self.count(kind, detail=" ".join(filter(None, (advice and _ended(advice), called))))

    def waits_for_itself(self, call: str) -> bool:
        if is_inside := is_work_of(self):
            self.mistake(f"{call} inside a sink or metric would wait forever", "remove the call")
        return is_inside

    def _is_first(self, kind: str, times: int = 1) -> bool:
        with self._lock:
            self._counts[kind] += times
            return self._counts[kind] == times

    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)


def _warn(message: str) -> None:
    _logger.warning("%s Only the first case is logged. stats() counts every case.", _ended(message))


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


@functools.cache
def warn_once(message: str) -> None:
    _logger.warning(message)


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    return list(traceback.walk_tb(error.__traceback__))


def _story(error: BaseException) -> str:
    caller, place = place_of_caller(), place_in_application(error)
    called = f", called at {caller}" if caller else ""
    if stated := stated_in(error).rstrip("."):
        return f"{stated}, at {place}" if place else stated + called
    if place:
        return f"{type(error).__name__} raised at {place}"
    last = [f" at {frame.f_code.co_filename}:{line}" for frame, line in _frames(error)[-1:]]
    return f"{type(error).__name__} raised{''.join(last)}{called}"


def _is_from_signal_handler(error: BaseException) -> bool:
    codes = {frame.f_code for frame, _ in _frames(error)}
    # Python runs signal handlers only in the main thread.
    if not codes or threading.current_thread() is not threading.main_thread():
        return False
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return isinstance(error, KeyboardInterrupt) or not codes.isdisjoint(handlers)


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(handler):
        function = type(handler).__call__
    return getattr(function, "__code__", None)


def is_ours(error: BaseException) -> bool:
    return all(_is_our_frame(frame) for frame, _ in _frames(error)[-1:])


def stated_in(error: BaseException) -> str:
    # Only messages of this package are safe to log. Any other message may quote a request.
    if not isinstance(error, InputError | RedactionError) or not is_ours(error):
        return ""
    return error.stated if isinstance(error, InputError) else str(error)


def in_words(who: str, error: BaseException) -> str:
    place = place_in_application(error)
    told = stated_in(error).rstrip(".") or f"{who} raised {type(error).__name__}"
    return f"{told} at {place}" if place else told


def place_in_application(error: BaseException) -> str:
    """Return the file and line where the application's code failed, or an empty string."""
    file = place = ""
    for frame, line in _frames(error):
        name = frame.f_code.co_filename
        if _is_our_frame(frame):
            file = ""
        elif name == file or not (file or _is_stdlib(name)):
            file, place = name, f"{name}:{line}"
    return place


def place_of_caller() -> str:
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        file = frame.f_code.co_filename
        if not (_is_our_frame(frame) or _is_stdlib(file) or "-packages" in file):
            return f"{file}:{line}"
    return ""


def place_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" The function is defined at {code.co_filename}:{code.co_firstlineno}." if code else ""


def _is_our_frame(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("rag_eval_hooks")


def _is_stdlib(file: str) -> bool:
    return file.startswith((_STDLIB, "<frozen")) and "-packages" not in file


def host_edge(method: F, origin: str = "capture ", failed: object = None) -> F:
    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"{origin}{method.__name__}", _without_keyword(error))
            return failed

    return cast("F", guarded)


def _without_keyword(error: Exception) -> Exception:
    trace = error.__traceback__
    if not isinstance(error, TypeError) or trace is None or trace.tb_next is not None:
        return error
    # The application may pass texts of a request as names of keyword arguments.
    told, keyword, name = str(error).partition(" unexpected keyword argument")
    return InputError(f"{told}{keyword}.", keyword and f"It is{name}.")


class ExitError(Exception):
    pass


async def without_exit(call: Awaitable[T]) -> T:
    try:
        return await call
    except (SystemExit, KeyboardInterrupt) as error:
        # These exceptions would stop the event loop.
        raise ExitError(type(error).__name__) from error
