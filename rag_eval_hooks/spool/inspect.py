"""Looks at a spool from outside, without a thread, a claim or a change."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rag_eval_hooks.spool.owner import is_held, owners_of

__all__ = ["Health", "Kept", "Unsent", "spool_health", "spool_samples", "spool_unsent"]

_BUSY_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What a look at a spool finds.

    Attributes:
        version: Of its tables.
        samples: That are in it.
        unclaimed: Of these, those that no process is working on.
        oldest: When the oldest was accepted, in seconds since the epoch; None for none.
        size: Bytes that are in use.
        damage: What SQLite found broken, or None.
    """

    version: int
    samples: int
    unclaimed: int
    oldest: float | None
    size: int
    damage: str | None


def spool_health(path: Path) -> Health:
    """Looks at a spool that is there, and writes nothing.

    Raises:
        sqlite3.Error: It cannot be read, or is locked.
    """
    with closing(_reader(path)) as db:
        damage = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        pages = _number(db, "page_count") - _number(db, "freelist_count")
        rows = db.execute("SELECT owner, COUNT(*) FROM samples GROUP BY owner").fetchall()
        (oldest,) = db.execute("SELECT MIN(accepted_at) FROM samples").fetchone()
        return Health(
            version=_number(db, "user_version"),
            samples=sum(count for _, count in rows),
            unclaimed=sum(count for owner, count in rows if _alive(path, owner) is None),
            oldest=oldest,
            size=pages * _number(db, "page_size"),
            damage=None if damage == "ok" else damage,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A sample in a spool, as it is looked at from outside.

    Attributes:
        id: The sample's.
        trace_id: Of its RAG span, or None.
        reason: Why it was chosen.
        probability: Inclusion probability.
        tries: How often its evaluation was begun by a process that had it from another.
        accepted_at: In seconds since the epoch.
        is_evaluated: Whether it has outcomes that are still to be delivered.
        owner: Name of the process that has it and lives, or None.
    """

    id: str
    trace_id: str | None
    reason: str
    probability: float
    tries: int
    accepted_at: float
    is_evaluated: bool
    owner: str | None


def spool_samples(path: Path, name: str) -> list[Kept]:
    """The samples in a spool that have a trace or sample id.

    Args:
        path: The file.
        name: The id, in small letters without dashes.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    trace = "json_extract(sample, '$.trace_id')"
    plain = "lower(replace({}, '-', ''))"
    query = (
        f"SELECT id, {trace}, reason, probability, tries, accepted_at, outcomes IS NOT NULL, owner"
        f" FROM samples WHERE id = ?1 OR {plain.format('id')} = ?1"
        f" OR {plain.format(trace)} = ?1 ORDER BY seq"
    )
    with closing(_reader(path)) as db:
        return [
            Kept(
                id=row[0],
                trace_id=row[1],
                reason=row[2],
                probability=row[3],
                tries=row[4],
                accepted_at=row[5],
                is_evaluated=bool(row[6]),
                owner=_alive(path, row[7]),
            )
            for row in db.execute(query, (name,))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Scores of a sample in a spool that a platform has not taken.

    Attributes:
        platform: Its name.
        scores: How many.
        kept_at: Since when, in seconds since the epoch.
        owner: Name of the process that sends them and lives, or None.
    """

    platform: str
    scores: int
    kept_at: float
    owner: str | None


def spool_unsent(path: Path, trace_id: str) -> list[Unsent]:
    """The scores of a trace that wait for platforms; none in a spool of an older version.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    query = (
        "SELECT place, json_array_length(report, '$.results'), kept_at, owner FROM reports"
        " WHERE json_extract(report, '$.trace_id') = ? ORDER BY seq"
    )
    with closing(_reader(path)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reports'").fetchone():
            return []
        return [
            Unsent(
                platform=place.rpartition("-")[0],
                scores=scores,
                kept_at=kept_at,
                owner=_alive(path, owner),
            )
            for place, scores, kept_at, owner in db.execute(query, (trace_id,))
        ]


def _alive(path: Path, owner: str | None) -> str | None:
    """The owner, where its process lives: a killed one has left its name on its claims."""
    if owner is None or not is_held(owners_of(path) / owner):
        return None
    return owner


def _reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write; the file is not made where it is not there."""
    url = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(url, uri=True, timeout=_BUSY_S, isolation_level=None)


def _number(db: sqlite3.Connection, pragma: str) -> int:
    return int(db.execute(f"PRAGMA {pragma}").fetchone()[0])
