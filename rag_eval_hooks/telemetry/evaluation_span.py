"""Carrier spans: every result of one evaluation, with its explanation, linked to the RAG span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Tracer, TracerProvider

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.bounded_json import explain
from rag_eval_hooks.score import Score
from rag_eval_hooks.telemetry.rag_span import context_of, rag_span_of
from rag_eval_hooks.telemetry.span_limits import Attributes, longest, room
from rag_eval_hooks.work import Evaluation

__all__ = ["CarrierWriter"]

_MOST = 20
"""Results on one carrier."""
_Fields: TypeAlias = Mapping[str, str | float]


class CarrierWriter:
    """Writes spans `evaluation <workflow>`.

    Each has exactly one link, to the RAG span: feedback that comes after the span's end. Without
    a recorded RAG span there is none.

    Args:
        provider: A tracer provider, or None for the global one, also when it is set later.
        mode: `trace`: a trace of its own; `child`: below the RAG span; `off`: none.
        content: Whether explanations may quote the application's texts.
        max_chars: Characters of one explanation.
    """

    def __init__(
        self, provider: TracerProvider | None, *, mode: str, content: bool, max_chars: int
    ) -> None:
        self._tracer: Tracer = trace.get_tracer(
            semconv.TRACER_NAME, __version__, provider, semconv.SCHEMA_URL
        )
        self._mode = mode
        self._content = content
        self._max_chars = max_chars

    def start(self, evaluation: Evaluation) -> list[Span]:
        """The carriers of an evaluation with all its results, not ended yet.

        Returns:
            One a started score of results, as many more as results do not fit; none where no
            RAG span is recorded or nothing is to be written.
        """
        target = rag_span_of(evaluation.sample)
        if self._mode == "off" or target is None:
            return []
        left: list[_Fields] = []
        carriers: list[Span] = []
        while left or not carriers:
            span = self._start(evaluation, target)
            if not span.is_recording():
                break
            if not carriers:
                # What the SDK would cut is made short here, so that it stays JSON.
                most = min(self._max_chars, longest(span) or self._max_chars)
                left = [self._fields(evaluation, name, most) for name in evaluation.scores]
            carriers.append(span)
            taken = _fill(span, left[:_MOST])
            left = left[max(taken, 1) :]
        return carriers

    def _start(self, evaluation: Evaluation, target: SpanContext) -> Span:
        # Neither the application's context nor a span of ours that happens to be current.
        parent = context_of(evaluation.sample) if self._mode == "child" else Context()
        name = evaluation.sample.workflow
        return self._tracer.start_span(
            f"evaluation {name}" if name else "evaluation",
            parent,
            links=[Link(target)],
            attributes=_common(evaluation),
            start_time=evaluation.start,
        )

    def _fields(self, evaluation: Evaluation, name: str, most: int) -> _Fields:
        score = evaluation.scores[name]
        about = explain(_about(score, self._content), most, content=True)
        told: dict[str, str | float | None] = {
            "name": name,
            "score": score.value,
            "label": evaluation.label(name),
            "explanation": evaluation.explanation(name, most, content=self._content),
            "annotator_kind": score.annotator_kind.value,
            "identifier": score.annotator or semconv.TRACER_NAME,
            "metadata": about,
        }
        return {key: value for key, value in told.items() if value is not None}


def _fill(span: Span, results: Sequence[_Fields]) -> int:
    """Puts results on a carrier while there is room; the number of those that it took."""
    taken: dict[str, str | float] = {}
    left = room(span)
    for place, fields in enumerate(results):
        if left is not None and len(taken) + len(fields) > left:
            span.set_attributes(taken)
            return place
        taken |= {semconv.evaluation(place, key): value for key, value in fields.items()}
    span.set_attributes(taken)
    return len(results)


def _common(evaluation: Evaluation) -> Attributes:
    told: dict[str, str | float | bool | list[str] | None] = {
        semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
        semconv.GEN_AI_OPERATION_NAME: "evaluation",
        semconv.GEN_AI_WORKFLOW_NAME: evaluation.sample.workflow,
        semconv.SESSION_ID: evaluation.sample.session_id,
        semconv.EVAL_STATUS: evaluation.status.value,
        semconv.EVAL_PASS: evaluation.passed,
        semconv.EVAL_FAILED: list(evaluation.failed) or None,
        semconv.EVAL_DURATION_MS: round(evaluation.seconds * 1000, 3),
        semconv.EVAL_SAMPLE_RATE: evaluation.probability,
        semconv.EVAL_VERSION: __version__,
    }
    return {key: value for key, value in told.items() if value is not None}


def _about(score: Score, content: bool) -> dict[str, Any]:
    """What else is known of a score: its parts, version and cost, and how likely it was made."""
    used = score.usage
    usage = {
        "calls": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cost": used.cost,
    }
    about: dict[str, Any] = {
        "parts": dict(score.parts),
        "version": score.version,
        "usage": {key: value for key, value in usage.items() if value},
        "sample_rate": score.probability,
        "sample_rate_estimated": score.probability_estimated,
        "reason": score.reason,
        # A metric of the user's may quote the application in a warning.
        "warnings": list(score.warnings) if content else len(score.warnings),
    }
    return {key: value for key, value in about.items() if value}
