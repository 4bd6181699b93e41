"""`RagEval`: the object that an application creates."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
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
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import (
    ConfigError,
    InputError,
    Misplaced,
    check_names,
    check_number,
    check_type,
    kind_of,
)
from rag_eval_hooks.explanation_text import html_table
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.tracing import flush_providers

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

_EXPORT_S: Final = 30.0
"""Seconds for the exporters of `setup_tracing` in a flush without a limit."""


def checked(evals: object) -> RagEval:
    """Return the argument `evals`.

    Raises:
        ConfigError: The value is not a `RagEval`, for example the class or settings.
    """
    if not isinstance(evals, RagEval):
        raise ConfigError("evals", kind_of(evals), "a RagEval object")
    return evals


class RagEval:
    """Evaluates RAG interactions in the background and puts the scores on their spans.

    Create one object per process and pass it to a framework's handler. By default, every request is
    evaluated with the heuristic judge and all `ragas` metrics whose inputs exist. Every setting of
    `RagEvalConfig` is a keyword; environment and file give the settings without a keyword.

    Args:
        metrics: Suites, metric ids, `all`, `Metric` objects or functions `(sample) -> float`;
            `-` before a name removes its metrics.
        judge: `heuristic`, `openai:<model>`, `systemone:<model or url>` or another name of
            docs/judges.md, a `Judge`, or a function as for `CallableJudge`.
        sample_rate: Fraction of requests to evaluate, 0 to 1.
        sinks: Destinations of evaluations besides the span: sinks, callables `(evaluation)` or
            `(sample, outcomes)`, `jsonl:<path>`, or a platform: `phoenix:<url>`, `mlflow:<url>`,
            `langfuse:<url>`.
        config: Further settings; keywords override these settings.
        embedder: A name as in the setting, or an `Embedder`.
        token_scorer: A name as in the setting, or a `TokenScorer`.
        run_on: A name as in the setting, or a Celery application.
        redact: Names as in the setting, rules, and functions `(text) -> text` or `(field, text) ->
            text`.
        tracer_provider: Provider of spans. For every provider, None means the global one.
        meter_provider: Provider of metrics.
        logger_provider: Provider of log events.
        **given: Settings, see docs/configuration.md.

    Attributes:
        config: The settings in force.
        recorder: Recorder of runs, for integrations.
        others: Registry of other instrumentors' spans, for `RagEvalSpanProcessor`.
        instrumentors: Registry of other instrumentors, for integrations.

    Raises:
        ConfigError: A value is invalid. The text names field, value and accepted values.
        ImportError: A chosen judge or embedder needs an extra that is not installed.
    """

    # LangChain reads these of a callback.
    raise_error = run_inline = Misplaced(
        "is no callback handler. Write: callbacks=[RagEvalCallbackHandler(evals)]"
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
        self._pipeline = Pipeline(self._parts)
        self.recorder = self._pipeline.recorder
        self.others = self._pipeline.others
        self.instrumentors = self._pipeline.instrumentors
        # The exit hooks close other objects.
        weakref.finalize(self, close_abandoned, self._pipeline).atexit = False

    def __repr__(self) -> str:
        """Show the judge, the metrics and the rate."""
        judge = self._parts.judges[0].name
        return f"<RagEval judge={judge!r} sample_rate={self.config.sample_rate:g}>"

    def _repr_html_(self) -> str:
        metrics = ", ".join(sorted(self._parts.scorer.metric_ids))
        return html_table([(repr(self), metrics)]) + self.stats()._repr_html_()

    @property
    def incidents(self) -> Incidents:
        """Counter of exceptions caught at an edge, for integrations."""
        return self._parts.incidents

    def interaction(
        self,
        question: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        name: str | None = None,
        **options: Unpack[CaptureKeywords],
    ) -> ManualInteraction:
        """Open an interaction manually, in `with` or `async with`.

        For code without a framework, or with separate calls of retriever and model. Framework calls
        inside the block that carry our handler become part of the interaction.

        ```python
        with evals.interaction(question) as it:
            it.contexts(documents)
            it.answer(text)
        ```

        Without `contexts`, the calls inside supply them. Without `answer`, the last call's reply is
        the answer. An exception ends the interaction as `error`, a cancelled task as `cancelled`, a
        closed generator as `closed`; each is raised again.

        Inside another interaction with an equal question, or inside a framework's run, no new
        interaction opens: one question of a user is one interaction.

        Args:
            question: The user's question.
            metadata: `session_id`, `user_id`, `question_id`, `reference` and free keys.
            tags: Free labels.
            name: Name on the span.
            **options: `contexts`, `answer`, `root`, `retrieval_tools`, `document_keys` and
                `as_context` override the handler's options for the calls inside.
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

    def submit(self, sample: Sample | Mapping[str, Any] | None = None, **fields: Any) -> bool:
        """Submit a sample for evaluation in the background. Never blocks or raises.

        A RAG span with the scores is written below the current span. If the sample names its own
        trace or span, the scores go there.

        A sample or mapping (as for `Sample.of`) that cannot be read is dropped as
        `capture_failed`. With a spool, an accepted sample is on disk within 50 ms.

        Args:
            sample: The sample, or a mapping as for `Sample.of`.
            **fields: Fields of a sample, in place of one.

        Returns:
            Whether the sample will be evaluated: not sampled out, not dropped.
        """
        return self._pipeline.submit_sample(lambda: self._noted("submit", sample, fields))

    def _noted(self, *given: Any) -> Sample:
        """Return a sample, and warn about a missing or misspelled field that a metric needs.

        Inline evaluation reports this in the outcomes.
        """
        sample = _sample_of(*given)
        for name, told in self._parts.scorer.gaps(sample).items():
            fix = "pass answer=<its text>"
            if name == "contexts":
                fix = "pass contexts=[...], or [] if retrieval found nothing"
            self.incidents.mistake(f"submit: the sample has no {told}", fix)
        return sample

    def feedback(
        self,
        trace_id_or_sample_id: str | uuid.UUID,
        *,
        score: float | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> bool:
        """Add feedback from a user or an application on an answer. Never blocks or raises.

        The feedback goes to sinks that accept feedback and to the answer's trace. Tail rules on
        feedback may request an evaluation. A reference adds the metrics that need a reference.

        Args:
            trace_id_or_sample_id: 32 hex digits of the trace, the sample's id, or the root run's
                id of the framework. If a trace has several answers, the latest gets the feedback.
            score: A number, such as 0 for thumbs down and 1 for thumbs up.
            label: A word, such as `thumbs_down`.
            reference: The correct answer.

        Returns:
            Whether the feedback is queued. False for empty feedback, a wrong type, a blank id, or a
            full queue. `stats().feedback` counts the results: `joined`, or for an id that this
            process does not know (or forgot after an hour or 1,000 requests) `passed_on` to other
            processes of the spool, or delivered `alone` without a spool.
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
        """Evaluate a sample now, with the same scores as in the background.

        Sampling, `stats` and sinks do not apply. Blocks; in async code use `aevaluate`.

        Args:
            sample: The sample, or a mapping as for `Sample.of`.
            metrics: Ids of the metrics to evaluate, one id, or None for all.
            **fields: Fields of a sample, in place of one.

        Raises:
            InputError: The sample is neither, or a field is unknown or wrong.
            ConfigError: A metric is unknown.
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        self._note_block("evaluate()", "evals.aevaluate(...)")
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
        """Evaluate a sample in async code. Arguments and errors match `evaluate`."""
        chosen, own = self.known_metrics(metrics), _sample_of("aevaluate", sample, fields)
        if self._pipeline.assembler.redacts:
            own = await asyncio.to_thread(self._pipeline.assembler.own, own)
        return await self._pipeline.aevaluate(own, chosen)

    def known_metrics(self, metrics: str | Collection[str] | None) -> frozenset[str] | None:
        """Return ids of metrics, or one id, as a set; None for None.

        Raises:
            InputError: The argument is neither.
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
        """Reject a limit of an unknown metric, and a limit outside the metric's scale.

        Raises:
            ConfigError: The limit is invalid; `setting` names it in the message.
        """
        from rag_eval_hooks.telemetry.score_attributes import check_limit

        scales = {metric.id: metric.scale for metric in self._parts.scorer.metrics}
        check_limit(setting, metric_id, limit, scales)

    def stats(self) -> Stats:
        """Return the statistics of all requests so far, at one moment."""
        return self._pipeline.stats()

    def spooled(self) -> Mapping[str, int]:
        """Return the counts of all samples in the spool, from all processes.

        `accepted` is the sum of `scored`, `sampled_out` (by a tail rule), `failed:<cause>`,
        `dropped:<reason>` and `pending`. `undelivered`, if present, counts the scores that a
        platform has not accepted yet, by platform. Empty without a spool, or while the spool is
        unreadable.
        """
        return self._pipeline.spooled()

    def explain(self, trace_id_or_sample_id: str | uuid.UUID) -> tuple[Explanation, ...]:
        """Explain the recent samples of a trace, or one sample; `str` gives a sentence.

        Kept are this process's last 10,000 requests, another 10,000 answered without retrieved
        text, and at most the last eight samples per trace. Accepts the same ids as `feedback`.
        """
        return self._pipeline.explain(trace_id_or_sample_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything accepted so far is evaluated and delivered.

        The call waits for a sink that is at work, however slowly, but not for results that the
        spool keeps for a failing sink. The providers of `setup_tracing` are flushed last.

        Blocks for at most `timeout` seconds; None means no limit. In async code, call it in a
        thread. Returns whether nothing is pending.
        """
        check_number("timeout", timeout, "a number of seconds")
        if self.incidents.waits_for_itself("flush()"):
            return False
        self._note_block("flush()", "asyncio.to_thread(evals.flush)")
        deadline = None if timeout is None else time.monotonic() + timeout
        from rag_eval_hooks.runtime.lifecycle import flush

        finished = flush(self._pipeline, timeout)
        flush_providers(_EXPORT_S if deadline is None else deadline - time.monotonic())
        return finished

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Finish pending samples within `timeout` seconds, then close. Also called at exit.

        With a spool, unfinished samples stay in it. Without one, they are dropped and counted as
        `shutdown`, as are samples submitted later. The providers of `setup_tracing` are
        flushed last. Returns whether all pending samples were finished.
        """
        check_number("timeout", timeout, "a number of seconds")
        if self.incidents.waits_for_itself("shutdown()"):
            return False
        deadline = time.monotonic() + timeout
        from rag_eval_hooks.runtime.lifecycle import shutdown

        finished = shutdown(self._pipeline, timeout)
        flush_providers(max(1.0, deadline - time.monotonic()))
        return finished

    def __copy__(self) -> Self:
        """Return the same object: a copy would share its threads and files."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the evaluator itself."""
        return self

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shut down."""
        self.shutdown()

    def take(self, request: Request) -> bool:
        """Queue a request that another process decided about; return whether it is accepted."""
        return self._pipeline.submit(request)

    def _note_block(self, call: str, instead: str) -> None:
        """Report a call that blocks a running event loop, except a notebook's own."""
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
