"""Statistics of requests: every request stands in exactly one column at every moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from rag_eval_hooks.books.explanations import Explanation, Explanations
from rag_eval_hooks.ending import BUDGET, Column, Ending
from rag_eval_hooks.outcome_view import html_table
from rag_eval_hooks.work import Observer, Work

__all__ = ["Ledger", "Stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Counts of all samples offered so far, by column. `offered` is the sum of the columns.

    Attributes:
        offered: Ended interactions, samples offered by hand, samples recovered from the spool, and
            evaluations that a feedback asked for, each of which counts once more.
        scored: Evaluated, with a score for at least one metric.
        sampled_out: Left out by the sample rate, a rate of metrics or a rule.
        dropped: Not evaluated, by reason: `queue_full`, `shutdown`, `no_thread`,
            `capture_failed`, `no_question`, `redaction_failed`, `rate_limit`, `budget` (it left no
            metric), or a status other than ok (`error`, `cancelled`, `closed`, `abandoned`,
            `interrupted`). With a spool also `spooled` (left for the next process at shutdown,
            or until the broker is back), and
            `gave_up` (ten processes began to evaluate it and ended before they had finished).
        failed: Evaluated without any score, by the first `Cause` that is a failure, else by the
            first: `undefined` and `missing_input` say that no metric has a value for this sample.
            `partial`: the judge failed, and only metrics that need none have a score.
        shipped: Handed over to the workers of a fleet, which count its end; without those whose
            results came back in time.
        pending: Waiting or being evaluated.
        decisions: Decisions so far by reason: `ratio`, `rule:<name>`, `tail:<name>`, `sampled_out`,
            `sampled_out:rule:<name>`, `feedback:<name>`, `reference`; and `rate_limit` for each
            sample beyond the limit. Not part of the sum, nor of equality.
        refused: Metrics that a refusal left unscored, by reason: `budget`. Not part of the sum.
        failures: Scores that are missing through a failure, by metric and cause, such as
            `ragas.faithfulness: judge_failed`. Not part of the sum.
        feedback: Calls of `feedback` by result: `joined`, `unknown`, `invalid`, or the reason of a
            refusal. Not part of the sum.
        incidents: Exceptions caught at an edge (host, metric, judge, sink), by kind. Not part of
            the sum: a sample whose sink failed is scored.
        recovered: Part of `offered` that processes which have ended left in the spool.
        without_retrieval: Requests in which a model spoke and capture saw no retrieved text. Not
            part of the sum.
        undurable: Part of `offered` that could not be stored in the spool and was evaluated from
            memory.
    """

    offered: int = 0
    scored: int = 0
    sampled_out: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    shipped: int = 0
    pending: int = 0
    incidents: Mapping[str, int] = field(default_factory=dict)
    recovered: int = 0
    undurable: int = 0
    without_retrieval: int = field(default=0, compare=False)
    decisions: Mapping[str, int] = field(default_factory=dict, compare=False)
    refused: Mapping[str, int] = field(default_factory=dict, compare=False)
    failures: Mapping[str, int] = field(default_factory=dict, compare=False)
    feedback: Mapping[str, int] = field(default_factory=dict, compare=False)

    def _repr_html_(self) -> str:
        counts = [(one.name, getattr(self, one.name)) for one in fields(self)]
        shown = [(name, _in_words(count)) for name, count in counts if count]
        return html_table(shown or [("offered", 0)])


def _in_words(count: int | Mapping[str, int]) -> str:
    if isinstance(count, int):
        return str(count)
    return ", ".join(f"{number} {reason}" for reason, number in count.items())


