"""`RagEval`: the one object that an application makes."""

from __future__ import annotations

import asyncio
import functools
import os
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from opentelemetry.trace import Span, TracerProvider, format_span_id, format_trace_id

from rag_eval_hooks.capture import (
    Attributes,
    Interaction,
    Recorder,
    SpanWriter,
    assemble,
    shortened,
)
from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.pipeline import Explanation, Offer, Pipeline, Scorer, Stats
from rag_eval_hooks.redaction import MARGIN, RedactSpec, Session, choose_redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.sinks.base import SinkSpec
from rag_eval_hooks.sinks.held_span import HeldSpan
from rag_eval_hooks.wiring import (
    chosen_metrics,
    finding_sources,
    metric_options,
    settings,
    sink_list,
)

__all__ = ["RagEval"]


class RagEval:
    """Evaluates RAG interactions in the background and puts the scores on their spans.

    Make one per process and give it to a framework's handler; without arguments it evaluates
    every request with the embedded judge and all metrics that a sample can feed. Every argument
    is also a setting (environment or file), see `RagEvalConfig`; the argument wins.

    Args:
        metrics: Suites, metric ids, `all`, or `Metric` objects.
        judge: `local`, `openai:<model>`, or a `Judge`.
        sample_rate: Share of interactions to evaluate, 0 to 1.
        sinks: Where outcomes go besides the span: sinks, callables `(sample, outcomes)`, or
            `jsonl:<path>`.
        config: Further settings; those set in it count as given here.
        embedder: As in `RagEvalConfig`, or an `Embedder` of your own.
        token_scorer: A `TokenScorer` of your own, likewise.
        redact: As in `RagEvalConfig`, or rules and functions `(text) -> text` or
            `(field, text) -> text` of your own, one or several.
        tracer_provider: Where spans go, or None for the global provider.

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
    ) -> None:
        self.config = settings(config, judge=judge, sample_rate=sample_rate, embedder=embedder)
        self._redactor = choose_redactor(self.config, redact)
        available = build(metric_options(self.config))
        chosen = chosen_metrics(metrics, self.config, available)
        sources = finding_sources(self.config, judge, embedder, token_scorer)
        self._pipeline = Pipeline(
            self.config,
            lambda incidents: Scorer(
                available if chosen is None else chosen,
                sources,
                self.config.sample_timeout,
                incidents,
                only_fed=chosen is None,
            ),
            [part for part in (sources.judge, sources.embedder, sources.scorer) if part],
            sink_list(sinks, self.config),
            tick=lambda: self.recorder.sweep(),
        )
        self._spans = SpanWriter(
            tracer_provider,
            workflow=self.config.workflow,
            capture_content=self.config.capture_content,
            incidents=self.incidents,
        )
        self.recorder = Recorder(
            self._on_end,
            ttl=self.config.interaction_ttl,
            max_open=self.config.max_open_interactions,
        )
        _guard_forks(self._pipeline, self.recorder)

    @property
    def incidents(self) -> Incidents:
        """Where integrations count what went wrong in a callback."""
        return self._pipeline.incidents

    def offer(self, sample: Sample) -> bool:
        """Offers a sample of your own for evaluation in the background. Never blocks.

        Returns:
            Whether it will be evaluated: not sampled out, not dropped.
        """
        key = sample.trace_id or sample.sample_id
        return self._pipeline.offer(
            Offer(
                key=key,
                status=sample.status,
                sample=lambda: self._redactor.sample(sample),
                size=sample.chars,
            )
        )

    def evaluate(self, sample: Sample) -> Outcomes:
        """The outcomes of a sample, now: the same scores as in the background.

        Not sampled, not counted in `stats`, not given to sinks. Blocks; in async code use
        `aevaluate`.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        return self._pipeline.evaluate(self._redactor.sample(sample)).result()

    async def aevaluate(self, sample: Sample) -> Outcomes:
        """`evaluate` for async code.

        Raises:
            RuntimeError: After `shutdown`.
            RedactionError: The sample could not be redacted.
        """
        if self._redactor.active:
            sample = await asyncio.to_thread(self._redactor.sample, sample)
        return await asyncio.wrap_future(self._pipeline.evaluate(sample))

    def stats(self) -> Stats:
        """What became of everything offered so far, as of one moment."""
        self.recorder.sweep()
        return self._pipeline.stats()

    def explain(self, trace_id_or_sample_id: str) -> tuple[Explanation, ...]:
        """What became of recent samples of a trace, or of a sample without one: in words, by `str`.

        Remembers the last `max_explained` traces of this process; nothing is known of others.
        """
        return self._pipeline.explain(trace_id_or_sample_id)

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until everything accepted so far is evaluated and delivered.

        Args:
            timeout: Seconds, or None without limit. Blocks; in async code call it in a thread.

        Returns:
            Whether nothing is pending.
        """
        return self._pipeline.flush(timeout)

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Finishes what is pending within `timeout` seconds, then ends; called at exit too.

        What is not finished is dropped as `shutdown`; later offers are dropped as well.

        Returns:
            Whether everything pending was finished.
        """
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

    def _on_end(self, interaction: Interaction) -> None:
        try:
            offer = self._offer(interaction)
        except Exception as error:  # noqa: BLE001 - the host's edge: its objects and processors
            self.incidents.report("capture", error)
            self._pipeline.refuse("capture_failed")
        else:
            self._pipeline.offer(offer)

    def _offer(self, interaction: Interaction) -> Offer:
        session = self._redactor.session()
        span = self._spans.write(interaction, functools.partial(self._attributes, session))
        context = span.get_span_context()
        known = context.is_valid
        build = functools.partial(
            self._assembled,
            interaction,
            session,
            trace_id=format_trace_id(context.trace_id) if known else None,
            span_id=format_span_id(context.span_id) if known and span.is_recording() else None,
        )
        key = format_trace_id(context.trace_id) if known else str(interaction.root.id)
        return Offer(
            key=key,
            status=interaction.status,
            sample=build,
            size=interaction.chars,
            held=_held(span, interaction),
        )

    def _assembled(
        self,
        interaction: Interaction,
        session: Session,
        *,
        trace_id: str | None,
        span_id: str | None,
    ) -> Sample:
        """The sample of an interaction, redacted; off the request path."""
        limit, margin = self.config.max_text_chars, MARGIN if self._redactor.active else 0
        sample = assemble(
            interaction,
            trace_id=trace_id,
            span_id=span_id,
            max_contexts=self.config.max_contexts,
            max_text_chars=limit + margin,
        )
        if not margin:
            return sample
        redacted = self._redactor.sample(sample, session)
        return shortened(redacted, max_text_chars=limit, margin=margin)

    def _attributes(self, session: Session, values: Attributes) -> Attributes:
        """Attributes with content or ids, redacted; none where that fails."""
        if not self._redactor.active:
            return values
        try:
            return session.attributes(values)
        except RedactionError as error:
            self.incidents.report("span redaction", error)
            return {}


def _held(span: Span, interaction: Interaction) -> HeldSpan | None:
    if not span.is_recording() or interaction.root.end is None:
        return None
    return HeldSpan(span, interaction.root.end)


def _guard_forks(pipeline: Pipeline, recorder: Recorder) -> None:
    if not hasattr(os, "register_at_fork"):
        return

    # Fork hooks cannot be taken back, so they must not keep anything alive.
    pipelines, recorders = weakref.ref(pipeline), weakref.ref(recorder)

    def before() -> None:
        if (alive := pipelines()) is not None:
            alive.before_fork()

    def in_child() -> None:
        for alive in (pipelines(), recorders()):
            if alive is not None:
                alive.reset()

    os.register_at_fork(before=before, after_in_child=in_child)
