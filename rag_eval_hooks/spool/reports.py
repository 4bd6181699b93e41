"""Scores in the spool that platforms have not taken yet, by platform. Knows no threads."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = [
    "DropReport",
    "KeepReport",
    "Kept",
    "LeaveReport",
    "ReportHost",
    "ReportOperation",
    "ReportTable",
    "undelivered",
]

_STATEMENTS: Final = (
    "CREATE TABLE IF NOT EXISTS reports ("
    " seq INTEGER PRIMARY KEY, place TEXT NOT NULL, id TEXT NOT NULL, owner TEXT,"
    " report TEXT NOT NULL, kept_at REAL NOT NULL, UNIQUE (place, id))",
    "CREATE INDEX IF NOT EXISTS reports_by_owner ON reports (owner)",
    "CREATE TABLE IF NOT EXISTS report_sizes (place TEXT PRIMARY KEY, bytes INTEGER NOT NULL)",
    "CREATE TRIGGER IF NOT EXISTS reports_grow AFTER INSERT ON reports BEGIN"
    " INSERT INTO report_sizes VALUES (new.place, length(CAST(new.report AS BLOB)))"
    " ON CONFLICT (place) DO UPDATE SET bytes = bytes + excluded.bytes; END",
    "CREATE TRIGGER IF NOT EXISTS reports_shrink AFTER DELETE ON reports BEGIN"
    " UPDATE report_sizes SET bytes = bytes - length(CAST(old.report AS BLOB))"
    " WHERE place = old.place; END",
)
_INSERT: Final = (
    "INSERT INTO reports (place, id, owner, report, kept_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (place, id) DO UPDATE SET owner = excluded.owner"
)
# Behind the others: one that a platform never takes must not stand in their way.
_LEAVE: Final = (
    "UPDATE reports SET owner = NULL, seq = (SELECT MAX(seq) + 1 FROM reports)"
    " WHERE place = ? AND id = ? AND owner = ?"
)


@dataclass(eq=False, slots=True)
class Kept:
    """Report on its way through the spool.

    Attributes:
        place: Platform of the report.
        id: Id of the report.
        text: The report, until it is on disk.
        generation: Generation of the file that holds it; 0 for none.
    """

    place: str
    id: str
    text: str
    generation: int = 0


@dataclass(slots=True)
class KeepReport:
    """Keep a report."""

    entry: Kept


@dataclass(slots=True)
class LeaveReport:
    """Leave a report to whoever can send it later; told whether it is on disk."""

    entry: Kept
    told: Callable[[bool], None]


@dataclass(slots=True)
class DropReport:
    """Let go of a report that was sent, or never will be."""

    entry: Kept


ReportOperation: TypeAlias = KeepReport | LeaveReport | DropReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHost:
    """What the spool needs of those who send reports.

    Attributes:
        room: How many more reports may be taken over, by place.
        take: Called with each that was.
        lost: Called with a place and how many of its reports were kept too long.
        max_bytes: Of the reports of one place.
        keep_for: Seconds for which a report is kept.
    """

    room: Callable[[], Mapping[str, int]]
    take: Callable[[Kept], None]
    lost: Callable[[str, int], None]
    max_bytes: int
    keep_for: float


class ReportTable:
    """The reports of an open spool; all but `make` inside a transaction.

    Args:
        db: The spool's connection.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def make(self) -> None:
        """Makes the tables where an older version has left none."""
        for statement in _STATEMENTS:
            self._db.execute(statement)

    def insert(self, kept: Kept, owner: str, max_bytes: int) -> bool:
        """Keeps a report; whether there was room for it. One that is there becomes ours."""
        found = self._db.execute("SELECT bytes FROM report_sizes WHERE place = ?", (kept.place,))
        (size,) = found.fetchone() or (0,)
        if size + len(kept.text) > max_bytes:
            return False
        self._db.execute(_INSERT, (kept.place, kept.id, owner, kept.text, time.time()))
        return True

    def leave(self, kept: Kept, owner: str) -> bool:
        """Gives up the claim on a report; whether it is there."""
        return bool(self._db.execute(_LEAVE, (kept.place, kept.id, owner)).rowcount)

    def drop(self, kept: Kept, owner: str) -> None:
        """Lets go of a report."""
        self._db.execute(
            "DELETE FROM reports WHERE place = ? AND id = ? AND owner = ?",
            (kept.place, kept.id, owner),
        )

    def release(self, owner: str, to: str | None) -> None:
        """Gives all claims of one owner to another, or up."""
        self._db.execute("UPDATE reports SET owner = ? WHERE owner = ?", (to, owner))

    def has_others(self, owner: str) -> bool:
        """Whether there is a report that is not claimed by this owner."""
        found = self._db.execute("SELECT 1 FROM reports WHERE owner IS NOT ? LIMIT 1", (owner,))
        return found.fetchone() is not None

    def expire(self, dead: Sequence[str], keep_for: float) -> Mapping[str, int]:
        """Lets go of what nobody alive has a claim on and was kept too long; counts by place."""
        free, names = _free(dead)
        late = f"kept_at < ? AND {free}"
        values = (time.time() - keep_for, *names)
        counts = self._db.execute(
            f"SELECT place, COUNT(*) FROM reports WHERE {late} GROUP BY place", values
        ).fetchall()
        if counts:
            self._db.execute(f"DELETE FROM reports WHERE {late}", values)
        return dict(counts)

    def claim(self, owner: str, room: Mapping[str, int], dead: Sequence[str]) -> list[Kept]:
        """Takes over the oldest reports that nobody alive has a claim on."""
        free, names = _free(dead)
        taken = []
        for place, limit in room.items():
            found = self._db.execute(
                f"SELECT id, report FROM reports WHERE place = ? AND {free} ORDER BY seq LIMIT ?",
                (place, *names, limit),
            )
            taken += [Kept(place, name, text) for name, text in found.fetchall()]
        self._db.executemany(
            "UPDATE reports SET owner = ? WHERE place = ? AND id = ?",
            [(owner, kept.place, kept.id) for kept in taken],
        )
        return taken

    def dead(self, owner: str, is_alive: Callable[[str], bool]) -> list[str]:
        """Owners of reports who are not alive."""
        others = self._db.execute(
            "SELECT DISTINCT owner FROM reports WHERE owner IS NOT NULL AND owner != ? LIMIT 400",
            (owner,),
        )
        return [name for (name,) in others.fetchall() if not is_alive(name)]


def _free(dead: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The condition that nobody alive has a claim, and its values."""
    return f"(owner IS NULL OR owner IN ({', '.join('?' * len(dead))}))", dead


def undelivered(db: sqlite3.Connection) -> int:
    """How many reports wait in a spool of any version."""
    found = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reports'")
    if found.fetchone() is None:
        return 0
    return int(db.execute("SELECT COUNT(*) FROM reports").fetchone()[0])
