"""Amounts spent of a budget, in memory or in a file that processes share."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile

__all__ = [
    "LONGEST_TURN",
    "BudgetStore",
    "MemoryStore",
    "Period",
    "RedisStore",
    "Spend",
    "SqliteStore",
]

LONGEST_TURN: Final = 10.0
"""Seconds up to which turns are given in advance; a call that would wait longer asks again."""

_BUSY: Final = 2.0
"""Seconds to wait for other processes; each holds the file for a fraction of a millisecond."""
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rag_eval_budget (period TEXT, start INTEGER, calls REAL, "
    "tokens REAL, cost REAL, PRIMARY KEY (period, start)) WITHOUT ROWID"
)
_PREFIX: Final = "rag_eval:budget:"
_KEPT: Final = 7 * 86_400
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
_RESERVE: Final = """
for i = 1, #KEYS do
  for j = 1, 3 do
    local most = ARGV[3 + (i - 1) * 3 + j]
    local spent = tonumber(redis.call('HGET', KEYS[i], j) or 0)
    if most ~= 'inf' and spent + tonumber(ARGV[j]) > tonumber(most) then return i end
  end
end
for i = 1, #KEYS do
  for j = 1, 3 do redis.call('HINCRBYFLOAT', KEYS[i], j, ARGV[j]) end
  redis.call('EXPIRE', KEYS[i], ARGV[#ARGV])
end
return 0
"""
_NEXT_TURN: Final = """
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1e6
local at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if at - now <= tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], string.format('%.6f', at + ARGV[1]), 'EX', 3600)
end
return string.format('%.6f', at - now)
"""


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
            for key in [k for k in self._spent if k[1] < period.start - _KEPT]:
                del self._spent[key]


class SqliteStore:
    """Amounts in a file, shared by all processes that name it; each applies its own limits.

    An amount that a killed process had reserved stays spent: rather too much than too little.
    Every method raises `OSError` while the file cannot be used.

    Args:
        path: The file; its folder must exist. Not on a network drive.
    """

    def __init__(self, path: str | Path) -> None:
        self._file = SqliteFile(Path(path), (_TABLE,), patience=_BUSY)

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


class RedisStore:
    """Amounts in Redis, shared by all machines that name it; each applies its own limits.

    Every method raises `OSError` while Redis cannot be used.

    Args:
        url: URL of Redis.

    Raises:
        ImportError: The extra `celery`, which brings the client, is not installed.
    """

    def __init__(self, url: str) -> None:
        import redis

        self._errors = redis.RedisError
        self._redis: Any = redis.Redis.from_url(
            url, socket_timeout=_BUSY, socket_connect_timeout=_BUSY, decode_responses=True
        )
        self._reserve = self._redis.register_script(_RESERVE)
        self._next_turn = self._redis.register_script(_NEXT_TURN)

    def reserve(self, periods: Sequence[Period], amount: Spend) -> Period | None:
        """Add an amount to every period, or to none, in one step."""
        most = [part for period in periods for part in _parts(period.limit)]
        with self._edge():
            keys = list(map(_key, periods))
            number = int(self._reserve(keys=keys, args=[*_parts(amount), *most, _KEPT]))
        return periods[number - 1] if number else None

    def add(self, periods: Sequence[Period], amount: Spend) -> None:
        """Add an amount to every period."""
        with self._edge(), self._redis.pipeline() as pipe:
            for period in periods:
                for number, part in enumerate(_parts(amount), 1):
                    pipe.hincrbyfloat(_key(period), number, part)
                pipe.expire(_key(period), _KEPT)
            pipe.execute()

    def turn(self, interval: float, now: float) -> float:
        """Give a call its turn by the clock of Redis; see `MemoryStore.turn`."""
        with self._edge():
            return float(self._next_turn(keys=[f"{_PREFIX}turn"], args=[interval, LONGEST_TURN]))

    def spent(self, period: Period) -> Spend:
        """Return the amount that all processes have added to a period so far."""
        with self._edge():
            values = self._redis.hmget(_key(period), 1, 2, 3)
        return Spend(*(float(value or 0) for value in values))

    def forked(self) -> None:
        """Do nothing: the client opens connections of its own in a child."""

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    @contextmanager
    def _edge(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise OSError(f"Redis: {type(error).__name__}") from error


def _parts(amount: Spend) -> tuple[float, float, float]:
    return amount.calls, amount.tokens, amount.cost


def _key(period: Period) -> str:
    return f"{_PREFIX}{period.name}:{period.start}"


BudgetStore: TypeAlias = MemoryStore | SqliteStore | RedisStore
"""Store of the amounts spent in each period."""


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
        connection.execute("DELETE FROM rag_eval_budget WHERE start < ?", (period.start - _KEPT,))
