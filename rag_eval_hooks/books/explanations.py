"""Explanations of what happened to recent samples, for a person who asks about one of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.work import Work

__all__ = ["ADVICE", "Explanation", "Explanations", "advice_for"]

_MOST_PER_KEY: Final = 8  # samples of one trace

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
    "abandoned": "the request never ended within interaction_ttl",
    "interrupted": "its graph waited for somebody, and was not resumed within interaction_ttl",
    "rate_limit": "more samples were chosen than rate_limit lets through",
    "budget": "the budget of judge calls left it no metric: raise budget, or lower the rates",
    "shipped": "a worker evaluates it: ask the workers' trace, or `rag-eval-hooks doctor --fleet`",
    "broker": "the broker did not take it for sink_retry_for; set spool to keep such samples",
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


class Explanations:
    """Explanations of the latest requests, by trace. Not thread-safe.

    Args:
        most: Traces at most; the oldest leaves first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._traces: OrderedDict[str, _Trace] = OrderedDict()
        self._keys: dict[str, str] = {}

    def add(self, number: int, work: Work, explanation: Explanation) -> None:
        """Add a request, or replace its earlier explanation; one without a key is left out.

        Args:
            number: Number of the request, unique among all.
            work: The request.
            explanation: Its present explanation.
        """
        if not work.key:
            return
        trace = self._traces.get(work.key)
        if trace is None:
            trace = self._traces[work.key] = _Trace()
            if len(self._traces) > self._most:
                self._forget(*self._traces.popitem(last=False))
        before = trace.requests.get(number)
        if before is None:
            for name in work.ids:
                self._name(name, work.key)
        elif before.sample_id is not None:
            explanation = replace(explanation, sample_id=before.sample_id)
        trace.requests[number] = explanation
        if len(trace.requests) > _MOST_PER_KEY:
            trace.requests.popitem(last=False)

    def identify(self, number: int, work: Work, sample_id: str) -> None:
        """Note the id of a request's sample, by which it is known from now on."""
        trace = self._traces.get(work.key)
        known = None if trace is None else trace.requests.get(number)
        if trace is not None and known is not None:
            trace.requests[number] = replace(known, sample_id=sample_id)
            self._name(id_of(sample_id), work.key)

    def of(self, name: str) -> tuple[Explanation, ...]:
        """Return the explanation of a sample's id, or those of all samples of a trace, in order."""
        trace = self._traces.get(self._keys.get(name, name))
        explanations = () if trace is None else tuple(trace.requests.values())
        own = tuple(one for one in explanations if one.sample_id and id_of(one.sample_id) == name)
        return own or explanations

    def _name(self, name: str, key: str) -> None:
        if name != key and key in self._traces:
            self._keys[name] = key
            self._traces[key].names.append(name)

    def _forget(self, key: str, trace: _Trace) -> None:
        for name in trace.names:
            if self._keys.get(name) == key:
                del self._keys[name]


@dataclass(slots=True)
class _Trace:
    """Latest requests of one trace, and the further ids by which the trace is found."""

    requests: OrderedDict[int, Explanation] = field(default_factory=OrderedDict)
    names: list[str] = field(default_factory=list)
