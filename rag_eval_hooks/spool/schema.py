"""Tables of a spool's file, and one of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["APPLICATION", "COLUMNS", "SCHEMA", "VERSION", "Row"]

APPLICATION: Final = 0x52616745
VERSION: Final = 2
SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS rows ("
    # Long values last: SQLite reads a value by way of all that stand before it.
    " seq INTEGER PRIMARY KEY, entry TEXT, sinks TEXT NOT NULL DEFAULT '{}',"
    " tries INTEGER NOT NULL DEFAULT 0, probability REAL NOT NULL, reason TEXT NOT NULL,"
    " accepted_at REAL NOT NULL, sample TEXT NOT NULL, evaluation TEXT)",
    "CREATE TABLE IF NOT EXISTS books (entry TEXT PRIMARY KEY, count INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS carried (file TEXT PRIMARY KEY)",
    "CREATE TRIGGER IF NOT EXISTS rows_counted AFTER UPDATE OF entry ON rows"
    " WHEN old.entry IS NULL AND new.entry IS NOT NULL BEGIN"
    " INSERT INTO books VALUES (new.entry, 1)"
    " ON CONFLICT (entry) DO UPDATE SET count = count + 1; END",
    "CREATE TRIGGER IF NOT EXISTS rows_done AFTER UPDATE ON rows"
    " WHEN new.entry IS NOT NULL AND new.sinks = '{}' BEGIN"
    " DELETE FROM rows WHERE seq = new.seq; END",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
COLUMNS: Final = "seq, sample, probability, reason, accepted_at, tries, evaluation, sinks, entry"
"""Columns in the order of the fields of `Row`."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sample as it is stored. Of a damaged file, any value may have any type.

    Attributes:
        seq: Number of the row in its file.
        sample: The sample as JSON.
        probability: Inclusion probability.
        reason: Reason of the sampler's choice.
        accepted_at: Acceptance in seconds since the epoch.
        tries: Evaluations begun by processes that took the row over.
        evaluation: The evaluation as JSON, or None before it.
        sinks: JSON object of the sinks that lack the evaluation, with their positions.
        entry: Name under which the row is counted in the books; None while it is pending.
    """

    seq: int
    sample: str
    probability: float
    reason: str
    accepted_at: float
    tries: int = 0
    evaluation: str | None = None
    sinks: str = "{}"
    entry: str | None = None
