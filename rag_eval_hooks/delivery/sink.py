"""Interfaces of sinks, and the adapter for sinks of the application."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes

_FIRST_PAUSE: Final = 0.5  # seconds
_LONGEST_PAUSE: Final = 15.0  # seconds
_MOST_DOUBLINGS: Final = 10


@runtime_checkable
class Sink(Protocol):
    """An object that receives results, and optionally feedback.

    The evaluator calls `deliver` with each result, on the sink's own thread. If a call raises, the
    evaluator counts the exception. The application never sees this exception.

    If a spool is set, the evaluator repeats a failed call for up to one day. After a crash, the
    evaluator may deliver a result again, with the same `result_id`.

    If the sink has a method `feedback(feedback: Feedback)`, the evaluator calls this method for all
    feedback. If such a call fails, the evaluator does not repeat the call.
    """

    def deliver(self, evaluation: Evaluation, /) -> Awaitable[None] | None:
        """Store or send one evaluation. If `deliver` returns an awaitable, the evaluator awaits it.

        The sink's event loop runs only while the evaluator calls the sink. A task that `deliver`
        starts therefore pauses between calls.
        """

    def close(self) -> None:
        """Flush and release resources. The evaluator calls this method once, at shutdown."""


SinkFunction: TypeAlias = (
    Callable[[Evaluation], Awaitable[None] | None]
    | Callable[[Sample, Outcomes], Awaitable[None] | None]
)


class SendError(Exception):
    """A call of a sink failed. Logs show `reason`, so `reason` must not quote samples."""

    is_outage = False

    def __init__(self, reason: str, *, is_for_all: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        # Whether the failure affects every result in the batch.
        self.is_for_all = is_for_all


class RetryLater(SendError):
    """A later call may succeed. `wait` is the delay in seconds that the platform requests."""

    is_outage = True

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class SpanUnknown(SendError):
    def __init__(self, answer: str = "") -> None:
        super().__init__("span not found", is_for_all=False)
        self.answer = answer


class Rejected(SendError):
    """The platform rejects the results. A retry would fail, too."""


class TooSlowError(Exception):
    pass


def pause_after(failures: int) -> float:
    longest = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)


class Destination:
    """The same thread calls `open`, `send` and `close`. Any thread may call `accepts`."""

    batch_size = 1
    retries = True  # whether each call has a timeout and can be repeated
    place = ""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        raise NotImplementedError

    def open(self, timeout: float) -> None:
        """Prepare to send. `timeout` is the time limit of each request, in seconds."""

    def send(self, payloads: Sequence[Any], *, last: bool) -> Mapping[int, BaseException]:
        """Send the payloads. Return the exceptions of failed payloads, by index."""
        # The payloads may be repeated, so sending must be idempotent.
        raise NotImplementedError

    def close(self) -> None: ...


class UserSink(Destination):
    retries = False

    def __init__(self, sink: Sink | SinkFunction) -> None:
        own, is_function = cast("Any", sink), not isinstance(sink, Sink)
        kind = "CallableSink" if is_function else type(sink).__name__
        # The next process must compute the same key, even if the application reorders the sinks.
        place = str(getattr(sink, "place", "") or kind).encode("utf-8", "backslashreplace").decode()
        # The spool separates keys by line breaks.
        super().__init__(getattr(sink, "__name__", kind), place.replace("\n", " "))
        deliver = own if is_function else own.deliver
        self.place = place_of(deliver)
        self._deliver = _one_argument(deliver)
        self._feedback: Any = None if is_function else getattr(sink, "feedback", None)
        self._close = (lambda: None) if is_function else own.close
        self._timeout = 0.0
        self._runner: asyncio.Runner | None = None

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        return self._feedback is not None or isinstance(payload, Evaluation)

    def open(self, timeout: float) -> None:
        self._timeout = timeout

    def send(self, payloads: Sequence[Any], *, last: bool) -> Mapping[int, BaseException]:
        (payload,) = payloads
        call = self._feedback if isinstance(payload, Feedback) else self._deliver
        pending = call(payload)
        if inspect.isawaitable(pending):
            self._runner = self._runner or asyncio.Runner()
            if (error := self._runner.run(_error_of(pending, self._timeout))) is not None:
                raise error
        return {}

    def close(self) -> None:
        try:
            self._close()
        finally:
            if self._runner is not None:
                self._runner.close()


def _one_argument(function: Callable[..., Any]) -> Callable[[Evaluation], Any]:
    def call_with_two(evaluation: Evaluation) -> Any:
        return function(evaluation.sample, evaluation.outcomes)

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # A function in C may have no signature.
        return call_with_two
    for count, call in ((2, call_with_two), (1, function)):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return call
    wants = "a function that takes (evaluation) or (sample, outcomes)"
    raise ConfigError("sinks", function, wants)


async def _error_of(pending: Awaitable[object], timeout: float) -> BaseException | None:
    try:
        async with asyncio.timeout(timeout) as limit:
            await pending
    except BaseException as error:  # noqa: BLE001 - a sink may even call `sys.exit`
        # Return the error, because the event loop would log a raised exception.
        return TooSlowError() if limit.expired() else error
    return None
