"""Explanation of what happened to a sample, for a person who asks about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["ADVICE", "Explanation", "advice_for"]

ADVICE: Final[Mapping[str, str]] = {
    "scored": "its scores stand on its RAG span, or on the span `evaluation` that links to it, and "
    "in the sinks",
    "pending": "it waits, or is being evaluated; flush() waits for it",
    "sampled_out": "sample_rate, a rate of its metrics or a rule left it out; the same trace id is "
    "left out in every process",
    "queue_full": "samples came faster than they were evaluated: lower sample_rate, or raise "
    "queue_size or judge_concurrency",
    "shutdown": "the process ended first: raise exit_timeout, or call flush before the end",
    "no_thread": "the system gave no thread, or the interpreter was ending",
    "capture_failed": "an object of the application could not be read; see incidents in stats()",
    "no_question": "no text of the input could be the question: name it by `question=`",
    "without_retrieval": "no retrieved text was seen, so there is no sample; see docs/capture.md",
    "redaction_failed": "a redactor raised, so nothing was evaluated; see incidents in stats()",
    "error": "the request itself ended with an exception; only answers are scored",
    "cancelled": "the request was cancelled; only whole answers are scored",
    "closed": "the reader left the stream before its end; only whole answers are scored",
    "abandoned": "the request did not end within ten minutes",
    "interrupted": "its graph waited for somebody, and was not resumed within ten minutes",
    "rate_limit": "more samples were chosen than rate_limit lets through",
    "budget": "the budget of judge calls left it no metric: raise budget, or lower the rates",
    "shipped": "a worker evaluates it: look into the worker's telemetry and sinks",
    "broker": "the broker did not accept it for a minute; set spool to keep such samples",
    "spooled": "the process ended first; the next one that opens the spool evaluates it",
    "gave_up": "its evaluation was begun ten times by processes that died: it may be the cause",
    "unreadable": "its row in the spool could not be read",
    "missing_input": "no chosen metric can be fed by the sample; see `rag-eval-hooks metrics`",
    "undefined": "every chosen metric has no value for it, such as a share of no claims",
    "judge_failed": "the judge gave no usable reply: run `rag-eval-hooks doctor`",
    "metric_failed": "a metric raised; see incidents in stats()",
    "timeout": "the judge did not reply in time: raise sample_timeout or judge_timeout, or lower "
    "the load",
    "judge_unavailable": "too many judge calls had failed in a row, so none was made: run "
    "`rag-eval-hooks doctor`",
    "over_budget": "the budget of judge calls was used up",
}
"""Meaning of each reason, and advice."""


def advice_for(reason: str) -> str:
    """Return the advice for a reason; empty if there is none."""
    return ADVICE.get(reason, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """End of one sample, for a person. Holds no content.

    Attributes:
        key: Trace id, or the sample's or root run's id if no trace was recorded.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Reason of a drop or failure, as in `Stats`; for a sample that was left out, the
            origin of its rate: `ratio`, `rule:<name>`, `tail:<name>`.
        absent: Cause and detail by metric without a score.
        sample_id: Id of the sample, once it was built.
        probability: Inclusion probability of a sample that was left out.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    sample_id: str | None = None
    probability: float | None = None

    def __str__(self) -> str:
        """Return one line of text."""
        chance = "" if self.probability is None else f"probability {self.probability:g}"
        why = ", ".join(filter(None, (self.reason, chance)))
        line = " ".join(filter(None, (self.outcome, why and f"({why})")))
        advice = advice_for(self.reason) or advice_for(self.outcome)
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))
