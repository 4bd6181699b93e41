"""Interfaces of sinks, failures of platforms, and adapters that call a user's sink."""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import place_of
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes


@runtime_checkable
class Sink(Protocol):
    """Receives results.

    The evaluator calls a sink once per sample, in order, on the sink's own thread. The evaluator
    counts exceptions of `deliver`, and the application never sees them.

    With a spool, the evaluator calls `deliver` again with the same evaluation until the call
    succeeds. After a crash, a sink may receive a stored result again, under the same `result_id`.
    """

    def deliver(self, evaluation: Evaluation, /) -> Awaitable[None] | None:
        """Store one evaluation. If the method returns an awaitable, the sink's thread awaits it.

        The event loop runs only during an await.
        """
        ...

    def close(self) -> None:
        """Flush and release resources. Called once, at shutdown."""
        ...


@runtime_checkable
class FeedbackSink(Protocol):
    """Receives feedback, under the same rules as a `Sink`."""

    def feedback(self, feedback: Feedback) -> Awaitable[None] | None:
        """Store one feedback, which contains the ids of its sample and RAG span."""
        ...

    def close(self) -> None:
        """Flush and release resources. Called once, at shutdown."""
        ...


SinkFunction: TypeAlias = (
    Callable[[Evaluation], Awaitable[None] | None]
    | Callable[[Sample, Outcomes], Awaitable[None] | None]
)


class SendError(Exception):
    """A failed delivery that a platform sink can classify.

    Args:
        reason: A few words for counts and logs, such as `HTTP 503`, without texts of samples.
        is_for_all: Whether the failure affects every result in the request.
    """

    def __init__(self, reason: str, *, is_for_all: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_for_all = is_for_all


class RetryLater(SendError):
    """The platform cannot accept results now. `wait` is the requested pause in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class SpanUnknown(SendError):
    """The platform does not have the span yet, because spans are exported in batches."""

    def __init__(self, answer: str = "") -> None:
        super().__init__("no such span", is_for_all=False)
        self.answer = answer


class Rejected(SendError):
    """The platform will never accept at least one of the results."""


class TooSlowError(Exception):
    """An awaited call of a sink exceeded its timeout."""


class Destination:
    """Base class through which a queue calls a sink. All calls come from one thread."""

    batch_size = 1
    is_watched = False
    """Whether a call has no timeout and may hang."""
    retries = True
    """Whether the queue retries failed results from memory if there is no spool."""
    place = ""
    """Sentence that says where the application defines the sink."""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        """The sink's name in the spool. All processes use the same name."""
        self.counts: Counter[str] = Counter()
        """Counts of results: `taken`, `sent`, `lost` and `spooled`."""

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        raise NotImplementedError

    def open(self, timeout: float) -> None:
        """Prepare for sending. Called first. `timeout` limits one request, in seconds."""

    def send(self, payloads: Sequence[Any], *, last: bool) -> Mapping[int, BaseException]:
        """Deliver a batch in order of arrival. Must be idempotent.

        With `last`, there will be no retry. Returns the exceptions of failed results by index.
        Raises if all results failed.
        """
        raise NotImplementedError

    def close(self) -> None: ...


class UserSink(Destination):
    """Calls a user's sink or function, one call at a time, with a timeout."""

    retries = False

    def __init__(self, sink: Sink | FeedbackSink | SinkFunction) -> None:
        self._sink = own = cast("Any", sink)
        is_function = not isinstance(sink, Sink | FeedbackSink)
        kind = "CallableSink" if is_function else type(sink).__name__
        # Two files are two sinks, also in the next process and in any order.
        place = str(getattr(sink, "place", kind)).encode("utf-8", "backslashreplace").decode()
        super().__init__(getattr(sink, "__name__", kind), place)
        # A data set run waits for its file without a limit.
        self.is_watched = getattr(sink, "is_watched", True)
        deliver = own if is_function else getattr(sink, "deliver", None)
        self._deliver: Any = None if deliver is None else _one_argument(deliver)
        self.place = place_of(deliver or own.feedback)
        self._close = (lambda: None) if is_function else own.close
        self._timeout = 0.0
        self._runner: asyncio.Runner | None = None

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        if isinstance(payload, Feedback):
            return isinstance(self._sink, FeedbackSink)
        return self._deliver is not None

    def open(self, timeout: float) -> None:
        self._timeout = timeout

    def send(self, payloads: Sequence[Any], *, last: bool) -> Mapping[int, BaseException]:
        (payload,) = payloads
        call = self._sink.feedback if isinstance(payload, Feedback) else self._deliver
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
        # Functions in C may have no signature.
        return call_with_two
    for count, call in ((2, call_with_two), (1, function)):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return call
    wants = "a callable that takes one argument (evaluation) or two (sample, outcomes)"
    raise ConfigError("sinks", function, wants)


async def _error_of(pending: Awaitable[object], timeout: float) -> BaseException | None:
    """Await a sink and return its exception. A loop would log the exception with its texts."""
    try:
        async with asyncio.timeout(timeout) as limit:
            await pending
    except BaseException as error:  # noqa: BLE001 - the sink's edge: even an exit ends here
        return TooSlowError() if limit.expired() else error
    return None
