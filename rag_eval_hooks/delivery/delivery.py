"""Hands results and feedback to all sinks; one that fails or hangs affects no other."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.config import limits as bounds
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.destination import Destination, Limits, Store
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.platforms.platform import PlatformSink
from rag_eval_hooks.delivery.sink import (
    CallableSink,
    FeedbackSink,
    Sink,
    SinkFunction,
    TwoArgumentSink,
    UserSink,
)
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from rag_eval_hooks.sink_providers import SINKS, keys_wanted, sink_named, sinks_wanted

__all__ = ["AnySink", "Delivery", "SinkSpec", "sink_list"]

AnySink: TypeAlias = Sink | TwoArgumentSink | FeedbackSink | PlatformSink
SinkSpec: TypeAlias = AnySink | SinkFunction | str

_CLOSE_TIMEOUT: Final = 1.5
"""Seconds in which all sinks together send what is left, and close."""
_FLUSH_TIMEOUT: Final = 30.0
"""Seconds for the export of spans, where a flush has no limit of its own."""
_OUTCOME_CHARS: Final = 500
_FEEDBACK_CHARS: Final = 500
"""Estimated memory of an outcome without its explanation, and of a feedback."""


class Delivery:
    """Outboxes of all sinks. Thread-safe; no method but `flush` and `close` waits."""

    def __init__(
        self,
        sinks: Sequence[AnySink],
        config: RagEvalConfig,
        incidents: Incidents,
        store: Store | None = None,
        *,
        tracer_provider: TracerProvider | None = None,
        limits: Limits | None = None,
    ) -> None:
        limits = limits or Limits(
            timeout=bounds.SINK_SECONDS,
            retry_for=bounds.SINK_RETRY_SECONDS,
            keep_for=bounds.SINK_KEEP_SECONDS,
            queue_chars=bounds.SINK_QUEUE_CHARS,
        )
        self._incidents = incidents
        self._tracer_provider = tracer_provider
        self._outboxes = {
            sink.key: Outbox(sink, limits, incidents, store)
            for sink in _destinations(sinks, config, incidents)
        }

    def lacking(self, evaluation: Evaluation) -> dict[str, int | None]:
        """Return the sinks that an evaluation is for, by their name in the spool.

        The value is the position of a resumable sink before the delivery, None for any other.
        """
        sinks = (box.sink for box in self._outboxes.values() if box.sink.wants(evaluation))
        return {sink.key: self._position(sink) for sink in sinks}

    def put(
        self,
        evaluation: Evaluation,
        sinks: Mapping[str, int | None],
        *,
        entry: object | None = None,
        is_repeated: bool = False,
        accepted_at: float | None = None,
    ) -> None:
        """Hand an evaluation to sinks.

        Args:
            evaluation: Result of a sample.
            sinks: Names of the sinks that lack it, with positions, as `lacking` returns them.
            entry: Row of the result in the spool, if it is on disk.
            is_repeated: Whether another process may have delivered it already.
            accepted_at: Time of the sample's acceptance in seconds since the epoch; now if None.
        """
        chars = _chars_of(evaluation)
        age = 0.0 if accepted_at is None else time.time() - accepted_at
        for name, since in sinks.items():
            if name in self._outboxes:
                self._outboxes[name].put(
                    evaluation, chars, entry=entry, since=since, is_repeated=is_repeated, age=age
                )

    def put_feedback(self, feedback: Feedback) -> None:
        """Hand a feedback to all sinks that take feedback."""
        chars = _FEEDBACK_CHARS + len(feedback.reference or "") + len(feedback.label or "")
        for outbox in self._outboxes.values():
            if isinstance(outbox.sink, UserSink) and outbox.sink.takes_feedback:
                outbox.put(feedback, chars)

    def knows(self, name: str) -> bool:
        """Return whether there is a sink of that name in the spool."""
        return name in self._outboxes

    def capacity(self, name: str) -> int:
        """Return how many results of the spool a sink can take over; 0 for an unknown name."""
        outbox = self._outboxes.get(name)
        return 0 if outbox is None else outbox.capacity()

    def check(self) -> None:
        """Count calls that hang. To be called a few times a second."""
        for outbox in self._outboxes.values():
            outbox.check()

    def flush(self, timeout: float | None) -> bool:
        """Wait until everything handed over so far is sent, lost, or safe in the spool.

        Args:
            timeout: Seconds, or None without limit. Platforms accept scores for spans that they
                have, so spans are exported first.

        Returns:
            Whether it is.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if any(isinstance(box.sink, PlatformSink) for box in self._outboxes.values()):
            self._export_spans(_left(deadline))
        # Each has its turn, even after one that needed all the time.
        flushed = [outbox.flush(_left(deadline)) for outbox in self._outboxes.values()]
        return all(flushed)

    def close(self) -> None:
        """Try what waits once more, for a moment, and close all sinks.

        What is not delivered is left in the spool, or lost and counted.
        """
        for outbox in self._outboxes.values():
            outbox.begin_close(_CLOSE_TIMEOUT)
        for outbox in self._outboxes.values():
            outbox.end_close()

    def _position(self, sink: Destination) -> int | None:
        resumable = sink.resumable if isinstance(sink, UserSink) else None
        if resumable is None:
            return None
        try:
            return int(resumable.position())
        except Exception as error:  # noqa: BLE001 - the sink's edge
            self._incidents.report(f"sink {sink.name}", error)
            return None

    def _export_spans(self, timeout: float | None) -> None:
        """Export the spans that have ended; an exporter may take longer than its time limit."""
        provider = self._tracer_provider or trace.get_tracer_provider()
        # Only an SDK's provider holds spans back.
        force_flush = getattr(provider, "force_flush", None)
        if force_flush is None or timeout == 0:
            return
        seconds = _FLUSH_TIMEOUT if timeout is None else timeout

        def export() -> None:
            try:
                force_flush(int(seconds * 1000))
            except Exception as error:  # noqa: BLE001 - the host's edge: its provider, exporters
                self._incidents.report("span flush", error)

        exporting = threading.Thread(target=export, name="rag-eval-hooks-flush", daemon=True)
        try:
            exporting.start()
        except RuntimeError as error:
            # The interpreter is ending.
            self._incidents.report("span flush", error)
            return
        exporting.join(timeout)
        if exporting.is_alive():
            self._incidents.report("span flush", TimeoutError())


