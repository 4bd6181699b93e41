"""Amounts spent of a budget, in SQLite: in memory, or in a file that processes share."""

from __future__ import annotations

import operator
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile

__all__ = ["Period", "Spend", "SpendStore"]

_BUSY_S: Final = 2.0
"""Seconds to wait for other processes; each holds the file for a fraction of a millisecond."""
_KEPT_S: Final = 7 * 86_400
"""Seconds for which periods are kept, for whoever wants to look."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rag_eval_budget (period TEXT, start INTEGER, calls REAL, "
    "tokens REAL, cost REAL, PRIMARY KEY (period, start)) WITHOUT ROWID"
)
_READ: Final = "SELECT calls, tokens, cost FROM rag_eval_budget WHERE period = ? AND start = ?"
_ADD: Final = (
    "INSERT INTO rag_eval_budget VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cost = cost + excluded.cost"
)
_FORGET: Final = "DELETE FROM rag_eval_budget WHERE start < ?"


@dataclass(frozen=True, slots=True)
class Spend:
    """Amount of calls, tokens of prompts and replies together, and money."""

    calls: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Spend) -> Spend:
        return self._by(operator.add, other)

    def __sub__(self, other: Spend) -> Spend:
        return self._by(operator.sub, other)

    def times(self, factor: float) -> Spend:
        """Return the amount multiplied."""
        return self._by(operator.mul, Spend(factor, factor, factor))

    def least(self, other: Spend) -> Spend:
        """Return the smaller of each part."""
        return self._by(min, other)

    def _by(self, combine: Callable[[float, float], float], other: Spend) -> Spend:
        return Spend(*map(combine, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Period:
    """An hour or a day, its start in seconds since the epoch, and the amount it may take."""

    name: str
    start: int
    limit: Spend


class SpendStore:
    """Amounts by period; every process applies its own limits. Thread-safe.

    An amount that a killed process had reserved stays spent. Every method raises `OSError` while
    the file cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else SqliteFile(path, (_TABLE,), patience=_BUSY_S)
        self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._memory.execute(_TABLE)
        self._lock = threading.Lock()

    def reserve(self, periods: Sequence[Period], amount: Spend) -> Period | None:
        """Add an amount to every period, or to none, in one step.

        Returns:
            The first period whose limit the amount would pass, or None when it was added.
        """
        with self._transaction() as db:
            for period in periods:
                total = _read(db, period) + amount
                if total.least(period.limit) != total:
                    return period
            _write(db, periods, amount)
            return None

    def add(self, periods: Sequence[Period], amount: Spend) -> None:
        """Add an amount, which may be negative, to every period in any case."""
        with self._transaction() as db:
            _write(db, periods, amount)

    def spent(self, period: Period) -> Spend:
        """Return the amount that was added to a period so far, by all processes."""
        with self._transaction() as db:
            return _read(db, period)

    def forked(self) -> None:
        """Replace the lock; amounts in memory go on from those of the parent."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._file is not None:
            self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._file is None:
            with self._lock:
                yield self._memory
            return
        try:
            with self._file.transaction() as db:
                yield db
        except FILE_ERRORS as error:
            raise OSError(f"{self._file.path}: {type(error).__name__}") from error


def _read(db: sqlite3.Connection, period: Period) -> Spend:
    row = db.execute(_READ, (period.name, period.start)).fetchone()
    return Spend(*row) if row else Spend()


def _write(db: sqlite3.Connection, periods: Sequence[Period], amount: Spend) -> None:
    for period in periods:
        db.execute(_ADD, (period.name, period.start, *astuple(amount)))
        db.execute(_FORGET, (period.start - _KEPT_S,))
