"""The spool's SQLite file: its tables, its claims, its books. Knows no threads."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.file_paths import is_place
from rag_eval_hooks.spool.owner import is_supported
from rag_eval_hooks.spool.reports import ReportTable, undelivered
from rag_eval_hooks.sqlite_file import FILE_ERRORS, make_private, use_log

__all__ = ["Row", "SpoolFile", "SpoolFullError", "check_spool", "spool_books"]

_APPLICATION = 0x52616745
_VERSION = 1
_BUSY_S = 0.5
"""How long others may keep the file locked before the spool does without it for a while."""
_MOST_OWNERS = 400
_TABLES = """
CREATE TABLE samples (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    owner TEXT,
    sample TEXT NOT NULL,
    probability REAL NOT NULL,
    reason TEXT NOT NULL,
    positions TEXT NOT NULL,
    outcomes TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    accepted_at REAL NOT NULL
);
CREATE INDEX samples_by_owner ON samples (owner);
CREATE TABLE books (entry TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""
_COUNT = (
    "INSERT INTO books VALUES (?, ?)"
    " ON CONFLICT (entry) DO UPDATE SET count = books.count + excluded.count"
)
_PAGES = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
_INSERT = (
    "INSERT OR IGNORE INTO samples (id, owner, sample, probability, reason, positions, accepted_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_FIELDS = "id, sample, probability, reason, positions, accepted_at, outcomes, tries"
_WANTS = "the path of a spool of this version, or of a file that is not there yet"


class SpoolFullError(Exception):
    """One more sample would pass the size that the spool may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One sample in the spool.

    Attributes:
        id: The sample's id.
        sample: As text.
        probability: Inclusion probability.
        reason: The sampler's.
        positions: Where sinks stood when it was accepted, by their place.
        accepted_at: When it was, in seconds since the epoch.
        outcomes: As text, once it is evaluated and not yet delivered.
        tries: How often its evaluation was begun by a process that had it from another.
    """

    id: str
    sample: str
    probability: float
    reason: str
    positions: Mapping[str, int]
    accepted_at: float
    outcomes: str | None = None
    tries: int = 0


class SpoolFile:
    """An open spool. Not thread-safe; must not cross a fork.

    Args:
        path: The file; made, readable for its owner alone, when it is not there.
        max_bytes: Size that it may have, without SQLite's log of about 4 MB.

    Raises:
        sqlite3.Error: It cannot be opened.
        OSError: Likewise.

    Attributes:
        reports: What waits for platforms.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        make_private(path)
        self._db = _connect(path)
        self.reports = ReportTable(self._db)
        try:
            self._inode = os.stat(path).st_ino
            self._prepare()
            self._page = int(self._db.execute("PRAGMA page_size").fetchone()[0])
        except BaseException:
            self._db.close()
            raise

    def is_gone(self) -> bool:
        """Whether the file was removed, or another put in its place."""
        try:
            return os.stat(self._path).st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction: all of it is kept, or nothing.

        It takes few calls: before each, in a process that is busy, this thread may have to wait
        for the interpreter.
        """
        self._counts: Counter[str] = Counter()
        self._size: int | None = None
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            if self._counts:
                self._db.executemany(_COUNT, self._counts.items())
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def insert(self, row: Row, owner: str) -> None:
        """Keeps a sample; one that is there already stays as it is.

        Raises:
            SpoolFullError: There is no room for it.
        """
        if self._size is None:
            self._size = self._page * int(self._db.execute(_PAGES).fetchone()[0])
        if self._size + len(row.sample) > self._max_bytes:
            raise SpoolFullError
        self._size += len(row.sample)
        positions = json.dumps(dict(row.positions))
        values = (
            row.id,
            owner,
            row.sample,
            row.probability,
            row.reason,
            positions,
            row.accepted_at,
        )
        if self._db.execute(_INSERT, values).rowcount:
            self._counts["accepted"] += 1

    def keep_outcomes(self, sample_id: str, owner: str, outcomes: str) -> bool:
        """Keeps what was found; False when the claim is another's, or the sample is done."""
        changed = self._db.execute(
            "UPDATE samples SET outcomes = ? WHERE id = ? AND owner = ?",
            (outcomes, sample_id, owner),
        )
        return bool(changed.rowcount)

    def begin(self, sample_id: str, owner: str) -> None:
        """Counts a try."""
        self._db.execute(
            "UPDATE samples SET tries = tries + 1 WHERE id = ? AND owner = ?", (sample_id, owner)
        )

    def finish(self, sample_id: str, owner: str, entry: str) -> None:
        """Lets go of a sample and enters it in the books."""
        gone = self._db.execute(
            "DELETE FROM samples WHERE id = ? AND owner = ?", (sample_id, owner)
        )
        if gone.rowcount:
            self._counts[entry] += 1

    def release(self, owner: str, to: str | None = None) -> None:
        """Gives all claims of one owner to another, or up."""
        self._db.execute("UPDATE samples SET owner = ? WHERE owner = ?", (to, owner))
        self.reports.release(owner, to)

    def give_up(self, sample_id: str, owner: str) -> None:
        """Gives up the claim on one sample."""
        self._db.execute(
            "UPDATE samples SET owner = NULL WHERE id = ? AND owner = ?", (sample_id, owner)
        )

    def has_others(self, owner: str) -> bool:
        """Whether there is a sample that is not claimed by this owner."""
        found = self._db.execute("SELECT 1 FROM samples WHERE owner IS NOT ? LIMIT 1", (owner,))
        return found.fetchone() is not None

    def measure(self) -> tuple[int, int]:
        """Samples in the file, and its bytes that are in use."""
        (count,) = self._db.execute("SELECT COUNT(*) FROM samples").fetchone()
        (pages,) = self._db.execute(_PAGES).fetchone()
        return int(count), int(pages) * self._page

    def claim(self, owner: str, limit: int, is_alive: Callable[[str], bool]) -> list[Row]:
        """Takes over the oldest samples that nobody alive has a claim on; inside `writing`."""
        others = self._db.execute(
            "SELECT DISTINCT owner FROM samples WHERE owner IS NOT NULL AND owner != ? LIMIT ?",
            (owner, _MOST_OWNERS),
        ).fetchall()
        dead = [name for (name,) in others if not is_alive(name)]
        marks = ", ".join("?" * len(dead))
        found = self._db.execute(
            f"SELECT {_FIELDS} FROM samples"
            f" WHERE owner IS NULL OR owner IN ({marks}) ORDER BY seq LIMIT ?",
            (*dead, limit),
        ).fetchall()
        self._db.executemany(
            "UPDATE samples SET owner = ? WHERE id = ?", [(owner, row[0]) for row in found]
        )
        return [_row(values) for values in found]

    def _prepare(self) -> None:
        use_log(self._db, _BUSY_S)
        # A commit is in the system's hands: it survives the process, though not the power.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA journal_size_limit = 4194304")
        with self.writing():
            if _told(self._db) == (0, 0):
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
            elif _told(self._db) != (_APPLICATION, _VERSION):
                raise sqlite3.DatabaseError("another program's file")
            self.reports.make()


def check_spool(path: Path) -> bool:
    """Looks at the file before anything is written to it.

    Returns:
        Whether it holds samples, or scores for a platform. False also where it cannot be opened
        just now.

    Raises:
        ConfigError: The path is no file's, its folder does not exist, the file is not ours, or
            this system lacks the locks that claims are.
    """
    if not is_supported():
        raise ConfigError("spool", str(path), "a system with POSIX file locks, or 'none'")
    if not is_place(path):
        raise ConfigError("spool", str(path), "a file in a folder that exists")
    try:
        if not path.exists() or not path.stat().st_size:
            return False
        with closing(_connect(path)) as db:
            # One look: another process may make the tables between two.
            db.execute("BEGIN")
            return _holds_samples(db, path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise ConfigError("spool", str(path), f"{_WANTS}; this is no database") from None
        return False
    except FILE_ERRORS:
        return False


def spool_books(path: Path) -> Mapping[str, int]:
    """Counts of all that ever went through a spool, by all processes; `pending` are in it.

    So are the scores of `undelivered` samples, where there are any. Empty where nothing was
    written yet; no file is made.

    Raises:
        sqlite3.Error: The file cannot be read.
        OSError: Likewise.
    """
    if not path.exists():
        return {}
    with closing(_connect(path)) as db:
        db.execute("BEGIN")
        if _is_empty(db):
            return {}
        books = dict(db.execute("SELECT entry, count FROM books").fetchall())
        books["pending"] = db.execute("SELECT COUNT(*) FROM samples").fetchone()[0]
        waiting = undelivered(db)
        return {**books, "undelivered": waiting} if waiting else books


def _holds_samples(db: sqlite3.Connection, path: Path) -> bool:
    told = _told(db)
    if told == (0, 0) and _is_empty(db):
        return False
    if told != (_APPLICATION, _VERSION):
        ours = told[0] == _APPLICATION
        what = f"this one has version {told[1]}" if ours else "this is another program's file"
        raise ConfigError("spool", str(path), f"{_WANTS}; {what}")
    has_samples = db.execute("SELECT 1 FROM samples LIMIT 1").fetchone() is not None
    return has_samples or undelivered(db) > 0


def _is_empty(db: sqlite3.Connection) -> bool:
    return not db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]


def _connect(path: Path) -> sqlite3.Connection:
    # Never makes a file: the system's umask would say who may read it.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _told(db: sqlite3.Connection) -> tuple[int, int]:
    application = db.execute("PRAGMA application_id").fetchone()[0]
    return int(application), int(db.execute("PRAGMA user_version").fetchone()[0])


def _positions(text: str) -> Mapping[str, int]:
    """Where sinks stood; where that is damaged, at the beginning: they are asked about all."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _row(values: tuple[str, str, float, str, str, float, str | None, int]) -> Row:
    sample_id, sample, probability, reason, positions, accepted_at, outcomes, tries = values
    return Row(
        id=sample_id,
        sample=sample,
        probability=probability,
        reason=reason,
        positions=_positions(positions),
        accepted_at=accepted_at,
        outcomes=outcomes,
        tries=tries,
    )
