"""A dispatcher that passes results and feedback to all sinks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.codec import evaluation_to_text
from rag_eval_hooks.delivery.console import ConsoleSink
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.delivery.outbox import Outbox
from rag_eval_hooks.delivery.outbox_file import Job
from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.delivery.sink import Sink, SinkFunction, UserSink
from rag_eval_hooks.delivery.sink_queue import SinkQueue
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.providers import SINK_KEYS, SINKS
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.tracing import flush_providers

AnySink: TypeAlias = Sink | PlatformSink | SinkFunction
SinkSpec: TypeAlias = AnySink | str

_CLOSE_TIMEOUT: Final = 1.5  # seconds, shared by all sinks
_CHARS: Final = 500  # estimated characters of a feedback, or of an outcome without explanation


class Dispatch:
    # Thread-safe. Only `flush` and `close` block.

    def __init__(
        self,
        sinks: Sequence[AnySink],
        config: RagEvalConfig,
        incidents: Incidents,
        outbox: Outbox,
        *,
        revive: Callable[[str], Evaluation],
        mark: str = "",
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._incidents = incidents
        self._outbox = outbox
        self._revive = revive
        self._mark = mark
        self._tracer_provider = tracer_provider
        self._queues: dict[str, SinkQueue] = {}
        names: Counter[str] = Counter()
        for sink in sinks:
            one = sink if isinstance(sink, PlatformSink) else UserSink(sink)
            if isinstance(one, PlatformSink):
                one.content = config.capture_content
            names[one.key] += 1
            if names[one.key] > 1:
                one.key = f"{one.key}#{names[one.key]}"
            self._queues[one.key] = SinkQueue(one, incidents, outbox)
        for key, queue in self._queues.items():
            outbox.consume(key, queue.capacity, self._recovered)

    def sinks_of(self, evaluation: Evaluation) -> list[str]:
        return [key for key, one in self._queues.items() if one.sink.accepts(evaluation)]

    def encoder(self, evaluation: Evaluation) -> Callable[[], str]:
        return partial(evaluation_to_text, evaluation, self._mark)

    def put(self, evaluation: Evaluation, sinks: Collection[str], job: Job | None) -> None:
        self._queue(evaluation, sinks, job)
        # The sinks that did not accept the evaluation never receive its scores.
        for key in self._queues.keys() - sinks if evaluation.scores else ():
            kind = f"sink {self._queues[key].sink.name}: results are not sent (no recorded span)"
            self._incidents.count(kind, detail="the platform accepts scores of recorded spans only")

    def _queue(self, evaluation: Evaluation, sinks: Collection[str], job: Job | None) -> None:
        if not sinks:
            return
        chars = evaluation.sample.chars
        for outcome in evaluation.outcomes.values():
            chars += _CHARS + len(str(outcome.explanation))
        for key in sinks:
            self._queues[key].put(evaluation, chars, job)

    def put_feedback(self, feedback: Feedback) -> None:
        chars = _CHARS + len(feedback.reference or "") + len(feedback.label or "")
        for queue in self._queues.values():
            if queue.sink.accepts(feedback):
                queue.put(feedback, chars)

    def _recovered(self, job: Job) -> bool:
        for key in tuple(job.consumers):
            if key not in self._queues or self._queues[key].capacity() == 0:
                self._outbox.leave(job, key)
        try:
            evaluation = self._revive(job.encode())
        except Exception as error:  # noqa: BLE001 - another program may have changed the file
            self._incidents.report("spool", error)
            for key in tuple(job.consumers):
                self._outbox.end(job, key)
        else:
            # Keep only the result in memory, not its text.
            job.encode = job.stored = self.encoder(evaluation)
            # Another process has already counted the sample.
            job.is_undurable = True
            self._queue(evaluation, self._queues.keys() & (job.consumers - job.left), job)
        return True

    def check(self) -> None:
        for queue in self._queues.values():
            queue.check()

    def flush(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        # Export spans first, because some platforms reject a score without its span.
        if any(isinstance(queue.sink, PlatformSink) for queue in self._queues.values()):
            provider = self._tracer_provider or trace.get_tracer_provider()
            if timeout and not flush_providers(timeout, [provider]):
                self._incidents.report("span flush", TimeoutError())
        # Flush every sink, even if an earlier sink used up the timeout.
        flushed = [
            queue.flush(max(0.0, deadline - time.monotonic())) for queue in self._queues.values()
        ]
        return all(flushed)

    def close(self) -> None:
        for queue in self._queues.values():
            queue.begin_close(_CLOSE_TIMEOUT)
        for queue in self._queues.values():
            queue.end_close()


def sink_list(sinks: Iterable[SinkSpec] | SinkSpec | None, config: RagEvalConfig) -> list[AnySink]:
    for name in config.sink_keys.keys() - SINK_KEYS.keys():
        wants = ", ".join(f"{name}={form}" for name, form in SINK_KEYS.items())
        raise ConfigError("sink_keys", name, wants)
    if sinks is None:
        sinks = config.sinks
    if isinstance(sinks, str | Sink) or callable(sinks) or not isinstance(sinks, Iterable):
        sinks = [sinks]
    return [_sink(spec, config) for spec in sinks]


def _sink(spec: SinkSpec, config: RagEvalConfig) -> AnySink:
    if isinstance(spec, str):
        return _named(*SINKS.parts(spec), config)
    if isinstance(spec, type):
        raise ConfigError("sinks", spec, f"an object, not a class. Write: {spec.__name__}()")
    if isinstance(spec, Sink | PlatformSink) or callable(spec):
        return spec
    lacks = " and ".join(f"{name}()" for name in ("deliver", "close") if not hasattr(spec, name))
    wants = f"a function that takes (evaluation) or (sample, outcomes), {SINKS.wanted}, or a Sink"
    raise ConfigError("sinks", spec, f"{wants}. {type(spec).__name__} has no {lacks}")


def _named(name: str, address: str, config: RagEvalConfig) -> AnySink:
    given = config.sink_keys.get(name)
    key = None if given is None else given.get_secret_value()
    makers: dict[str, Callable[[], AnySink]] = {
        "console": ConsoleSink,
        "jsonl": lambda: JsonlSink(address),
        "phoenix": lambda: PhoenixSink(address, api_key=key),
        "mlflow": lambda: MlflowSink(address, token=key),
    }
    if name in makers:
        return makers[name]()
    public, _, secret = (key or "").partition(":")
    if not (public and secret):
        wants = f"langfuse={SINK_KEYS[name]} for the Langfuse sink"
        raise ConfigError("sink_keys", key and "**********", wants)
    return LangfuseSink(address, public_key=public, secret_key=secret)
