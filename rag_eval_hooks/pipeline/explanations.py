"""What became of recent samples, each by its own name: the books in detail, for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["ADVICE", "Explanation", "Explanations", "advice_for"]

_MOST_PER_KEY: Final = 8  # samples of one trace

ADVICE: Final[Mapping[str, str]] = {
    "sampled_out": "sample_rate, a rate of its metrics or a rule left it out; the same trace id is "
    "left out in every process",
    "queue_full": "samples came faster than they were evaluated: lower sample_rate, or raise "
    "queue_size, evaluator_concurrency or judge_concurrency",
    "shutdown": "the process ended first: raise exit_timeout, or call flush before the end",
    "no_thread": "the system gave no thread, or the interpreter was ending",
    "capture_failed": "an object of the application could not be read; see incidents in stats()",
    "redaction_failed": "a redactor raised, so nothing was evaluated; see incidents in stats()",
    "error": "the request itself ended with an exception; only answers are scored",
    "cancelled": "the request was cancelled; only whole answers are scored",
    "closed": "the reader left the stream before its end; only whole answers are scored",
    "abandoned": "the request never ended within interaction_ttl",
    "interrupted": "its graph waited for somebody, and was not resumed within interaction_ttl",
    "rate_limit": "more samples were chosen than rate_limit lets through",
    "budget": "the budget of judge calls left it no metric: raise budget, or lower the rates",
    "spooled": "the process ended first; the next one that opens the spool evaluates it",
    "taken_over": "another process has taken the sample from the spool and delivers it",
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
    "evaluator_died": "the evaluator process ended while it had the sample, twice; see the log",
    "over_budget": "the budget of judge calls was used up",
}
"""What a reason means, and what to do about it."""


def advice_for(reason: str) -> str:
    """The advice for a reason, or an empty text for one that has none."""
    return ADVICE.get(reason, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What became of one sample. Holds no content.

    Attributes:
        key: Its trace id, or its sample id where no trace was recorded.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Why it was dropped or failed, as in `Stats`.
        absent: Metrics without a score, each with its cause and what is known of it.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """One line for a person."""
        line = " ".join(filter(None, (self.outcome, self.reason and f"({self.reason})")))
        advice = advice_for(self.reason or self.outcome)
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))


class Explanations:
    """The explanations of the samples entered last. Guarded by the lock of the books.

    Args:
        most: How many traces are remembered; the oldest leaves first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[str, list[Explanation]] = OrderedDict()

    def add(self, explanation: Explanation) -> None:
        """Enters a sample, or what became of the one that was pending."""
        of_key = self._known.setdefault(explanation.key, [])
        pending = next((e for e in of_key if e.outcome == "pending"), None)
        if pending is not None and explanation.outcome != "pending":
            of_key[of_key.index(pending)] = explanation
        else:
            of_key.append(explanation)
            del of_key[:-_MOST_PER_KEY]
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def of(self, key: str) -> tuple[Explanation, ...]:
        """What is known of a key, in order."""
        return tuple(self._known.get(key, ()))
