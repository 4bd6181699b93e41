"""The books: every sample offered stands in exactly one column, at every moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Ledger", "Stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What became of the samples offered so far. `offered` is the sum of the rest.

    Attributes:
        offered: Interactions that ended, and samples offered by hand.
        scored: Evaluated, with a score for at least one metric.
        sampled_out: Left out by the sample rate.
        dropped: Not evaluated, by reason: `queue_full`, `shutdown`, `no_thread`,
            `capture_failed`, or a status other than ok (`error`, `cancelled`, `closed`,
            `abandoned`).
        failed: Evaluated without any score, by the first `Cause` that is a failure, else by the
            first: `undefined` says that no metric has a value for this sample.
        pending: Waiting or being evaluated.
        incidents: Exceptions caught at an edge (host, metric, judge, sink), by kind. Not part of
            the sum: a sample whose sink failed is scored.
    """

    offered: int = 0
    scored: int = 0
    sampled_out: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    incidents: Mapping[str, int] = field(default_factory=dict)


class Ledger:
    """Counts samples by outcome. Thread-safe; each sample is entered once and settled once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._scored = 0
        self._sampled_out = 0
        self._pending = 0
        self._dropped: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def sampled_out(self) -> None:
        """Enters a sample that the sampler left out."""
        with self._changed:
            self._sampled_out += 1

    def dropped(self, reason: str) -> None:
        """Enters a sample that was not accepted."""
        with self._changed:
            self._dropped[reason] += 1

    def accepted(self) -> None:
        """Enters a sample as pending; one `settle_*` must follow."""
        with self._changed:
            self._pending += 1

    def settle_scored(self) -> None:
        """Moves a pending sample to scored."""
        with self._changed:
            self._scored += 1
            self._settled()

    def settle_failed(self, cause: str) -> None:
        """Moves a pending sample to failed."""
        with self._changed:
            self._failed[cause] += 1
            self._settled()

    def settle_dropped(self, reason: str) -> None:
        """Moves a pending sample to dropped."""
        with self._changed:
            self._dropped[reason] += 1
            self._settled()

    def _settled(self) -> None:
        self._pending -= 1
        if not self._pending:
            self._changed.notify_all()

    def wait_idle(self, timeout: float | None) -> bool:
        """Blocks until nothing is pending.

        Args:
            timeout: Seconds to wait at most, or None without limit.

        Returns:
            Whether nothing was pending in the end.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, timeout)

    def snapshot(self, incidents: Mapping[str, int]) -> Stats:
        """The books at one moment."""
        with self._changed:
            dropped, failed = dict(self._dropped), dict(self._failed)
            return Stats(
                offered=self._scored
                + self._sampled_out
                + self._pending
                + sum(dropped.values())
                + sum(failed.values()),
                scored=self._scored,
                sampled_out=self._sampled_out,
                dropped=dropped,
                failed=failed,
                pending=self._pending,
                incidents=incidents,
            )
