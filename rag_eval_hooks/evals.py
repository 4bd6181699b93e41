"""`RagEval`: the object that an application creates."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.capture import (
    Assembler,
    ManualInteraction,
    OtherInstrumentors,
    Recorder,
    SpanWriter,
)
from rag_eval_hooks.config import limits
from rag_eval_hooks.config.keywords import SettingKeywords
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import SinkSpec, sink_list
from rag_eval_hooks.feedback import Feedback, id_of
from rag_eval_hooks.forks import at_fork
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.pipeline import Explanation, Pipeline, Stats
from rag_eval_hooks.pipeline.intake import RequestIntake
from rag_eval_hooks.pipeline.wiring import (
    Providers,
    chosen_metrics,
    finding_sources,
    metric_options,
    parts_of,
    settings,
)
from rag_eval_hooks.redaction import RedactSpec, choose_redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.telemetry.other_span import OtherSpans
from rag_eval_hooks.telemetry.self_metrics import Reading
from rag_eval_hooks.work import HeldSpan, Work

__all__ = ["RagEval"]


class RagEval:
    """Evaluates RAG interactions in the background and puts the scores on their spans.

    Make one per process and give it to a framework's handler; without arguments it evaluates
    every request with the embedded judge and all metrics that a sample can feed. Every setting
    of `RagEvalConfig` is a keyword, and so is every group of settings; environment and file give
    those that are not passed.

    Args:
        metrics: Suites, metric ids, `all`, or `Metric` objects.
        judge: `local`, `openai:<model>`, or a `Judge`.
        sample_rate: Share of interactions to evaluate, 0 to 1.
        sinks: Destinations of evaluations besides the span: sinks, callables `(evaluation)` or
            `(sample, outcomes)`, `jsonl:<path>`, or a platform: `phoenix:<url>`, `mlflow:<url>`,
            `langfuse:<url>`.
        config: Further settings; keywords take precedence over it.
        embedder: As in `RagEvalConfig`, or an `Embedder`.
        token_scorer: As in `RagEvalConfig`, or a `TokenScorer`.
        redact: As in `RagEvalConfig`, or one or several rules and functions `(text) -> text` or
            `(field, text) -> text`.
        tracer_provider: Provider of spans, or None for the global one.
        meter_provider: Provider of metrics, or None for the global one.
        logger_provider: Provider of log events, or None for the global one.
        **given: Settings and groups of settings, see docs/configuration.md.

    Attributes:
        config: The settings in force.
        recorder: Recorder of runs, for integrations.
        others: Spans of other instrumentors, for `RagEvalSpanProcessor`.
        instrumentors: Registry of other instrumentors, for integrations.

    Raises:
        ConfigError: A value is not accepted; the text names field, value and accepted values.
        ImportError: A chosen judge or embedder needs an extra that is not installed.
    """

    def __init__(
        self,
        metrics: str | Iterable[str | Metric] | None = None,
        judge: str | Judge | None = None,
        sample_rate: float | None = None,
        sinks: Iterable[SinkSpec] | SinkSpec | None = None,
        config: RagEvalConfig | None = None,
        *,
        embedder: str | Embedder | None = None,
        token_scorer: str | TokenScorer | None = None,
        redact: RedactSpec | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        **given: Unpack[SettingKeywords],
    ) -> None:
        self.config = settings(
            config,
            given,
            judge=judge,
            sample_rate=sample_rate,
            embedder=embedder,
            token_scorer=token_scorer,
        )
        redactor = choose_redactor(self.config, redact)
        available = build(metric_options(self.config))
        chosen = chosen_metrics(metrics, self.config, available)
        sources = finding_sources(self.config, judge, embedder, token_scorer)
        providers = Providers(tracer=tracer_provider, meter=meter_provider, logger=logger_provider)
        self._parts = parts_of(
            self.config,
            chosen=chosen,
            available=available,
            sources=sources,
            providers=providers,
            sinks=sink_list(sinks, self.config),
            redactor=redactor,
        )
        references = self._parts.references
        self._assembler = Assembler(
            self.config,
            redactor,
            self.incidents,
            *([] if references is None else [references.known]),
        )
        spans = SpanWriter(
            tracer_provider,
            mode=self.config.spans,
            capture_content=self.config.capture_content,
            incidents=self.incidents,
        )
        self._intake = RequestIntake(
            self._assembler,
            spans,
            self.incidents,
            submit=self._submit,
            watch=self._watch,
            refuse=self._refuse,
        )
        self.others = OtherSpans(most=limits.HELD_SPANS, hold=self._hold)
        self.instrumentors = OtherInstrumentors(self.config.spans, self.others, self.incidents)
        self.recorder = Recorder(
            self._intake.add,
            ttl=self.config.interaction_ttl,
            max_open=limits.OPEN_INTERACTIONS,
            max_chars=limits.INTERACTION_CHARS,
            max_text_chars=self._assembler.text_chars,
            on_wait=self._watch,
        )
        self._pipeline = self._new_pipeline()
        self._parts.telemetry.watch(self._read_state)
        self._inherited: list[object] = []
        at_fork(before=self._forking, in_child=self._forked_child)

    def _new_pipeline(self) -> Pipeline:
        return Pipeline(self._parts, self._tick, self.recorder.opened)

    def _read_state(self, instrument: str) -> Iterable[Reading]:
        # Of the current pipeline: the instruments outlive a fork.
        return self._pipeline.read(instrument)

    def _forking(self) -> None:
        self._pipeline.forking()

    def _forked_child(self) -> None:
        """Build the pipeline anew: its threads, locks and requests are the parent's."""
        self._inherited.append(self._pipeline.abandon())
        self._parts.forked()
        self.recorder.forked()
        self.others.forked()
        self._intake.forked()
        self._pipeline = self._new_pipeline()

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
    ) -> ManualInteraction:
        """Open an interaction by hand, in `with` or `async with`.

        For code without a framework, and for retriever and model called by hand: calls of a
        framework inside it that carry our handler become part of it, whatever called them.

        ```python
        with evals.interaction(question) as it:
            it.contexts(documents)
            it.answer(text)
        ```

        Without `contexts`, these are captured from the calls inside; without `answer`, it is the
        reply of the last call. An exception ends the interaction as `error`, a cancelled task as
        `cancelled`, a closed generator as `closed`; all are raised again.

        Inside another interaction with an equal question, and inside a framework's run, no
        interaction is opened: one question of a user is one interaction.

        Args:
            question: The user's question.
            metadata: As a run's metadata: `session_id`, `user_id`, `question_id`, `reference`
                and free keys.
            tags: Free labels.
            name: Name on the span.
        """
        return ManualInteraction(
            self.recorder, self.incidents, question, metadata=metadata, tags=tags, name=name
        )

    def offer(self, sample: Sample) -> bool:
        """Offer a sample for evaluation in the background. Never blocks.

        Returns:
            Whether it will be evaluated: not sampled out, not dropped. With a spool, it is on
            disk within 50 ms.
        """
        return self._submit(Work.of(sample, lambda: self._assembler.own(sample)))

    def feedback(
        self,
        trace_id_or_sample_id: str | uuid.UUID,
        *,
        score: float | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> bool:
        """Add feedback of a user or an application on an answer. Never blocks or raises.

        The feedback goes to the sinks that take it and to the trace of the answer; tail rules on
        feedback may ask for an evaluation; a reference adds the metrics that compare with one.

        Args:
            trace_id_or_sample_id: 32 hex digits of the trace, the sample's id, or the root run's
                id of the framework. Of several answers in one trace, the latest is meant.
            score: A number, such as 0 for a thumb down and 1 for a thumb up.
            label: A word, such as `thumbs_down`.
            reference: The right answer.

        Returns:
            Whether it joined an interaction. False for an id that is unknown or forgotten (after
            an hour, or after `feedback_samples` others), for empty feedback or a wrong type, and
            if the queue is full; each is counted in `stats().feedback`.
        """
        try:
            given = Feedback(
                score=score,
                label=self._assembler.label(label),
                reference=self._assembler.reference(reference),
            )
            name = id_of(trace_id_or_sample_id)
        except Exception as error:  # noqa: BLE001 - the host's edge: it may pass anything
            self._pipeline.refuse_feedback(error)
            return False
        self._intake.drain()
        return self._pipeline.feedback((name,), given)

    def evaluate(self, sample: Sample) -> Outcomes:
        """Evaluate a sample now, with scores equal to those in the background.

        The sample is not sampled out, not counted in `stats` and not given to sinks. Blocks; in
        async code use `aevaluate`.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        return self._pipeline.evaluate(self._assembler.own(sample)).result()

    async def aevaluate(self, sample: Sample) -> Outcomes:
        """Evaluate a sample now, in async code.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        if self._assembler.redacts:
            sample = await asyncio.to_thread(self._assembler.own, sample)
        return await asyncio.wrap_future(self._pipeline.evaluate(sample))

    def stats(self) -> Stats:
        """Return the statistics of everything offered so far, as of one moment."""
        self.recorder.sweep()
        self._intake.drain()
        return self._pipeline.stats()

    def spooled(self) -> Mapping[str, int]:
        """Return the counts of all samples in the spool, of all processes.

        `accepted` is the sum of `scored`, `sampled_out` (by a tail rule), `failed:<cause>`,
        `dropped:<reason>` and `pending`. Scores that a platform has not taken yet are, by
        platform, `undelivered`; the key is there only where some are.
        Empty without a spool, or with one that cannot be read just now.
        """
        self._intake.drain()
        return self._pipeline.spooled()

    def explain(self, trace_id_or_sample_id: str | uuid.UUID) -> tuple[Explanation, ...]:
        """Explain the recent samples of a trace, or one sample; `str` puts it in words.

        The last 10,000 traces of this process are remembered, without requests in which nothing
        was retrieved. Takes the ids that `feedback` takes.
        """
        self._intake.drain()
        return self._pipeline.explain(trace_id_or_sample_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Wait until everything accepted so far is evaluated and delivered.

        Results that the spool keeps for a failing sink are not waited for.

        Args:
            timeout: Seconds, or None without limit. Blocks; in async code call it in a thread.

        Returns:
            Whether nothing is pending.
        """
        return self._pipeline.flush(timeout)

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Finish what is pending within `timeout` seconds, then end; also called at exit.

        Unfinished samples stay in the spool, or are dropped as `shutdown` without one; later
        offers are dropped too.

        Returns:
            Whether everything pending was finished.
        """
        self.recorder.close()
        return self._pipeline.shutdown(timeout)

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

    # Bound to this object rather than to a pipeline, which a fork replaces.

    def _submit(self, work: Work) -> bool:
        return self._pipeline.submit(work)

    def _refuse(self, reason: str) -> None:
        self._pipeline.refuse(reason)

    def _hold(self, span: HeldSpan) -> None:
        self._pipeline.hold(span)

    def _watch(self) -> bool:
        return self._pipeline.watch()

    def _tick(self, deadline: float | None) -> bool:
        self.recorder.sweep()
        return self._intake.tick(deadline)
