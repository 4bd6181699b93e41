"""`RagEval`, the evaluator that an application creates."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.books import Stats
from rag_eval_hooks.config.settings import RagEvalConfig, refuse_change
from rag_eval_hooks.errors import (
    ConfigError,
    InputError,
    Misplaced,
    OnePerProcess,
    PublicNames,
    check_names,
    check_number,
    check_type,
    kind_of,
    usage,
)
from rag_eval_hooks.explanation_text import html_table
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.call_context import call_context
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.tracing import flush_providers
from rag_eval_hooks.threads import CLOCK_NAME

if TYPE_CHECKING:
    from rag_eval_hooks.capture import CaptureKeywords, ManualInteraction
    from rag_eval_hooks.config.settings import SettingKeywords
    from rag_eval_hooks.delivery import SinkSpec
    from rag_eval_hooks.explanation import Explanation
    from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
    from rag_eval_hooks.judges.callable_judge import Function
    from rag_eval_hooks.redaction import RedactSpec
    from rag_eval_hooks.request import Request
    from rag_eval_hooks.runtime.build import MetricSpec

__all__ = ["RagEval", "checked"]

_LONGEST_S: Final = 3600.0
"""Maximum seconds of a shutdown without a limit."""
_MANY: Final = 5
"""Number of live evaluators that suggests one evaluator per request."""
_EXPORT_S: Final = 30.0
"""Seconds that `flush` without a timeout gives the exporters of `setup_tracing`."""


def checked(evals: object) -> RagEval:
    """Check that the argument is a `RagEval` and return it.

    Raises:
        ConfigError: The value is not a `RagEval`, for example the class or a config object.
    """
    if not isinstance(evals, RagEval):
        raise ConfigError("evals", kind_of(evals), "a RagEval object")
    return evals


class RagEval(OnePerProcess, PublicNames):
    """Evaluates RAG requests in the background and writes the scores on their spans.

    Create one object per process and pass it to a framework's handler. By default, the heuristic
    judge evaluates every request with all `ragas` metrics whose inputs exist. Every setting of
    `RagEvalConfig` is also a keyword. A keyword overrides the environment variable and the settings
    file.

    Args:
        metrics: Suites, metric ids, `all`, `Metric` objects or functions `(sample) -> float`. `-`
            before a name removes its metrics.
        judge: A judge's name, a `Judge`, or a function for `CallableJudge`. Names include
            `heuristic`, `openai:<model>` and `systemone:<model or url>`; docs/judges.md lists all.
        sample_rate: Fraction of requests to evaluate, 0 to 1.
        sinks: Additional destinations of evaluations. A destination is a `Sink`, a callable,
            `jsonl:<path>`, `phoenix:<url>`, `mlflow:<url>` or `langfuse:<url>`. A callable takes
            `(evaluation)` or `(sample, outcomes)`.
        config: Further settings. Keywords override these settings.
        embedder: Name from the setting `embedder`, or an `Embedder`.
        token_scorer: Name from the setting `token_scorer`, or a `TokenScorer`.
        run_on: `thread`, `celery`, or a Celery application.
        redact: Names from the setting `redact`, redaction rules, and functions `(text) -> text` or
            `(field, text) -> text`.
        tracer_provider: Provider of spans. None means the global provider, here and for the next
            two arguments.
        meter_provider: Provider of OpenTelemetry metrics.
        logger_provider: Provider of log events.
        **given: Further settings; see docs/configuration.md.

    Attributes:
        config: The effective settings.
        recorder: Records framework runs. For integrations.
        others: Registry of other instrumentors' spans. For `RagEvalSpanProcessor`.
        instrumentors: Registry of other instrumentors. For integrations.

    Raises:
        ConfigError: A setting is invalid. The message names the setting, its value and the accepted
            values.
        ImportError: The judge or embedder needs an extra that is not installed.
    """

    _internal = frozenset({"check_limit", "incidents", "known_metrics", "take"})

    # LangChain reads the first attributes of a callback, LlamaIndex the others.
    raise_error = run_inline = ignore_chain = ignore_llm = ignore_retriever = Misplaced(
        "is not a callback handler. Write: callbacks=[RagEvalCallbackHandler(evals)]"
    )
    start_trace = event_starts_to_ignore = Misplaced(
        "is not a callback handler. Write: rag_eval_hooks_llama_index.enable(evals)"
    )

    def __init__(
        self,
        metrics: MetricSpec | Iterable[MetricSpec] | None = None,
        judge: str | Judge | Function | None = None,
        sample_rate: float | None = None,
        sinks: Iterable[SinkSpec] | SinkSpec | None = None,
        config: RagEvalConfig | None = None,
        *,
        embedder: str | Embedder | None = None,
        token_scorer: str | TokenScorer | None = None,
        run_on: object = None,
        redact: RedactSpec | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        **given: Unpack[SettingKeywords],
    ) -> None:
        # Runtime, judges and sinks load with the first object, not with the package.
        from rag_eval_hooks.runtime.build import Models, parts_of, settings_of
        from rag_eval_hooks.runtime.lifecycle import close_abandoned
        from rag_eval_hooks.runtime.pipeline import Pipeline

        settings: dict[str, Any] = {**given}
        if sample_rate is not None:
            settings["sample_rate"] = sample_rate
        models = Models(judge, embedder, token_scorer)
        self._parts = parts_of(
            settings_of(config, models, run_on, settings),
            models,
            metrics=metrics,
            sinks=sinks,
            run_on=run_on,
            redact=redact,
            tracer=tracer_provider,
            meter=meter_provider,
            logger=logger_provider,
        )
        self.config = self._parts.config
        others = sum(one.name == CLOCK_NAME for one in threading.enumerate())
        if others % _MANY == _MANY - 1:
            advice = "create one per process, not one per request"
            self.incidents.mistake(f"{others + 1} RagEval objects are open", advice)
        self._pipeline = Pipeline(self._parts)
        self.recorder = self._pipeline.recorder
        self.others = self._pipeline.others
        self.instrumentors = self._pipeline.instrumentors
        # The exit hooks close other objects.
        weakref.finalize(self, close_abandoned, self._pipeline).atexit = False

    def __setattr__(self, name: str, value: object) -> None:
        refuse_change(name)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        judge = self._parts.judges[0].name
        return f"<RagEval judge={judge!r} sample_rate={self.config.sample_rate:g}>"

    def _repr_html_(self) -> str:
        metrics = ", ".join(sorted(self._parts.scorer.metric_ids))
        return html_table([(repr(self), metrics)]) + self.stats()._repr_html_()

    @property
    def incidents(self) -> Incidents:
        """Counter of caught exceptions. For integrations."""
        return self._parts.incidents

    @usage("with evals.interaction(question) as it: it.contexts(documents); it.answer(text)")
    def interaction(
        self,
        question: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        name: str | None = None,
        **options: Unpack[CaptureKeywords],
    ) -> ManualInteraction:
        """Record a request manually, as a `with` or `async with` block.

        Use this for code without a framework, or if your code calls the retriever and the model
        separately. Framework calls that use our handler in the block become part of the request.

        ```python
        with evals.interaction(question) as it:
            it.contexts(documents)
            it.answer(text)
        ```

        If the block does not call `contexts`, the captured retrievals supply the contexts. If the
        block does not call `answer`, the last model reply is the answer. The block re-raises every
        exception. An exception sets the status `error`, a cancelled task `cancelled`, and a closed
        generator `closed`.

        A block with the same question inside another block opens no new request. Neither does a
        block inside a framework's run. So one user question stays one request.

        Args:
            question: The user's question.
            metadata: `session_id`, `user_id`, `question_id`, `reference`, and any other keys.
            tags: Labels of the request.
            name: Name of the workflow, shown on the span.
            **options: `contexts`, `answer`, `root`, `retrieval_tools`, `document_keys` and
                `as_context`. They override the handler's options for calls in the block.
        """
        from rag_eval_hooks.capture import ManualInteraction

        return ManualInteraction(
            self.recorder,
            self.incidents,
            question,
            metadata=metadata,
            tags=tags,
            name=name,
            options=options,
        )

    @usage("evals.submit(question=..., contexts=[...], answer=...)", raises=False)
    def submit(self, sample: Sample | Mapping[str, Any] | None = None, **fields: Any) -> bool:
        """Queue a sample for background evaluation. Never blocks or raises.

        The scores go on a new RAG span below the current span. If the sample has a `trace_id` or
        `span_id`, the scores go to that trace or span.

        An unreadable sample is dropped as `capture_failed`. With a spool, an accepted sample is on
        disk within 50 ms.

        Args:
            sample: The sample, or a mapping that `Sample.of` accepts.
            **fields: Fields of a sample. Use instead of `sample`.

        Returns:
            Whether the sample will be evaluated. False if it was sampled out or dropped.
        """
        return self._pipeline.submit_sample(lambda: self._noted("submit", sample, fields))

    def _noted(self, *given: Any) -> Sample:
        """Return the sample. Warn if a field that a metric needs is missing or misspelled.

        Inline evaluation reports such fields in the outcomes.
        """
        sample = _sample_of(*given)
        if not sample.question.strip():
            self.incidents.mistake("submit: the question is blank", "pass the user's question")
        for name, told in self._parts.scorer.gaps(sample).items():
            fix = "pass answer=<its text>"
            if name == "contexts":
                fix = "pass contexts=[...], or [] if retrieval found nothing"
            self.incidents.mistake(f"submit: the sample has no {told}", fix)
        return sample

    @usage("evals.feedback(trace_id, score=1, label='thumbs_up', reference='...')", raises=False)
    def feedback(
        self,
        trace_id_or_sample_id: str | uuid.UUID,
        *,
        score: float | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> bool:
        """Record feedback on an answer, from a user or the application. Never blocks or raises.

        Sinks that accept feedback receive it, and the answer's trace shows it. Feedback may start
        an evaluation through a tail rule. A reference starts the metrics that need a reference.

        Args:
            trace_id_or_sample_id: 32 hex digits of the trace id, the sample's id, or the
                framework's root run id. If a trace has several answers, the feedback goes to the
                latest.
            score: A number, such as 0 for thumbs down and 1 for thumbs up.
            label: A word, such as `thumbs_down`.
            reference: The correct answer.

        Returns:
            Whether the feedback is queued. False if it is empty, has a wrong type or a blank id, or
            if the queue is full. `stats().feedback` counts the results. `joined` means that this
            process knows the request. A process remembers a request for an hour or until 1,000
            newer requests. Feedback on other requests counts as `passed_on` with a spool, which
            other processes read, and as `alone` without a spool.
        """
        return self._pipeline.feedback(
            trace_id_or_sample_id, score=score, label=label, reference=reference
        )

    @usage("evals.evaluate(question=..., contexts=[...], answer=...)")
    def evaluate(
        self,
        sample: Sample | Mapping[str, Any] | None = None,
        *,
        metrics: str | Collection[str] | None = None,
        **fields: Any,
    ) -> Outcomes:
        """Evaluate a sample now. The scores equal those of background evaluation.

        The call ignores sampling, `stats` and sinks. It blocks; use `aevaluate` in async code.

        Args:
            sample: The sample, or a mapping that `Sample.of` accepts.
            metrics: Metric ids, one id, or None for all metrics.
            **fields: Fields of a sample. Use instead of `sample`.

        Raises:
            InputError: The sample has a wrong type, or a field is unknown or invalid.
            ConfigError: A metric is unknown.
            RuntimeError: The evaluator was shut down.
            RedactionError: Redaction of the sample failed.
        """
        self._note_block("evaluate()", "evals.aevaluate(...)")
        self._refuse_recursion("evaluate()")
        chosen = self.known_metrics(metrics)
        own = self._pipeline.assembler.own(_sample_of("evaluate", sample, fields))
        return self._pipeline.evaluate(own, chosen)

    async def aevaluate(
        self,
        sample: Sample | Mapping[str, Any] | None = None,
        *,
        metrics: str | Collection[str] | None = None,
        **fields: Any,
    ) -> Outcomes:
        """Evaluate a sample in async code, with the arguments and errors of `evaluate`."""
        self._refuse_recursion("aevaluate()")
        chosen, own = self.known_metrics(metrics), _sample_of("aevaluate", sample, fields)
        if self._pipeline.assembler.redacts:
            own = await asyncio.to_thread(self._pipeline.assembler.own, own)
        return await self._pipeline.aevaluate(own, chosen)

    @property
    def _is_evaluating(self) -> bool:
        return call_context().observer is self._parts.telemetry.calls

    def _refuse_recursion(self, call: str) -> None:
        if self._is_evaluating:
            raise InputError(f"{call} inside a metric or judge evaluates without end. Remove it.")

    def known_metrics(self, metrics: str | Collection[str] | None) -> frozenset[str] | None:
        """Return metric ids as a set. Accepts one id, several ids or None.

        Raises:
            InputError: The argument has another type.
            ConfigError: A metric is unknown.
        """
        if metrics is None:
            return None
        check_type("metrics", metrics, str | Collection, "ids of metrics, or one id")
        for one in metrics:
            check_type("metrics", one, str, "ids of metrics, or one id")
        known = self._parts.scorer.metric_ids
        chosen = frozenset([metrics] if isinstance(metrics, str) else metrics)
        for name in sorted(chosen.difference(known)):
            raise ConfigError.unknown("metric", name, known)
        return chosen

    def check_limit(self, setting: str, metric_id: str, limit: float) -> None:
        """Reject a limit on an unknown metric, or outside the metric's scale.

        Raises:
            ConfigError: The limit is invalid. The message names `setting`.
        """
        from rag_eval_hooks.telemetry.score_attributes import check_limit

        scales = {metric.id: metric.scale for metric in self._parts.scorer.metrics}
        check_limit(setting, metric_id, limit, scales)

    def stats(self) -> Stats:
        """Return a snapshot of the statistics of all requests."""
        return self._pipeline.stats()

    def spooled(self) -> Mapping[str, int]:
        """Return counts of all samples in the spool, from all processes.

        `accepted` is the sum of `scored`, `sampled_out` (by a tail rule), `failed:<cause>`,
        `dropped:<reason>` and `pending`. `undelivered` counts scores that a platform has not
        accepted yet, by platform. The result is empty without a spool or if the spool cannot be
        read.
        """
        return self._pipeline.spooled()

    def explain(self, trace_id_or_sample_id: str | uuid.UUID) -> tuple[Explanation, ...]:
        """Explain the outcome of recent requests. `str(explanation)` gives one sentence.

        Accepts the same ids as `feedback`. The process remembers its last 10,000 requests with
        retrieved text and its last 10,000 without. One id returns at most eight requests.
        """
        return self._pipeline.explain(trace_id_or_sample_id)

    @usage("evals.flush(timeout=5), in seconds")
    def flush(self, timeout: float | None = None) -> bool:
        """Wait until all accepted requests are evaluated and delivered.

        The call waits for a slow sink. It does not wait for results that the spool keeps for a
        failing sink. At the end it flushes the providers of `setup_tracing`.

        Blocks for at most `timeout` seconds; None means no limit. In async code, call it in a
        thread. Returns whether nothing is pending.
        """
        check_number("timeout", timeout, "a number of seconds")
        if self.incidents.waits_for_itself("flush()", is_inside=self._is_evaluating):
            return False
        self._note_block("flush()", "asyncio.to_thread(evals.flush)")
        deadline = None if timeout is None else time.monotonic() + timeout
        from rag_eval_hooks.runtime.lifecycle import flush

        finished = flush(self._pipeline, timeout)
        flush_providers(_EXPORT_S if deadline is None else deadline - time.monotonic())
        return finished

    @usage("evals.shutdown(timeout=5), in seconds")
    def shutdown(self, timeout: float | None = 5.0) -> bool:
        """Finish pending samples within `timeout` seconds, then close. Runs at exit, too.

        Unfinished samples stay in the spool. Without a spool they are dropped as `shutdown`.
        Samples submitted later are also dropped. At the end the call flushes the providers of
        `setup_tracing`. Returns whether all pending samples finished.
        """
        check_number("timeout", timeout, "a number of seconds")
        timeout = _LONGEST_S if timeout is None else timeout
        if self.incidents.waits_for_itself("shutdown()", is_inside=self._is_evaluating):
            return False
        deadline = time.monotonic() + timeout
        from rag_eval_hooks.runtime.lifecycle import shutdown

        finished = shutdown(self._pipeline, timeout)
        flush_providers(max(1.0, deadline - time.monotonic()))
        return finished

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()

    def take(self, request: Request) -> bool:
        """Queue a request that another process sampled. Return whether the queue has room."""
        return self._pipeline.submit(request)

    def _note_block(self, call: str, instead: str) -> None:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            if "ipykernel" not in sys.modules:
                advice = f"write: await {instead}"
                self.incidents.mistake(f"{call} blocks the running event loop", advice)


def _sample_of(
    method: str, sample: Sample | Mapping[str, Any] | None, fields: Mapping[str, Any]
) -> Sample:
    if sample is None and fields:
        check_names("A sample has no field", fields, [f.name for f in dataclasses.fields(Sample)])
        if "question" not in fields:
            raise InputError("A sample needs a 'question'.", f"The call has {', '.join(fields)}.")
        return Sample(**fields)
    if fields:
        raise InputError(
            f"{method}() takes a sample or keyword fields, not both; got {', '.join(fields)} too."
        )
    return Sample.of(cast("Sample | Mapping[str, Any]", sample))
