"""The books: every sample offered stands in exactly one column, at every moment."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rag_eval_hooks.books.explanations import Explanation, Explanations

__all__ = ["Ledger", "Stats"]

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What became of the samples offered so far. `offered` is the sum of the rest.

    Attributes:
        offered: Interactions that ended, samples offered by hand, samples recovered from the spool,
            and evaluations that a feedback asked for: each of these is counted once more, as a unit
            of its own.
        scored: Evaluated, with a score for at least one metric.
        sampled_out: Left out by the sample rate, a rate of metrics or a rule.
        dropped: Not evaluated, by reason: `queue_full`, `shutdown`, `no_thread`,
            `capture_failed`, `redaction_failed`, `rate_limit`, `budget` (it left no metric), or a
            status other than ok (`error`, `cancelled`, `closed`, `abandoned`, `interrupted`). With
            a spool also `spooled` (left in it at shutdown, for the next process), `taken_over`
            (another process has the sample), and `gave_up` (its evaluation was begun ten times by
            processes that did not live to its end).
        failed: Evaluated without any score, by the first `Cause` that is a failure, else by the
            first: `undefined` and `missing_input` say that no metric has a value for this sample.
        pending: Waiting or being evaluated.
        decisions: Decisions so far by reason: `ratio`, `rule:<name>`, `tail:<name>`, `sampled_out`,
            `sampled_out:rule:<name>`, `feedback:<name>`, `reference`; and `rate_limit` for each
            that was chosen in vain. Not part of the sum, nor of equality.
        refused: Metrics that a refusal left unscored, by reason: `budget`. Likewise.
        feedback: Calls of `feedback` by what became of them: `joined`, `unknown`, `invalid`, or
            why it could not be taken. Likewise.
        incidents: Exceptions caught at an edge (host, metric, judge, sink), by kind. Not part of
            the sum: a sample whose sink failed is scored.
        recovered: Of `offered`, those that processes which have ended left in the spool.
        undurable: Of `offered`, those that could not be kept in the spool; they were evaluated
            from memory.
    """

    offered: int = 0
    scored: int = 0
    sampled_out: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    incidents: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    undurable: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict, compare=False)
    refused: Mapping[str, int] = field(default_factory=dict, compare=False)
    feedback: Mapping[str, int] = field(default_factory=dict, compare=False)