class Ledger(Observer):
    """Counts requests by their ends. Thread-safe.

    Args:
        explained: Recent traces that `explain` knows.
    """

    def __init__(self, explained: int = 10_000) -> None:
        self._explanations = Explanations(explained)
        self._changed = threading.Condition()
        # Numbers of accepted items, in rising order.
        self._pending: dict[object, int] = {}
        self._numbered = 0
        self._pending_feedback = 0
        self._columns: Counter[Column] = Counter()
        self._dropped: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._notes: dict[str, Counter[str]] = {
            "decisions": Counter(),
            "refused": Counter(),
            "failures": Counter(),
            "feedback": Counter(),
        }

    def note(self, column: str, reason: str, count: int = 1) -> None:
        """Count an event that is not the end of a request.

        Args:
            column: `decisions`, `refused` or `feedback`.
            reason: Row of the column.
            count: Number of events.
        """
        with self._changed:
            self._notes[column][reason] += count

    def accepted(self, work: Work) -> None:
        """Enter a request as pending."""
        with self._changed:
            number = self._begin(work)
            self._explanations.add(number, work, Explanation(key=work.key, outcome="pending"))

    async def begun(self, work: Work) -> None:
        """Remember the id of a request's sample, by which `explain` finds it."""
        with self._changed:
            self._explanations.identify(self._pending[work], work, work.sample().sample_id)

    def settled(self, work: Work, ending: Ending) -> None:
        """Enter the end of a request, accepted or not."""
        explanation = Explanation(
            key=work.key,
            outcome=ending.column.value,
            reason=ending.reason,
            absent=ending.absent,
            probability=ending.probability,
        )
        refused, failures = ending.refused, ending.failures
        with self._changed:
            if ending.column is Column.DROPPED:
                self._dropped[ending.reason] += 1
            elif ending.column is Column.FAILED:
                self._failed[ending.reason] += 1
            else:
                self._columns[ending.column] += 1
            self._notes["failures"].update(failures)
            if refused:
                self._notes["refused"][BUDGET] += refused
            number = self._pending.get(work) or self._next_number()
            self._explanations.add(number, work, explanation)
            self._end(work)

    def begin_feedback(self, feedback: object) -> None:
        """Enter a feedback: `wait` waits for it, the columns do not show it."""
        with self._changed:
            self._pending_feedback += 1
            self._begin(feedback)

    def end_feedback(self, feedback: object) -> None:
        """Remove a feedback, once."""
        with self._changed:
            if feedback in self._pending:
                self._pending_feedback -= 1
                self._end(feedback)

    def explain(self, key: str) -> tuple[Explanation, ...]:
        """Return the explanations of the samples of an id, as far as they are remembered."""
        with self._changed:
            return self._explanations.of(key)

    def wait(self, timeout: float | None) -> bool:
        """Block until all that was accepted before the call is settled.

        Args:
            timeout: Seconds to wait at most, or None without limit.

        Returns:
            Whether it was settled in time.
        """
        with self._changed:
            last = self._numbered
            return self._changed.wait_for(
                lambda: next(iter(self._pending.values()), last + 1) > last, timeout
            )

    def snapshot(
        self, incidents: Mapping[str, int], *, recovered: int = 0, undurable: int = 0
    ) -> Stats:
        """Return the statistics at this moment."""
        with self._changed:
            dropped, failed = dict(self._dropped), dict(self._failed)
            scored, sampled_out = self._columns[Column.SCORED], self._columns[Column.SAMPLED_OUT]
            pending = len(self._pending) - self._pending_feedback
            shipped = self._columns[Column.SHIPPED]
            ended = scored + sampled_out + shipped + sum(dropped.values()) + sum(failed.values())
            notes = {column: dict(counts) for column, counts in self._notes.items()}
            return Stats(
                offered=pending + ended,
                scored=scored,
                sampled_out=sampled_out,
                dropped=dropped,
                failed=failed,
                shipped=shipped,
                pending=pending,
                incidents=incidents,
                recovered=recovered,
                undurable=undurable,
                decisions=notes["decisions"],
                refused=notes["refused"],
                failures=notes["failures"],
                feedback=notes["feedback"],
            )

    def _begin(self, item: object) -> int:
        number = self._pending[item] = self._next_number()
        return number

    def _next_number(self) -> int:
        self._numbered += 1
        return self._numbered

    def _end(self, item: object) -> None:
        if self._pending.pop(item, None) is not None:
            self._changed.notify_all()
