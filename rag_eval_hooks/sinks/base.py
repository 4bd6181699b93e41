"""What a sink is, and how a user's choice of sinks is read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, runtime_checkable

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.sinks.jsonl import JsonlSink

__all__ = ["CallableSink", "Sink", "SinkSpec", "as_sink"]


@runtime_checkable
class Sink(Protocol):
    """Where outcomes go. Called once per evaluated sample, in a thread of ours, one at a time.

    What `deliver` raises is counted and kept from everything else.
    """

    def deliver(self, sample: Sample, outcomes: Outcomes) -> Awaitable[None] | None:
        """Takes over the outcomes of one sample; an awaitable is awaited in the evaluator."""
        ...

    def close(self) -> None:
        """Flushes and releases. Called once, at shutdown."""
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