class Ledger:
    """Counts samples by outcome. Thread-safe.

    An accepted sample has a ticket, and its first settlement counts: a second one is ignored, so
    whoever is last to know of a sample may settle it to be sure.

    Args:
        explained: How many recent traces `explain` knows of.
    """

    def __init__(self, explained: int = 10_000) -> None:
        self._explanations = Explanations(explained)
        self._changed = threading.Condition()
        self._tickets = itertools.count()
        # In order of acceptance, so that the first is the oldest.
        self._pending: dict[int, str] = {}
        self._scored = 0
        self._sampled_out = 0
        self._dropped: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._errands: set[int] = set()
        self._notes: dict[str, Counter[str]] = {
            "decisions": Counter(),
            "refused": Counter(),
            "feedback": Counter(),
        }

    def note(self, column: str, reason: str, count: int = 1) -> None:
        """Counts something that is no sample.

        Args:
            column: `decisions`, `refused` or `feedback`.
            reason: Its row.
            count: How many.
        """
        with self._changed:
            self._notes[column][reason] += count

    def sampled_out(
        self,
        key: str = "",
        ids: Sequence[str] = (),
        reason: str = "",
        probability: float | None = None,
    ) -> None:
        """Enters a sample that the sampler left out.

        Args:
            key: As for `accepted`.
            ids: Likewise.
            reason: What left it out.
            probability: How likely one like it is chosen.
        """
        with self._changed:
            self._sampled_out += 1
            if key:
                told = Explanation(
                    key=key, outcome="sampled_out", reason=reason, probability=probability
                )
                self._explanations.add(told, None, ids)

    def dropped(self, reason: str, key: str = "", ids: Sequence[str] = ()) -> None:
        """Enters a sample that was not accepted."""
        with self._changed:
            self._dropped[reason] += 1
            if key:
                told = Explanation(key=key, outcome="dropped", reason=reason)
                self._explanations.add(told, None, ids)

    def accepted(self, key: str = "", ids: Sequence[str] = ()) -> int:
        """Enters a sample as pending.

        Args:
            key: By which `explain` finds it, if not empty: the trace id, or the sample id.
            ids: Further ids by which it does.

        Returns:
            The ticket by which it is settled.
        """
        with self._changed:
            ticket = next(self._tickets)
            self._pending[ticket] = key
            if key:
                told = Explanation(key=key, outcome="pending")
                self._explanations.add(told, ticket, ids)
            return ticket

    def identify(self, ticket: int, sample_id: str) -> None:
        """Notes the id of a pending sample, which may be made long after it was accepted."""
        with self._changed:
            if key := self._pending.get(ticket):
                self._explanations.identify(key, ticket, sample_id)

    def errand(self) -> int:
        """Enters work that is no sample: `wait` waits for it, the books do not show it.

        Returns:
            The ticket by which it is ended.
        """
        with self._changed:
            ticket = next(self._tickets)
            self._pending[ticket] = ""
            self._errands.add(ticket)
            return ticket

    def end_errand(self, ticket: int) -> None:
        """Ends such work."""
        with self._changed:
            self._settled(ticket, "ended")

    def settle_sampled_out(
        self, ticket: int, reason: str = "", probability: float | None = None
    ) -> None:
        """Moves a pending sample to sampled out."""
        with self._changed:
            if self._settled(ticket, "sampled_out", reason, probability=probability):
                self._sampled_out += 1

    def settle_scored(self, ticket: int, absent: Mapping[str, str] = _NOTHING) -> None:
        """Moves a pending sample to scored.

        Args:
            ticket: Its ticket.
            absent: Why some of its metrics have no score.
        """
        with self._changed:
            if self._settled(ticket, "scored", absent=absent):
                self._scored += 1

    def settle_failed(self, ticket: int, cause: str, absent: Mapping[str, str] = _NOTHING) -> None:
        """Moves a pending sample to failed."""
        with self._changed:
            if self._settled(ticket, "failed", cause, absent):
                self._failed[cause] += 1

    def settle_dropped(self, ticket: int, reason: str) -> None:
        """Moves a pending sample to dropped."""
        with self._changed:
            if self._settled(ticket, "dropped", reason):
                self._dropped[reason] += 1

    def explain(self, key: str) -> tuple[Explanation, ...]:
        """What became of the samples of a key, as far as it is remembered."""
        with self._changed:
            return self._explanations.of(key)

    def _settled(
        self,
        ticket: int,
        outcome: str,
        reason: str = "",
        absent: Mapping[str, str] = _NOTHING,
        probability: float | None = None,
    ) -> bool:
        if ticket not in self._pending:
            return False
        if key := self._pending.pop(ticket):
            told = Explanation(
                key=key, outcome=outcome, reason=reason, absent=absent, probability=probability
            )
            self._explanations.add(told, ticket)
        self._errands.discard(ticket)
        self._changed.notify_all()
        return True

    def wait(self, timeout: float | None) -> bool:
        """Blocks until all that was accepted before the call is settled.

        Args:
            timeout: Seconds to wait at most, or None without limit.

        Returns:
            Whether it was.
        """
        with self._changed:
            last = next(reversed(self._pending), -1)
            return self._changed.wait_for(
                lambda: next(iter(self._pending), last + 1) > last, timeout
            )

    def snapshot(self, incidents: Mapping[str, int]) -> Stats:
        """The books at one moment."""
        with self._changed:
            dropped, failed = dict(self._dropped), dict(self._failed)
            pending = len(self._pending) - len(self._errands)
            counted = self._scored + self._sampled_out + pending
            notes = {column: dict(counts) for column, counts in self._notes.items()}
            return Stats(
                offered=counted + sum(dropped.values()) + sum(failed.values()),
                scored=self._scored,
                sampled_out=self._sampled_out,
                dropped=dropped,
                failed=failed,
                pending=pending,
                incidents=incidents,
                decisions=notes["decisions"],
                refused=notes["refused"],
                feedback=notes["feedback"],
            )
