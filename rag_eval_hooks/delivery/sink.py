"""Sinks of the user's own: their protocols, and how the outbox calls them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from rag_eval_hooks.delivery.destination import Destination, Queued
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, result_id

__all__ = [
    "CallableSink",
    "FeedbackSink",
    "Resumable",
    "Sink",
    "SinkFunction",
    "TwoArgumentSink",
    "UserSink",
    "sink_call",
]

_WANTS = "a callable that takes one argument (evaluation) or two (sample, outcomes)"


@runtime_checkable
class Sink(Protocol):
    """Receiver of results. Called once per evaluated sample, one at a time, in its own thread.

    An exception of `deliver` is counted and kept from everything else. With a spool, `deliver` is
    called again with the same evaluation, later, until it raises nothing.
    """

    def deliver(self, evaluation: Evaluation) -> Awaitable[None] | None:
        """Store one evaluation; an awaitable is awaited in the sink's thread.

        The event loop runs only while something is awaited. A sink may take the two arguments
        `(sample, outcomes)` instead; that is decided once, by the signature.
        """
        ...

    def close(self) -> None:
        """Flush and release. Called once, at shutdown."""
        ...


@runtime_checkable
class TwoArgumentSink(Protocol):
    """Sink that takes sample and outcomes as two arguments."""

    def deliver(self, sample: Sample, outcomes: Outcomes) -> Awaitable[None] | None:
        """Store the outcomes of one sample; an awaitable is awaited in the sink's thread."""
        ...

    def close(self) -> None:
        """Flush and release. Called once, at shutdown."""
        ...


@runtime_checkable
class FeedbackSink(Protocol):
    """Sink that receives feedback, beside evaluations or alone. Called as `Sink.deliver` is."""

    def feedback(self, feedback: Feedback) -> Awaitable[None] | None:
        """Store one feedback, which names its sample and RAG span."""
        ...

    def close(self) -> None:
        """Flush and release. Called once, at shutdown."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """Sink that can tell which results it has.

    With a spool, a process that dies between a delivery and the note of it leaves the result to
    be delivered again. A resumable sink is asked first, so it stores each result once. Any other
    sink may receive that one twice, with the same ids (`result_id`, `score_id`).
    """

    @property
    def place(self) -> str:
        """Name that distinguishes it from other sinks in every process: kind and path."""
        ...

    def position(self) -> int:
        """Return the position after which new results are stored. Quick; called often."""
        ...

    def holds(self, result_id: str, since: int) -> bool:
        """Return whether the whole result of this id is stored after a position."""
        ...


SinkFunction: TypeAlias = (
    Callable[[Evaluation], Awaitable[None] | None]
    | Callable[[Sample, Outcomes], Awaitable[None] | None]
)


def sink_call(function: Callable[..., object]) -> Callable[[Evaluation], object]:
    """Return a function of one evaluation that calls a sink's function by its signature.

    A function that can take two arguments receives `(sample, outcomes)`, any other the evaluation.

    Raises:
        ConfigError: It takes neither one argument nor two.
    """

    def call_with_two(evaluation: Evaluation) -> object:
        return function(evaluation.sample, evaluation.outcomes)

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Functions in C may have none.
        return call_with_two
    for count, call in ((2, call_with_two), (1, function)):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return call
    raise ConfigError("sinks", function, _WANTS)


class CallableSink:
    """Sink around a function, sync or async.

    Raises:
        ConfigError: The function takes neither one argument nor two.
    """

    def __init__(self, function: SinkFunction) -> None:
        self._call = sink_call(function)

    def deliver(self, evaluation: Evaluation) -> Awaitable[None] | None:
        """Call the function."""
        return self._call(evaluation)  # type: ignore[return-value]

    def close(self) -> None:
        """Do nothing: a function holds no resources of ours."""


class UserSink(Destination):
    """Calls a sink of the user's, one call at a time, within a time limit.

    Raises:
        ConfigError: Its `deliver` takes neither one argument nor two.
    """

    is_watched = True
    retries = False

    def __init__(self, sink: Sink | TwoArgumentSink | FeedbackSink, incidents: Incidents) -> None:
        name = type(sink).__name__
        super().__init__(name, name)
        self._sink = sink
        # A run over a data set waits for its file however long that takes.
        self.is_watched = getattr(sink, "is_watched", True)
        if isinstance(sink, Resumable):
            try:
                # A path may hold bytes that are not UTF-8; rows in the spool are.
                self.key = str(sink.place).encode("utf-8", "backslashreplace").decode()
            except Exception as error:  # noqa: BLE001 - the sink's edge
                incidents.report(f"sink {name}", error)
        deliver = getattr(sink, "deliver", None)
        self._deliver = None if deliver is None else sink_call(deliver)
        self._timeout = 0.0
        self._runner: asyncio.Runner | None = None

    @property
    def resumable(self) -> Resumable | None:
        """The sink, if it can tell which results it has."""
        return self._sink if isinstance(self._sink, Resumable) else None

    @property
    def takes_feedback(self) -> bool:
        """True if the sink receives feedback."""
        return isinstance(self._sink, FeedbackSink)

    def wants(self, evaluation: Evaluation) -> bool:
        """Return whether the sink takes evaluations."""
        return self._deliver is not None

    def open(self, timeout: float) -> None:
        """Set the limit of an awaitable."""
        self._timeout = timeout

    def send(self, items: Sequence[Queued], *, last: bool) -> Mapping[int, BaseException]:
        """Call the sink with the only item, unless it has it already."""
        for item in items:
            payload = item.payload
            pending: object = None
            if isinstance(payload, Feedback):
                pending = self._sink.feedback(payload)  # type: ignore[union-attr]
            elif self._deliver is not None and not self._holds(item, payload):
                pending = self._deliver(payload)
            if pending is not None and inspect.isawaitable(pending):
                self._finish(pending)
        return {}

    def close(self) -> None:
        """Close the sink and its event loop."""
        try:
            self._sink.close()
        finally:
            if self._runner is not None:
                self._runner.close()

    def _holds(self, item: Queued, evaluation: Evaluation) -> bool:
        sink = self.resumable if item.is_repeated else None
        if sink is None:
            return False
        return sink.holds(
            result_id(evaluation.sample.sample_id, evaluation.outcomes), item.since or 0
        )

    def _finish(self, pending: Awaitable[object]) -> None:
        if self._runner is None:
            self._runner = asyncio.Runner()
        error = self._runner.run(_error_of(pending, self._timeout))
        if error is not None:
            raise error


async def _error_of(pending: Awaitable[object], timeout: float) -> BaseException | None:
    """Await a sink; return its exception, which a loop would log with the content in its text."""
    try:
        async with asyncio.timeout(timeout):
            await pending
    except BaseException as error:  # noqa: BLE001 - the sink's edge: even an exit ends here
        return error
    return None
