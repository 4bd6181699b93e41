"""`RagEval`: the one object that an application makes."""

from __future__ import annotations

import asyncio
import functools
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.capture import (
    Assembler,
    EndedRequest,
    EndedRequests,
    Interaction,
    ManualInteraction,
    OtherInstrumentors,
    Recorder,
    SpanWriter,
    traits_of_interaction,
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
        sinks: Where outcomes go besides the span: sinks, callables `(evaluation)` or
            `(sample, outcomes)`,
            `jsonl:<path>`, or a platform: `phoenix:<url>`, `mlflow:<url>`, `langfuse:<url>`.
        config: Further settings; those set in it count as given here, keywords win over it.
        embedder: As in `RagEvalConfig`, or an `Embedder` of your own.
        token_scorer: A `TokenScorer` of your own, likewise.
        redact: As in `RagEvalConfig`, or rules and functions `(text) -> text` or
            `(field, text) -> text` of your own, one or several.
        tracer_provider: Where spans go, or None for the global provider.
        meter_provider: Where metrics go, likewise.
        logger_provider: Where log events go, likewise.
        **given: Settings and groups of settings, see docs/configuration.md.

    Attributes:
        config: The settings in force.
        recorder: Where integrations report runs.
        others: Spans of other instrumentors, for `RagEvalSpanProcessor`.
        instrumentors: Where integrations report other instrumentors.

    Raises:
        ConfigError: A value cannot be used; the text names field, value and what is accepted.
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
        token_scorer: TokenScorer | None = None,
        redact: RedactSpec | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        **given: Unpack[SettingKeywords],
    ) -> None:
        self.config = settings(
            config, given, judge=judge, sample_rate=sample_rate, embedder=embedder
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
        self._ended = EndedRequests(self._submit)
        self._spans = SpanWriter(
            tracer_provider,
            mode=self.config.spans,
            capture_content=self.config.capture_content,
            incidents=self.incidents,
        )
        self.others = OtherSpans(most=limits.HELD_SPANS, hold=self._hold)
        self.instrumentors = OtherInstrumentors(self.config.spans, self.others, self.incidents)
        self.recorder = Recorder(
            self._on_end,
            ttl=self.config.interaction_ttl,
            max_open=limits.OPEN_INTERACTIONS,
            max_chars=limits.INTERACTION_CHARS,
            max_text_chars=self._assembler.text_chars,
            on_wait=self._watch,
        )
        self._pipeline = self._new_pipeline()
        self._state = _State(self)
        self._parts.telemetry.watch(self._state)
        self._inherited: list[object] = []
        at_fork(
            before=self._forking,
            in_parent=self._forked_parent,
            in_child=self._forked_child,
        )

    def _new_pipeline(self) -> Pipeline:
        return Pipeline(self._parts, self._tick, self.recorder.opened)

    def _forking(self) -> None:
        self._pipeline.forking()

    def _forked_parent(self) -> None:
        self._pipeline.forked_parent()

    def _forked_child(self) -> None:
        """Build the pipeline anew: its threads, locks and requests are the parent's."""
        self._inherited.append(self._pipeline.abandon())
        self._parts.forked()
        self.recorder.forked()
        self.others.forked()
        self._spans.forked()
        self._ended.forked()
        self._pipeline = self._new_pipeline()

    @property
    def incidents(self) -> Incidents:
        """Where integrations count what went wrong in a callback."""
        return self._parts.incidents

    def interaction(
        self,
        question: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        tags: Sequence[str] | None = None,
        name: str | None = None,
    ) -> ManualInteraction:
        """An interaction that the application opens itself, in `with` or `async with`.

        For code without a framework, and for retriever and model called by hand: calls of a
        framework inside it that carry our handler become part of it, whatever called them.

        ```python
        with evals.interaction(question) as it:
            it.contexts(documents)
            it.answer(text)
        ```

        What is not said is found as in a framework's run: without `contexts`, from what passed
        by; without `answer`, from the last call inside. An exception ends it as `error`, a
        cancelled task as `cancelled`, a closed generator as `closed`; all pass through.

        Inside another interaction that asks the same, and inside a framework's run, none of its
        own is opened: it is a part of that one, as one user question is one interaction.

        Args:
            question: What the user asked.
            metadata: As a run's metadata: `session_id`, `user_id`, `question_id`, `reference`
                and free keys.
            tags: Free labels.
            name: On the span.
        """
        return ManualInteraction(
            self.recorder, self.incidents, question, metadata=metadata, tags=tags, name=name
        )

    def offer(self, sample: Sample) -> bool:
        """Offer a sample of your own for evaluation in the background. Never blocks.

        Returns:
            Whether it will be evaluated: not sampled out, not dropped. With a spool, it is on
            disk within 50 ms.
        """
        return self._pipeline.submit(Work.of(sample, lambda: self._assembler.own(sample)))

    def feedback(
        self,
        trace_id_or_sample_id: str | uuid.UUID,
        *,
        score: float | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> bool:
        """Adds what a user or an application says later about an answer. Never blocks or raises.

        The feedback goes to the sinks that take it and to the trace of the answer; tail rules on
        feedback may ask for an evaluation; a reference adds the metrics that compare with one.

        Args:
            trace_id_or_sample_id: 32 hex digits of the trace, the sample's id, or the root run's
                id of the framework. Of several answers in one trace, the latest is meant.
            score: A number, such as 0 for a thumb down and 1 for a thumb up.
            label: A word, such as `thumbs_down`.
            reference: The right answer.

        Returns:
            Whether it joined an interaction. False for an id that is unknown or was forgotten
            (after an hour, or after `feedback_samples` others), for nothing to say or a wrong
            type, and where the queue is full; each is counted in `stats().feedback`.
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
        self._ended.drain()
        return self._pipeline.feedback((name,), given)

    def evaluate(self, sample: Sample) -> Outcomes:
        """The outcomes of a sample, now: the same scores as in the background.

        Not sampled, not counted in `stats`, not given to sinks. Blocks; in async code use
        `aevaluate`.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        return self._pipeline.evaluate(self._assembler.own(sample)).result()

    async def aevaluate(self, sample: Sample) -> Outcomes:
        """`evaluate` for async code.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        if self._assembler.redacts:
            sample = await asyncio.to_thread(self._assembler.own, sample)
        return await asyncio.wrap_future(self._pipeline.evaluate(sample))

    def stats(self) -> Stats:
        """What became of everything offered so far, as of one moment."""
        self.recorder.sweep()
        self._ended.drain()
        return self._pipeline.stats()

    def spooled(self) -> Mapping[str, int]:
        """What became of all samples in the spool, of all processes, since the file was made.

        `accepted` is the sum of `scored`, `sampled_out` (by a tail rule), `failed:<cause>`,
        `dropped:<reason>` and `pending`. Scores that a platform has not taken yet are, by
        platform, `undelivered`; the key is there only where some are.
        Empty without a spool, or with one that cannot be read just now.
        """
        self._ended.drain()
        return self._pipeline.spooled()

    def explain(self, trace_id_or_sample_id: str | uuid.UUID) -> tuple[Explanation, ...]:
        """What became of recent samples of a trace, or of one sample: in words, by `str`.

        Remembers the last 10,000 traces of this process; nothing is known of others, nor
        of requests in which nothing was retrieved. Ids as for `feedback`, written in any way.
        """
        self._ended.drain()
        return self._pipeline.explain(trace_id_or_sample_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything accepted so far is evaluated, and sinks were called with it.

        What a sink did not take and the spool keeps for it is not waited for.

        Args:
            timeout: Seconds, or None without limit. Blocks; in async code call it in a thread.

        Returns:
            Whether nothing is pending.
        """
        return self._pipeline.flush(timeout)

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Finishes what is pending within `timeout` seconds, then ends; called at exit too.

        What is not finished is left in the spool where there is one, else dropped as `shutdown`;
        later offers are dropped as well.

        Returns:
            Whether everything pending was finished.
        """
        self.recorder.close()
        return self._pipeline.shutdown(timeout)

    def __enter__(self) -> Self:
        """The object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shuts down."""
        self.shutdown()

    def _hold(self, span: HeldSpan) -> None:
        self._pipeline.hold(span)

    def _watch(self) -> None:
        self._pipeline.watch()

    def _tick(self) -> None:
        self.recorder.sweep()
        self._drain()

    def _drain(self) -> None:
        self._ended.drain()
        self._spans.drain()

    def _on_end(self, interaction: Interaction) -> None:
        try:
            session = self._assembler.session()
            redact = functools.partial(self._assembler.attributes, session)
            span = self._spans.begin(interaction, redact)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects and processors
            self._refuse(error)
            return
        self._ended.add(EndedRequest(interaction, session, span))
        will_tick = self._pipeline.watch()
        if not will_tick or span.is_foreign:
            # No thread will do it, or the span of another instrumentor waits for the decision.
            self._drain()

    def _submit(self, request: EndedRequest) -> None:
        try:
            work = self._work(request)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects
            self._refuse(error)
        else:
            self._pipeline.submit(work)

    def _refuse(self, error: Exception) -> None:
        self.incidents.report("capture", error)
        self._pipeline.refuse("capture_failed")

    def _work(self, request: EndedRequest) -> Work:
        interaction, session, span = request.interaction, request.session, request.span
        trace_id, span_id = span.trace_id, span.span_id

        def build() -> Sample:
            # Spans first: sample and spans share the numbers of their placeholders.
            span.complete()
            return self._assembler.sample(interaction, session, trace_id, span_id)

        run_id = interaction.root.id
        return Work(
            trace_id or id_of(run_id),
            build,
            status=interaction.status,
            size=interaction.chars,
            ids=tuple(filter(None, (trace_id, id_of(run_id)))),
            trace_id=trace_id,
            span_id=span_id,
            rag_span=span.held,
            traits=functools.partial(traits_of_interaction, interaction),
        )


class _State:
    """State of the current pipeline, for instruments that outlive a fork."""

    def __init__(self, evals: RagEval) -> None:
        self._evals = evals

    def read(self, instrument: str) -> Iterable[Reading]:
        """Return the current values of an instrument, or none."""
        return self._evals._pipeline.read(instrument)
