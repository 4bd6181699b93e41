"""Amounts spent of a budget, in memory or in a file that processes share."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile

__all__ = [
    "BUSY_S",
    "KEPT_S",
    "LONGEST_TURN",
    "MemoryStore",
    "Period",
    "Spend",
    "SqliteStore",
]

LONGEST_TURN: Final = 10.0
"""Seconds up to which turns are given in advance; a call that would wait longer asks again."""

BUSY_S: Final = 2.0
"""Seconds to wait for other processes; each holds the store for a fraction of a millisecond."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rag_eval_budget (period TEXT, start INTEGER, calls REAL, "
    "tokens REAL, cost REAL, PRIMARY KEY (period, start)) WITHOUT ROWID"
)
KEPT_S: Final = 7 * 86_400
"""Seconds for which periods are kept, for whoever wants to look."""


@dataclass(frozen=True, slots=True)
class Spend:
    """Amount of calls, tokens and money.

    Attributes:
        calls: Judge calls.
        tokens: Tokens of prompts and replies together.
        cost: Money, in the currency of the price table.
    """

    calls: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.calls + other.calls, self.tokens + other.tokens, self.cost + other.cost
        )

    def __sub__(self, other: Self) -> Self:
        return type(self)(
            self.calls - other.calls, self.tokens - other.tokens, self.cost - other.cost
        )

    def within(self, limit: Spend) -> bool:
        """Return whether no part is above its limit."""
        return self.calls <= limit.calls and self.tokens <= limit.tokens and self.cost <= limit.cost


@dataclass(frozen=True, slots=True)
class Period:
    """An hour or a day with its limit.

    Attributes:
        name: `hour` or `day`.
        start: Its beginning in seconds since the epoch.
        limit: Amount that may be spent in it; infinite without a limit.
    """

    name: str
    start: int
    limit: Spend


_TURN: Final = Period("turn", 1 << 60, Spend())
"""Row whose number of calls is the time of the next turn."""


class MemoryStore:
    """Amounts of one process, in memory. Thread-safe."""

    def __init__(self) -> None:
        self._spent: dict[tuple[str, int], Spend] = {}
        self._turn = 0.0
        self._lock = threading.Lock()

    def reserve(self, periods: Sequence[Period], amount: Spend) -> Period | None:
        """Add an amount to every period, or to none, in one step.

        Returns:
            The first period whose limit the amount would pass, or None when it was added.
        """
        with self._lock:
            for period in periods:
                if not (self._of(period) + amount).within(period.limit):
                    return period
            self._put(periods, amount)
            return None

    def add(self, periods: Sequence[Period], amount: Spend) -> None:
        """Add an amount, which may be negative, to every period in any case."""
        with self._lock:
            self._put(periods, amount)

    def turn(self, interval: float, now: float) -> float:
        """Give a call its turn, an interval after the one before.

        Args:
            interval: Seconds between two turns.
            now: Seconds since the epoch.

        Returns:
            Seconds until it; above `LONGEST_TURN`, none was given.
        """
        with self._lock:
            at = max(self._turn, now)
            if at - now <= LONGEST_TURN:
                self._turn = at + interval
            return at - now

    def spent(self, period: Period) -> Spend:
        """Return the amount that was added to a period so far."""
        with self._lock:
            return self._of(period)

    def forked(self) -> None:
        """Replace the lock, and go on from the amounts of the parent."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Do nothing."""

    def _of(self, period: Period) -> Spend:
        return self._spent.get((period.name, period.start), Spend())

    def _put(self, periods: Sequence[Period], amount: Spend) -> None:
        for period in periods:
            self._spent[period.name, period.start] = self._of(period) + amount
            for key in [k for k in self._spent if k[1] < period.start - KEPT_S]:
                del self._spent[key]


class SqliteStore:
    """Amounts in a file, shared by all processes that name it; each applies its own limits.

    An amount that a killed process had reserved stays spent: rather too much than too little.
    Every method raises `OSError` while the file cannot be used.

    Args:
        path: The file; its folder must exist. Not on a network drive.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(Path(path), (_TABLE,), patience=BUSY_S)

    def reserve(self, periods: Sequence[Period], amount: Spend) -> Period | None:
        """Add an amount to every period, or to none, in one transaction."""
        with self._transaction() as connection:
            for period in periods:
                if not (_read(connection, period) + amount).within(period.limit):
                    return period
            _write(connection, periods, amount)
            return None

    def add(self, periods: Sequence[Period], amount: Spend) -> None:
        """Add an amount to every period."""
        with self._transaction() as connection:
            _write(connection, periods, amount)

    def turn(self, interval: float, now: float) -> float:
        """Give a call its turn; see `MemoryStore.turn`."""
        with self._transaction() as connection:
            at = max(_read(connection, _TURN).calls, now)
            if at - now <= LONGEST_TURN:
                connection.execute(
                    "INSERT OR REPLACE INTO rag_eval_budget VALUES (?, ?, ?, 0, 0)",
                    (_TURN.name, _TURN.start, at + interval),
                )
            return at - now

    def spent(self, period: Period) -> Spend:
        """Return the amount that all processes have added to a period so far."""
        with self._transaction() as connection:
            return _read(connection, period)

    def forked(self) -> None:
        """Do nothing: the file is closed before a fork, and the next use opens it."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._file.transaction() as connection:
                yield connection
        except FILE_ERRORS as error:
            raise OSError(f"{self._file.path}: {type(error).__name__}") from error


def _read(connection: sqlite3.Connection, period: Period) -> Spend:
    query = "SELECT calls, tokens, cost FROM rag_eval_budget WHERE period = ? AND start = ?"
    with closing(connection.execute(query, (period.name, period.start))) as rows:
        row = rows.fetchone()
    return Spend() if row is None else Spend(*row)


def _write(connection: sqlite3.Connection, periods: Sequence[Period], amount: Spend) -> None:
    for period in periods:
        connection.execute(
            "INSERT INTO rag_eval_budget VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "calls = calls + excluded.calls, tokens = tokens + excluded.tokens, "
            "cost = cost + excluded.cost",
            (period.name, period.start, amount.calls, amount.tokens, amount.cost),
        )
        connection.execute("DELETE FROM rag_eval_budget WHERE start < ?", (period.start - KEPT_S,))
