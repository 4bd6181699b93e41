"""What a sink is, and how a user's choice of sinks is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, runtime_checkable

from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes

__all__ = ["CallableSink", "FeedbackSink", "Resumable", "Sink", "SinkSpec", "as_sink"]


@runtime_checkable
class Sink(Protocol):
    """Where outcomes go. Called once per evaluated sample, in a thread of ours, one at a time.

    What `deliver` raises is counted and kept from everything else; with a spool it is called with
    the same sample again, later, until it raises nothing.
    """

    def deliver(self, sample: Sample, outcomes: Outcomes) -> Awaitable[None] | None:
        """Takes over the outcomes of one sample; an awaitable is awaited in the evaluator."""
        ...

    def close(self) -> None:
        """Flushes and releases. Called once, at shutdown."""
        ...


@runtime_checkable
class FeedbackSink(Protocol):
    """What a sink is that takes feedback too. Called as `Sink.deliver` is."""

    def feedback(self, feedback: Feedback) -> Awaitable[None] | None:
        """Takes over one feedback, which names the sample and the span that it is about."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A sink that can tell what it holds.

    With a spool, a process that dies between a delivery and the note of it leaves the result to
    be delivered again. A sink that is also this is asked first, so it gets each result once; any
    other may get that one twice, with the same ids (`result_id`, `score_id`).
    """

    @property
    def place(self) -> str:
        """What tells it from other sinks, also in the next process: kind and path."""
        ...

    def position(self) -> int:
        """Where it stands: what is delivered from now on comes after. Quick; called often."""
        ...

    def holds(self, result_id: str, since: int) -> bool:
        """Whether the whole result of this id is there, after a position of its own."""
        ...


SINKS: Final = (
    "a Sink, a callable (sample, outcomes), 'jsonl:<path>', or 'phoenix:<url>', 'mlflow:<url>', "
    "'langfuse:<url>'"
)
SinkFunction: TypeAlias = Callable[[Sample, Outcomes], Awaitable[None] | None]
SinkSpec: TypeAlias = "Sink | SinkFunction | str"


class CallableSink:
    """A sink around any callable, sync or async.

    Args:
        function: Called with the sample and its outcomes.
    """

    def __init__(self, function: SinkFunction) -> None:
        self._function = function

    def deliver(self, sample: Sample, outcomes: Outcomes) -> Awaitable[None] | None:
        """Calls the function."""
        return self._function(sample, outcomes)

    def close(self) -> None:
        """Does nothing: a function holds nothing of ours."""


def as_sink(spec: SinkSpec) -> Sink:
    """The sink that a user means.

    Args:
        spec: A sink, a callable `(sample, outcomes)`, or `jsonl:<path>`.

    Raises:
        ConfigError: It is none of these.
    """
    if isinstance(spec, str):
        kind, _, path = spec.partition(":")
        if kind == "jsonl" and path:
            return JsonlSink(path)
    elif isinstance(spec, type):
        raise ConfigError("sinks", spec, f"an object, such as {spec.__name__}()")
    elif isinstance(spec, Sink):
        return spec
    elif callable(spec):
        return CallableSink(spec)
    raise ConfigError("sinks", spec, SINKS)
