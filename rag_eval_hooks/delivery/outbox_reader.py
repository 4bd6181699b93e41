"""Reader of an outbox's file: changes nothing, and no writer waits for it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.delivery.outbox_file import EVALUATE, LEASE_S
from rag_eval_hooks.sqlite_file import open_existing

__all__ = ["WaitingJob", "read_counts", "read_results", "waiting_jobs"]

_PATIENCE_S: Final = 0.5
_IS_OWNED: Final = (
    "owner IS NOT NULL AND owner IN (SELECT owner FROM owners WHERE lease"
    f" - (julianday('now') - 2440587.5) * 86400.0 BETWEEN 0.0 AND {LEASE_S})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A sample that waits for its evaluation, or for a sink; `accepted` since the epoch."""

    consumer: str
    sample_id: str
    trace_id: str | None
    reason: str
    probability: float | None
    scores: int
    tries: int
    accepted: float
    is_owned: bool


def read_counts(path: Path) -> Mapping[str, int]:
    """Return how the samples of all processes ended, and how many wait; empty without a file.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    with _opened(path) as db:
        if db is None:
            return {}
        db.execute("BEGIN")
        counts = dict(db.execute("SELECT name, n FROM counts WHERE name != ''").fetchall())
        waiting = "SELECT COUNT(DISTINCT coalesce(origin, id)) FROM jobs WHERE consumer {} ?"
        counts["pending"] = db.execute(waiting.format("="), (EVALUATE,)).fetchone()[0]
        accepted = sum(counts.values())
        undelivered = db.execute(waiting.format("!="), (EVALUATE,)).fetchone()[0]
    return {"accepted": accepted, **counts} | ({"undelivered": undelivered} if undelivered else {})


def waiting_jobs(path: Path, name: str) -> list[WaitingJob]:
    """Return the jobs of a trace id or sample id, in lower case without dashes.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    sample, trace = (f"json_extract(payload, '$.sample.{one}_id')" for one in ("sample", "trace"))
    plain = "lower(replace({}, '-', ''))"
    query = (
        f"SELECT consumer, {sample}, {trace}, json_extract(payload, '$.reason'),"
        " json_extract(payload, '$.probability'),"
        " (SELECT COUNT(*) FROM json_each(payload, '$.outcomes')), tries, accepted,"
        f" {_IS_OWNED} FROM jobs WHERE {sample} = ?1 OR {plain.format(sample)} = ?1"
        f" OR {plain.format(trace)} = ?1 ORDER BY id"
    )
    with _opened(path) as db:
        rows: list[Any] = [] if db is None else db.execute(query, (name,)).fetchall()
    return [
        WaitingJob(
            consumer=row[0],
            sample_id=row[1],
            trace_id=row[2],
            reason=row[3] or "",
            probability=row[4],
            scores=row[5],
            tries=row[6],
            accepted=row[7],
            is_owned=bool(row[8]),
        )
        for row in rows
    ]


def read_results(path: Path) -> Iterator[str]:
    """Yield the results that a sink still lacks, each once, as stored.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    query = "SELECT payload FROM jobs WHERE consumer != ? GROUP BY coalesce(origin, id) ORDER BY id"
    with _opened(path) as db:
        rows: list[Any] = [] if db is None else db.execute(query, (EVALUATE,)).fetchall()
    for (payload,) in rows:
        yield payload


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a file that has an outbox's tables; None before it has."""
    if not path.exists():
        yield None
        return
    with closing(open_existing(path, patience=_PATIENCE_S)) as db:
        # The process that creates the file may not have come to its last table.
        has_tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        yield db if has_tables else None
