"""Counts caught exceptions and logs the first of each kind, without texts of requests."""

from __future__ import annotations

import functools
import inspect
import logging
import signal
import sys
import sysconfig
import threading
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import CodeType
from typing import Any, Final, TypeGuard, TypeVar, cast

from rag_eval_hooks.causes import is_our_frame, named
from rag_eval_hooks.errors import InputError, RedactionError

__all__ = [
    "ExitError",
    "Incidents",
    "host_edge",
    "in_words",
    "place_in_application",
    "place_of",
    "place_of_caller",
    "raised_by_signal_handler",
    "warn_once",
    "without_exit",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_logger = logging.getLogger("rag_eval_hooks")
_INNER: Final = ("rag_eval_hooks.delivery.", "rag_eval_hooks.evaluation.")
_USERS: Final = ("metric", "sink")
_CONSEQUENCES: Final = {
    "metric": "; the sample has no score of this metric",
    "sink": "; the sink lacks this result",
    "redaction": "; the sample is not evaluated",
    "submit": "; the sample is not evaluated",
    "feedback": "; the feedback is dropped",
    "choice": "; the value is found automatically instead",
}
"""Effect of a failure, by the first word of the failure's origin."""
_STDLIB: Final = sysconfig.get_path("stdlib")


class Incidents:
    def __init__(self) -> None:
        self.forked()

    def forked(self) -> None:
        """Reset the counts in a forked child. Another thread may have held the lock at the fork."""
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def report(self, origin: str, error: BaseException) -> None:
        """Count a caught exception. Log type and place of the first of its kind.

        The log omits the exception's message, which may quote a request.

        Args:
            origin: The component that raised the exception, such as `sink MyStore`.
            error: The exception.

        Raises:
            BaseException: `error` itself, if it is a `KeyboardInterrupt` or if the application's
                signal handler raised it. Celery and RQ implement time limits this way. Such an
                exception belongs to the application.
        """
        if raised_by_signal_handler(error):
            raise error
        # The first sentence of an argument error is its kind; it contains no content.
        stated = error.stated.partition(". ")[0] if is_stated(error) else None
        kind = f"{origin}: {(stated or type(error).__name__).rstrip('.')}"
        if self._is_first(kind):
            part = origin.partition(" ")[0]
            _warn(f"{_story(origin, error)}{_CONSEQUENCES.get(part, '')}")
            if part in _USERS:
                # Only at DEBUG: the traceback's message and lines may contain content.
                _logger.debug("%s raised", origin, exc_info=error)

    def count(self, kind: str, times: int = 1, *, detail: str = "") -> None:
        """Count failures without an exception in this process. Log the first of each kind.

        Args:
            kind: Component and failure in words, without texts of requests.
            times: Number of failures.
            detail: Text to append to the log line, without texts of requests.
        """
        if times and self._is_first(kind, times):
            _warn(f"{kind} ({detail})" if detail else kind)

    def mistake(self, kind: str, advice: str = "") -> None:
        """Count a wrong call by the application. Log fix and place of the first call."""
        place = place_of_caller()
        self.count(kind, detail=", ".join(filter(None, (advice, place and f"at {place}"))))

    def waits_for_itself(self, call: str, *, is_inside: bool = False) -> bool:
        """Return whether a sink or metric would wait for itself, and log the call."""
        if is_inside or self._calls_here():
            self.mistake(f"{call} inside a sink or metric waits for itself", "remove it")
            return True
        return False

    def _calls_here(self) -> bool:
        for frame, _ in traceback.walk_stack(sys._getframe(1)):
            if not str(frame.f_globals.get("__name__", "")).startswith(_INNER):
                # Reading a frame's variables keeps their values alive as long as the frame.
                continue
            caller = frame.f_locals.get("self")
            if self in (getattr(caller, key, None) for key in ("_incidents", "incidents")):
                return True
        return False

    def _is_first(self, kind: str, times: int = 1) -> bool:
        with self._lock:
            self._counts[kind] += times
            return self._counts[kind] == times

    def counts(self) -> Mapping[str, int]:
        with self._lock:
            return dict(self._counts)


def _warn(message: str) -> None:
    _logger.warning("%s; stats() counts repetitions, which are not logged", message)


@functools.cache
def warn_once(message: str) -> None:
    _logger.warning(message)


def _story(origin: str, error: BaseException) -> str:
    if isinstance(error, RedactionError) and is_ours(error):
        return f"{origin}: {error}"
    caller, theirs = place_of_caller(), place_in_application(error)
    called = f", called at {caller}" if caller else ""
    if is_stated(error):
        words = error.stated.rstrip(".")
        return f"{origin}: {words}{f', at {theirs}' if theirs else called}"
    kind, ours = f"{origin}: {named(error)}", _last_frame_of_ours(error)
    if theirs:
        return f"{kind} raised at {theirs}" + f", called by {ours}" * ("-packages" in theirs)
    return f"{kind} raised{' at ' if ours else ''}{ours}{called}"


def raised_by_signal_handler(error: BaseException) -> bool:
    codes = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
    # Python runs signal handlers only in the main thread.
    if not codes or threading.current_thread() is not threading.main_thread():
        return False
    if isinstance(error, KeyboardInterrupt):
        return True
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    return not codes.isdisjoint(handlers)


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__") and callable(handler):
        function = type(handler).__call__
    return getattr(function, "__code__", None)


def is_ours(error: BaseException) -> bool:
    """Return whether our code raised the exception. Other messages may quote a request."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return not frames or is_our_frame(frames[-1])


def is_stated(error: BaseException) -> TypeGuard[InputError]:
    return isinstance(error, InputError) and is_ours(error)


def in_words(who: str, error: BaseException) -> str:
    """Describe an exception that the application's code raised, with file and line."""
    place = place_in_application(error)
    where = f" at {place}" if place else ""
    if is_stated(error):
        return error.stated.rstrip(".") + where
    return f"{who} raised {named(error)}{where}"


def _last_frame_of_ours(error: BaseException) -> str:
    ours = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_our_frame(frame):
            module = str(frame.f_globals["__name__"])
            file = "/".join(module.split(".")) + ".py"
            ours = f"{file}:{line} in {frame.f_code.co_name}"
    return ours


def place_in_application(error: BaseException) -> str:
    """Return file and line of the application's function, or empty text."""
    file, place, outer = "", "", ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        name = frame.f_code.co_filename
        if is_our_frame(frame):
            file, place, outer = "", "", place or outer
        elif name == file or (not file and not _is_stdlib(name)):
            file, place = name, f"{name}:{line}"
    return place or outer


def place_of_caller() -> str:
    """Return file and line of the application's call, or empty text in our own threads."""
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        file = frame.f_code.co_filename
        if not (is_our_frame(frame) or _is_stdlib(file) or "-packages" in file):
            return f"{file}:{line}"
    return ""


def place_of(function: Callable[..., Any]) -> str:
    """Return a sentence with file and line of a function, or empty text if unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f" It is defined at {code.co_filename}:{code.co_firstlineno}." if code else ""


def _is_stdlib(file: str) -> bool:
    return file.startswith((_STDLIB, "<frozen")) and "-packages" not in file


def host_edge(method: F) -> F:
    """Wrap a framework's callback: count its exceptions and do not raise them.

    Args:
        method: A method of an object that has an `Incidents` in `_incidents`.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the host's edge
            trace = error.__traceback__
            if isinstance(error, TypeError) and trace is not None and trace.tb_next is None:
                # Python's own message about the call's arguments: names and numbers.
                error = InputError(str(error))
            self._incidents.report(f"capture {method.__name__}", error)
            return None

    return cast("F", guarded)


class ExitError(Exception):
    """The user's code called `sys.exit` or raised `KeyboardInterrupt`."""


async def without_exit(call: Awaitable[T]) -> T:
    """Await the user's code, and convert its attempt to end the process.

    Raises:
        ExitError: The code raised `SystemExit` or `KeyboardInterrupt`. Either would stop the event
            loop and all other evaluations.
    """
    try:
        return await call
    except (SystemExit, KeyboardInterrupt) as error:
        raise ExitError(type(error).__name__) from error
