"""An evaluated sample with all that the telemetry sinks tell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from rag_eval_hooks.calls import CallLog
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcomes, Score
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.explanation import explain

__all__ = ["Evaluation", "around", "failed_of", "recorded_span", "status_of"]

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What became of one sample.

    Attributes:
        sample: What was evaluated; its trace and span ids name the RAG span, where there is one.
        outcomes: Outcome by metric id.
        probability: Inclusion probability of the sample, 0 to 1, or None where no draw chose it.
        start: When the evaluation began, in nanoseconds since the epoch.
        end: When it ended, the same.
        reason: Why it was chosen, in a word.
        verdicts: Pass or fail, of the scored metrics that have a threshold.
        passed: Pass or fail of the sample, or None where that is unknown.
        log: Calls that the evaluation made, where they are to be seen.
    """

    sample: Sample
    outcomes: Outcomes
    probability: float | None
    start: int
    end: int
    reason: str = ""
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    passed: bool | None = None
    log: CallLog = field(default_factory=CallLog)

    @property
    def seconds(self) -> float:
        """How long the evaluation took."""
        return (self.end - self.start) / 1e9

    @cached_property
    def scores(self) -> Mapping[str, Score]:
        """The outcomes that are scores."""
        return {k: v for k, v in self.outcomes.items() if isinstance(v, Score)}

    @cached_property
    def failed(self) -> Mapping[str, NotScored]:
        """The outcomes that could have been scores and were not."""
        return failed_of(self.outcomes)

    @property
    def status(self) -> EvalStatus:
        """How it went, as on the RAG span."""
        return status_of(self.outcomes)

    def label(self, metric_id: str) -> str | None:
        """The metric's own word for its score, else pass or fail by its threshold."""
        score = self.scores[metric_id]
        if score.label is None and metric_id in self.verdicts:
            return "pass" if self.verdicts[metric_id] else "fail"
        return score.label

    def explanation(self, metric_id: str, limit: int, *, content: bool) -> str | None:
        """A score's explanation as JSON, see `explain`; made once for all who ask alike."""
        key = metric_id, limit, content
        if key not in self._explained:
            explanation = self.scores[metric_id].explanation
            self._explained[key] = explain(explanation, limit, content=content)
        return self._explained[key]

    @cached_property
    def _explained(self) -> dict[tuple[str, int, bool], str | None]:
        return {}

    def rag_span(self) -> SpanContext | None:
        """The RAG span that the sample names, or None where none is recorded."""
        return recorded_span(self.sample.trace_id, self.sample.span_id)

    def context(self) -> Context:
        """A context of its own in which the RAG span is current, as far as there is one."""
        return around(self.rag_span())


def recorded_span(trace_id: str | None, span_id: str | None) -> SpanContext | None:
    """The span of two ids, or None where one is missing or no id.

    Args:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
    """
    context = SpanContext(
        _number(trace_id), _number(span_id), is_remote=False, trace_flags=_SAMPLED
    )
    return context if context.is_valid else None


def around(span: SpanContext | None) -> Context:
    """A context of its own in which a span is current; an empty one for None."""
    if span is None:
        return Context()
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def status_of(outcomes: Outcomes) -> EvalStatus:
    """`ok` when nothing failed, `partial` beside scores, else `error`.

    A metric that the sample cannot feed, or that is undefined for it, has not failed.
    """
    if not failed_of(outcomes):
        return EvalStatus.OK
    scored = any(isinstance(outcome, Score) for outcome in outcomes.values())
    return EvalStatus.PARTIAL if scored else EvalStatus.ERROR


def failed_of(outcomes: Outcomes) -> dict[str, NotScored]:
    """The outcomes that could have been scores and were not."""
    return {
        name: outcome
        for name, outcome in outcomes.items()
        if isinstance(outcome, NotScored) and outcome.cause.is_failure
    }


def _number(identifier: str | None) -> int:
    """An id in hex as a number; 0, which is no id, for what is none."""
    try:
        return int(identifier or "0", 16)
    except ValueError:
        return 0
