"""What a RAG span is told of an interaction that was not evaluated."""

from __future__ import annotations

from rag_eval_hooks import semconv
from rag_eval_hooks.decision import Decision
from rag_eval_hooks.sample import Status
from rag_eval_hooks.semconv import EvalStatus
from rag_eval_hooks.telemetry.limits import Attributes

__all__ = ["dropped", "refusal", "sampled_out"]


def refusal(status: Status) -> Attributes:
    """It ended in a way that is not evaluated."""
    if status is Status.ABANDONED:
        return {semconv.EVAL_STATUS: EvalStatus.ABANDONED.value}
    return dropped(status.value)


def sampled_out(decision: Decision) -> Attributes:
    """It was not chosen."""
    return {
        semconv.EVAL_STATUS: EvalStatus.SAMPLED_OUT.value,
        semconv.EVAL_REASON: decision.because,
    }


def dropped(reason: str) -> Attributes:
    """It was chosen and could not be evaluated."""
    return {semconv.EVAL_STATUS: EvalStatus.DROPPED.value, semconv.EVAL_REASON: reason}
