"""Amounts spent in an hour or a day, as rows of SQLite."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Final, TypeAlias

__all__ = ["TABLE", "Periods", "Spend", "read_spend", "write_spend"]

_KEPT_S: Final = 7 * 86_400
"""Seconds for which periods are kept, for whoever wants to look."""
TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rag_eval_budget (period TEXT, start INTEGER, calls REAL, "
    "tokens REAL, cost REAL, PRIMARY KEY (period, start)) WITHOUT ROWID"
)
_READ: Final = "SELECT calls, tokens, cost FROM rag_eval_budget WHERE period = ? AND start = ?"
_ADD: Final = (
    "INSERT INTO rag_eval_budget VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cost = cost + excluded.cost"
)
_FORGET: Final = "DELETE FROM rag_eval_budget WHERE start < ?"

Periods: TypeAlias = list[tuple[str, int]]
"""Name and start, in seconds since the epoch, of each period that has a limit."""


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
        return self._by(operator.mul, Spend(factor, factor, factor))

    def least(self, other: Spend) -> Spend:
        """Return the smaller of each part."""
        return self._by(min, other)

    def _by(self, combine: Callable[[float, float], float], other: Spend) -> Spend:
        return Spend(*map(combine, astuple(self), astuple(other)))


def read_spend(db: sqlite3.Connection, period: tuple[str, int]) -> Spend:
    """Return the amount that was added to a period so far, by all processes."""
    return Spend(*(db.execute(_READ, period).fetchone() or ()))


def write_spend(db: sqlite3.Connection, periods: Periods, amount: Spend) -> None:
    """Add an amount, which may be negative, to every period."""
    for name, start in periods:
        db.execute(_ADD, (name, start, *astuple(amount)))
        db.execute(_FORGET, (start - _KEPT_S,))
