"""`RagEval`, the evaluator that an application creates."""

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.books import Stats
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import (
    ConfigError,
    InputError,
    OnePerProcess,
    check_number,
    check_type,
    kind_of,
)
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks.sample import Sample, sample_of
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.tracing import flush_providers

if TYPE_CHECKING:
    from rag_eval_hooks.capture import ManualInteraction
    from rag_eval_hooks.config.settings import SettingKeywords
    from rag_eval_hooks.delivery.dispatch import SinkSpec
    from rag_eval_hooks.explanation import Explanation
    from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
    from rag_eval_hooks.judges.llm import Function
    from rag_eval_hooks.redaction import RedactSpec
    from rag_eval_hooks.runtime.build import MetricSpec

_LONGEST_S: Final = 3600.0
_LONGEST_EXPORT_S: Final = 30.0


def checked(evals: object) -> RagEval:
    if not isinstance(evals, RagEval):
        raise ConfigError("evals", kind_of(evals), "a RagEval object")
    return evals


class RagEval(OnePerProcess):
    """Evaluates RAG requests in the background and writes the scores on the requests' spans.

    Create one object per process and pass it to a framework's handler. By default, the heuristic
    judge evaluates every request. The default metrics are the `ragas` metrics whose inputs the
    request has. Every setting of `RagEvalConfig` is also a keyword. Keywords override environment
    variables and the settings file.

    Args:
        metrics: Suites, metric ids, `all`, `Metric` objects or functions `(sample) -> float`. To
            exclude metrics, write `-` before a suite or metric id.
        judge: A judge's name, a `Judge`, or a function that `CallableJudge` accepts.
            docs/judges.md lists all names.
        sample_rate: Fraction of requests to evaluate, 0 to 1.
        sinks: Destinations of results besides the spans: names such as `jsonl:<path>`, `Sink`
            objects, and functions that take `(evaluation)` or `(sample, outcomes)`.
        config: Settings as a `RagEvalConfig`. Keywords override these settings.
        embedder: Name that the setting `embedder` accepts, or an `Embedder`.
        token_scorer: Model for `graphrag.bert_score_f1`, such as `BertScorer()`, or None.
        run_on: `thread` evaluates in this process. `celery` or a Celery application evaluates in
            Celery workers.
        redact: Names that the setting `redact` accepts, redaction rules, and functions
            `(text) -> text`.
        tracer_provider: OpenTelemetry's tracer provider. None means the global provider.
            `meter_provider` and `logger_provider` work the same way.
        **given: Further settings. docs/configuration.md lists all settings.

    Raises:
        ConfigError: A setting is invalid. The message states the value and the accepted values.
        ImportError: The judge or embedder needs an extra that is not installed.
    """

    def __init__(
        self,
        metrics: MetricSpec | Iterable[MetricSpec] | None = None,
        judge: str | Judge | Function | None = None,
        sample_rate: float | None = None,
        sinks: Iterable[SinkSpec] | SinkSpec | None = None,
        config: RagEvalConfig | None = None,
        *,
        embedder: str | Embedder | None = None,
        token_scorer: TokenScorer | None = None,
        run_on: object = None,
        redact: RedactSpec | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        **given: Unpack[SettingKeywords],
    ) -> None:
        # Import runtime, judges and sinks late, to keep the package's import fast.
        from rag_eval_hooks.runtime.build import Models, Parts, settings_of
        from rag_eval_hooks.runtime.lifecycle import close_abandoned
        from rag_eval_hooks.runtime.pipeline import Pipeline

        rate = {} if sample_rate is None else {"sample_rate": sample_rate}
        models = Models(judge, embedder, token_scorer)
        settings = settings_of(config, models, run_on, {**given, **rate})
        providers = tracer_provider, meter_provider, logger_provider
        parts = self._parts = Parts(settings, models, metrics, sinks, run_on, redact, providers)
        self.config = parts.config
        self.incidents = self._incidents = parts.incidents
        self._pipeline = Pipeline(parts)
        self.recorder = self._pipeline.recorder
        self.instrumentors = self._pipeline.instrumentors
        # Skip the finalizer at exit, because the exit hooks close the pipeline.
        weakref.finalize(self, close_abandoned, self._pipeline).atexit = False

    def __setattr__(self, name: str, value: object) -> None:
        if name in RagEvalConfig.model_fields:
            raise InputError(f"{name} cannot change after start-up. Write: RagEval({name}=...).")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        judge = self._parts.judges[0].name
        return f"<RagEval judge={judge!r} sample_rate={self.config.sample_rate:g}>"

    def interaction(
        self,
        question: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        name: str | None = None,
        **unknown: Any,
    ) -> ManualInteraction:
        """Record a request manually, as a `with` or `async with` block.

        ```python
        with evals.interaction(question) as it:
            it.contexts(documents)
            it.answer(text)
        ```

        Framework calls inside the block become part of the request. If the block sets no
        contexts, capture finds the contexts in these calls. If the block sets no answer, capture
        finds the answer in these calls. If the block raises, the request's status is `error` or
        `cancelled`. A block inside a framework's run starts no new request. A block inside another
        block with the same question starts no new request.

        `metadata` accepts any keys. `session_id`, `user_id`, `question_id` and `reference` become
        fields of the sample. `name` is the workflow's name on the span.
        """
        from rag_eval_hooks.capture import ManualInteraction

        about: dict[str, Any] = {"metadata": metadata, "tags": tags, "name": name}
        return ManualInteraction(self.recorder, self.incidents, question, **about, keywords=unknown)

    @partial(host_edge, origin="", failed=False)
    def submit(self, sample: Sample | Mapping[str, Any] | None = None, **fields: Any) -> bool:
        """Queue a sample for background evaluation. Never blocks or raises.

        The sample is a `Sample`, a mapping that `Sample.of` accepts, or keyword fields. The scores
        go to the span or trace that the sample names. Scores of a sample without such an id go to a
        new RAG span below the current span. With a spool, an accepted sample is on disk within
        50 ms. Returns False if the sample is sampled out or dropped.
        """
        return self._pipeline.intake.submit(sample, fields)

    @partial(host_edge, origin="", failed=False)
    def feedback(
        self,
        trace_id_or_sample_id: str | uuid.UUID,
        *,
        score: float | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> bool:
        """Record feedback on an answer, from a user or the application. Never blocks or raises.

        The id is a trace id, a sample id, or the framework's root run id. In a trace with several
        answers, the latest answer gets the feedback. If the feedback matches a tail rule, the
        evaluator computes the rule's metrics. If the request had no reference before, the
        evaluator computes the sampled metrics that need a reference from `reference`. Returns
        True if the feedback is queued.

        The evaluator remembers the last 1,000 requests for one hour. Feedback on any other
        request goes to the processes that share the spool. Without a spool, this feedback goes only
        to sinks. See `Stats.feedback`.
        """
        return self._pipeline.feedback(
            trace_id_or_sample_id, score=score, label=label, reference=reference
        )

    def evaluate(
        self,
        sample: Sample | Mapping[str, Any] | None = None,
        *,
        metrics: str | Collection[str] | None = None,
        **fields: Any,
    ) -> Outcomes:
        """Evaluate a sample now, and return the outcomes by metric id.

        `evaluate` accepts the same samples as `submit`. `metrics` is one metric id, several ids, or
        None for all metrics. The call bypasses sampling, statistics and sinks. In async code, use
        `aevaluate`.

        Raises:
            InputError: The sample has a wrong type, or a field is unknown or invalid.
            ConfigError: A metric is unknown.
            RuntimeError: The evaluator was shut down.
            RedactionError: Redaction of the sample failed.
        """
        chosen, own = self._asked("evaluate", metrics, sample, fields)
        return self._pipeline.evaluate(self._pipeline.assembler.own(own), chosen)

    async def aevaluate(
        self,
        sample: Sample | Mapping[str, Any] | None = None,
        *,
        metrics: str | Collection[str] | None = None,
        **fields: Any,
    ) -> Outcomes:
        """Evaluate a sample in async code. Arguments and errors are the same as for `evaluate`."""
        chosen, own = self._asked("aevaluate", metrics, sample, fields)
        if self._pipeline.assembler.changes:
            own = await asyncio.to_thread(self._pipeline.assembler.own, own)
        return await self._pipeline.aevaluate(own, chosen)

    def _asked(
        self, method: str, metrics: str | Collection[str] | None, sample: Any, fields: Any
    ) -> tuple[frozenset[str] | None, Sample]:
        from rag_eval_hooks.judges.model_calls import call_context

        if call_context().observer is self._parts.telemetry.calls:
            told = f"{method}() inside a metric or judge would never return. Remove the call."
            raise InputError(told)
        check_type("metrics", metrics, str | Collection, "ids of metrics, or one id")
        asked = frozenset([metrics] if isinstance(metrics, str) else metrics or ())
        for name in asked.difference(known := self._parts.scorer.metric_ids):
            raise ConfigError.unknown("metric", str(name), known)
        return None if metrics is None else asked, sample_of(method, sample, fields)

    def stats(self) -> Stats:
        """Return a snapshot of the request statistics."""
        return self._pipeline.stats()

    def spooled(self) -> Mapping[str, int]:
        """Return the numbers of samples in the spool, from all processes.

        `pending` counts samples without an evaluation. `undelivered` counts samples whose scores a
        sink has not accepted yet. The mapping is empty without a spool, or if the spool is
        unreadable.
        """
        return self._pipeline.spooled()

    @partial(host_edge, origin="", failed=())
    def explain(self, trace_id_or_sample_id: str | uuid.UUID) -> tuple[Explanation, ...]:
        """Explain the outcomes of the last eight requests with this id.

        The id is a trace id, a sample id, or the framework's root run id. `str(explanation)` is one
        line. The evaluator remembers the last 10,000 requests with retrieved text, and the last
        10,000 requests without retrieved text.
        """
        return self._pipeline.explain(trace_id_or_sample_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all accepted requests are evaluated and all sinks have the results.

        The call does not wait for results that stay in the spool. Finally, the call flushes the
        providers of `setup_tracing`. A `timeout` of None means one hour. In async code, call
        `flush` in a thread. Returns False on timeout.
        """
        from rag_eval_hooks.runtime.lifecycle import flush

        return self._finish("flush()", flush, timeout, least=0.0)

    def shutdown(self, timeout: float | None = 5.0) -> bool:
        """Finish pending samples within `timeout` seconds, then close. An exit hook does the same.

        Unfinished samples stay in the spool. Without a spool, the evaluator drops these samples
        with the reason `shutdown`. Finally, the call flushes the providers of `setup_tracing`.
        Returns False if a sample is unfinished.
        """
        from rag_eval_hooks.runtime.lifecycle import shutdown

        return self._finish("shutdown()", shutdown, timeout, least=1.0)

    def _finish(
        self, call: str, wait: Callable[..., bool], timeout: float | None, *, least: float
    ) -> bool:
        check_number("timeout", timeout, "a number of seconds")
        if self.incidents.waits_for_itself(call):
            return False
        timeout = _LONGEST_S if timeout is None else timeout
        began = time.monotonic()
        finished = wait(self._pipeline, timeout)
        left = began + timeout - time.monotonic()
        flush_providers(min(_LONGEST_EXPORT_S, max(least, left)))
        return finished

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
