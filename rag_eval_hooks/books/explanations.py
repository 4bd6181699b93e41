"""What became of recent samples, each by its own name: the books in detail, for a while."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rag_eval_hooks.feedback import id_of

__all__ = ["ADVICE", "Explanation", "Explanations", "advice_for"]

_MOST_PER_KEY: Final = 8  # samples of one trace

ADVICE: Final[Mapping[str, str]] = {
    "scored": "its scores stand on its RAG span, or on the span `evaluation` that links to it, and "
    "in the sinks",
    "pending": "it waits, or is being evaluated; flush() waits for it",
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
        key: Its trace id, or its sample id or root run's id where no trace was recorded.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Why it was dropped or failed, as in `Stats`; what left it out: `ratio`,
            `rule:<name>`, `tail:<name>`.
        absent: Metrics without a score, each with its cause and what is known of it.
        sample_id: Its own id, once the sample was made; one that was left out has none.
        probability: How likely one like it is chosen, where it was left out.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    sample_id: str | None = None
    probability: float | None = None

    def __str__(self) -> str:
        """One line for a person."""
        chance = "" if self.probability is None else f"probability {self.probability:g}"
        why = ", ".join(filter(None, (self.reason, chance)))
        line = " ".join(filter(None, (self.outcome, why and f"({why})")))
        advice = advice_for(self.reason) or advice_for(self.outcome)
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))


class Explanations:
    """The explanations of the samples entered last. Guarded by the lock of the books.

    Args:
        most: How many traces are remembered; the oldest leaves first.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[str, _Told] = OrderedDict()
        self._keys: dict[str, str] = {}

    def add(
        self, explanation: Explanation, ticket: int | None = None, ids: Iterable[str] = ()
    ) -> None:
        """Enters a sample, or what became of the one that was pending.

        Args:
            explanation: Of it.
            ticket: Of the books, by which it is the same as before; None for one that has none.
            ids: Further ids by which it is found.
        """
        of_key = self._known.setdefault(explanation.key, _Told())
        of_key.enter(explanation, ticket)
        for name in ids:
            self._name(name, explanation.key)
        while len(self._known) > self._most:
            self._forget(*self._known.popitem(last=False))

    def identify(self, key: str, ticket: int, sample_id: str) -> None:
        """Notes the id of the sample of a ticket, by which it is found from now on."""
        of_key = self._known.get(key)
        if of_key is not None and of_key.identify(ticket, sample_id):
            self._name(id_of(sample_id), key)

    def of(self, name: str) -> tuple[Explanation, ...]:
        """What is known of an id, in order: of a sample's id that one, else all of the trace."""
        of_key = self._known.get(self._keys.get(name, name))
        told = () if of_key is None else of_key.all()
        own = tuple(one for one in told if one.sample_id and id_of(one.sample_id) == name)
        return own or told

    def _name(self, name: str, key: str) -> None:
        if name != key and key in self._known:
            self._keys[name] = key
            self._known[key].names.append(name)

    def _forget(self, key: str, told: _Told) -> None:
        for name in told.names:
            if self._keys.get(name) == key:
                del self._keys[name]


class _Told:
    """The samples of one key, the last of them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        # By ticket; those that never had one count down.
        self._samples: OrderedDict[int, Explanation] = OrderedDict()
        self._unnumbered = 0

    def all(self) -> tuple[Explanation, ...]:
        return tuple(self._samples.values())

    def enter(self, explanation: Explanation, ticket: int | None) -> None:
        if ticket is None:
            self._unnumbered -= 1
            ticket = self._unnumbered
        before = self._samples.get(ticket)
        if before is not None and explanation.sample_id is None:
            explanation = replace(explanation, sample_id=before.sample_id)
        self._samples[ticket] = explanation
        if len(self._samples) > _MOST_PER_KEY:
            self._samples.popitem(last=False)

    def identify(self, ticket: int, sample_id: str) -> bool:
        known = self._samples.get(ticket)
        if known is not None:
            self._samples[ticket] = replace(known, sample_id=sample_id)
        return known is not None