def sink_list(sinks: Iterable[SinkSpec] | SinkSpec | None, config: RagEvalConfig) -> list[AnySink]:
    """Return the sinks of one evaluator.

    Raises:
        ConfigError: A sink or key is none that can be used.
        ImportError: The extra of a platform is not installed.
    """
    for name in config.sink_keys:
        if name not in SINKS or SINKS[name].key is None:
            raise ConfigError("sink_keys", name, keys_wanted())
    if sinks is None:
        sinks = config.sinks
    if isinstance(sinks, str | Sink) or callable(sinks) or not isinstance(sinks, Iterable):
        sinks = [sinks]
    made = [_sink(spec, config) for spec in sinks]
    for sink in made:
        if isinstance(sink, PlatformSink):
            sink.claim()
    return made


def _sink(spec: SinkSpec, config: RagEvalConfig) -> AnySink:
    if isinstance(spec, str):
        key = config.sink_keys.get(spec.partition(":")[0])
        sink: AnySink = sink_named(spec, None if key is None else key.get_secret_value())
        return sink
    if isinstance(spec, type):
        raise ConfigError("sinks", spec, f"an object, such as {spec.__name__}()")
    if isinstance(spec, Sink | FeedbackSink | PlatformSink):
        return spec
    if callable(spec):
        return CallableSink(spec)
    wants = f"a Sink, a callable (evaluation) or (sample, outcomes), {sinks_wanted()}"
    raise ConfigError("sinks", spec, wants)


def _destinations(
    sinks: Sequence[AnySink], config: RagEvalConfig, incidents: Incidents
) -> list[Destination]:
    """Return what the outboxes deliver to; names in the spool are unique."""
    made: list[Destination] = []
    names: Counter[str] = Counter()
    for sink in sinks:
        if isinstance(sink, PlatformSink):
            sink.configure(content=config.capture_content, max_chars=bounds.EXPLANATION_CHARS)
            one: Destination = sink
        else:
            one = UserSink(sink, incidents)
        names[one.key] += 1
        if names[one.key] > 1:
            one.key = f"{one.key}#{names[one.key]}"
        made.append(one)
    return made


def _chars_of(evaluation: Evaluation) -> int:
    """Return the characters that an evaluation keeps in memory, roughly."""
    outcomes = evaluation.outcomes.values()
    explained = sum(len(str(one.explanation)) for one in outcomes if isinstance(one, Score))
    return evaluation.sample.chars + _OUTCOME_CHARS * len(outcomes) + explained


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
