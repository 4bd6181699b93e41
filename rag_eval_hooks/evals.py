"""`RagEval`: the one object that an application makes."""

from __future__ import annotations

import asyncio
import functools
import os
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from opentelemetry._logs import LoggerProvider
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.capture import (
    Interaction,
    OtherInstrumentors,
    Recorder,
    SpanWriter,
    assemble,
)
from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge, TokenScorer
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.pipeline import Offer, Pipeline, Scorer, Stats
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.sinks.base import SinkSpec
from rag_eval_hooks.sinks.other_span import OtherSpans
from rag_eval_hooks.sinks.thresholds import Thresholds
from rag_eval_hooks.wiring import (
    Providers,
    chosen_metrics,
    finding_sources,
    metric_options,
    outbound,
    settings,
    sink_list,
    telemetry_sinks,
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
        sinks: Where outcomes go besides the span: sinks, callables `(sample, outcomes)`,
            `jsonl:<path>`, or a platform: `phoenix:<url>`, `mlflow:<url>`, `langfuse:<url>`.
        config: Further settings; those set in it count as given here.
        embedder: As in `RagEvalConfig`, or an `Embedder` of your own.
        token_scorer: A `TokenScorer` of your own, likewise.
        tracer_provider: Where spans go, or None for the global provider.
        meter_provider: Where metrics go, likewise.
        logger_provider: Where log events go, likewise.

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
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self.config = settings(config, judge=judge, sample_rate=sample_rate, embedder=embedder)
        available = build(metric_options(self.config))
        chosen = chosen_metrics(metrics, self.config, available)
        sources = finding_sources(self.config, judge, embedder, token_scorer)
        measured = available if chosen is None else chosen
        thresholds = Thresholds(self.config.thresholds, measured)
        providers = Providers(tracer=tracer_provider, meter=meter_provider, logger=logger_provider)
        to = sink_list(sinks, self.config)
        self._pipeline = Pipeline(
            self.config,
            lambda incidents: Scorer(
                measured,
                sources,
                self.config.sample_timeout,
                incidents,
                only_fed=chosen is None,
            ),
            [part for part in (sources.judge, sources.embedder, sources.scorer) if part],
            to,
            lambda incidents: telemetry_sinks(
                self.config, providers, thresholds, sources.judge, incidents
            ),
            tick=lambda: self.recorder.sweep(),
            outbound=functools.partial(outbound, self.config, providers, thresholds, to),
        )
        self._spans = SpanWriter(
            tracer_provider,
            mode=self.config.spans,
            workflow=self.config.workflow,
            capture_content=self.config.capture_content,
            incidents=self.incidents,
        )
        self.others = OtherSpans(most=self.config.max_held, hold=self._pipeline.hold)
        self.instrumentors = OtherInstrumentors(self.config.spans, self.others, self.incidents)
        self.recorder = Recorder(
            self._on_end,
            ttl=self.config.interaction_ttl,
            max_open=self.config.max_open_interactions,
        )
        _guard_forks(self._pipeline, self.recorder, self.others)

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
            Offer(key=key, status=sample.status, sample=lambda: sample, size=sample.chars)
        )

    def evaluate(self, sample: Sample) -> Outcomes:
        """The outcomes of a sample, now: the same scores as in the background.

        Not sampled, not counted in `stats`, not given to sinks. Blocks; in async code use
        `aevaluate`.

        Raises:
            RuntimeError: After `shutdown`.
        """
        return self._pipeline.evaluate(sample).result()

    async def aevaluate(self, sample: Sample) -> Outcomes:
        """`evaluate` for async code.

        Raises:
            RuntimeError: After `shutdown`.
        """
        return await asyncio.wrap_future(self._pipeline.evaluate(sample))

    def stats(self) -> Stats:
        """What became of everything offered so far, as of one moment."""
        self.recorder.sweep()
        return self._pipeline.stats()

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
        span = self._spans.write(interaction)
        build = functools.partial(
            assemble,
            interaction,
            trace_id=span.trace_id,
            span_id=span.span_id,
            workflow=self.config.workflow,
            max_contexts=self.config.max_contexts,
            max_text_chars=self.config.max_text_chars,
        )
        return Offer(
            key=span.trace_id or str(interaction.root.id),
            status=interaction.status,
            sample=build,
            size=interaction.chars,
            held=span.held,
        )


def _guard_forks(pipeline: Pipeline, recorder: Recorder, others: OtherSpans) -> None:
    if not hasattr(os, "register_at_fork"):
        return

    # Fork hooks cannot be taken back, so they must not keep anything alive.
    pipelines, recorders = weakref.ref(pipeline), weakref.ref(recorder)
    spans = weakref.ref(others)

    def before() -> None:
        if (alive := pipelines()) is not None:
            alive.before_fork()

    def in_child() -> None:
        for alive in (pipelines(), recorders(), spans()):
            if alive is not None:
                alive.reset()

    os.register_at_fork(before=before, after_in_child=in_child)
