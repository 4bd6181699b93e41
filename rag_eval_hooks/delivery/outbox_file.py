"""SQLite file of an outbox: statements, leases, how the file is replaced, and its readers."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import SqliteFile, open_existing

__all__ = [
    *("EVALUATE", "LEASE_S", "NAME", "FileMovedError", "OutboxFile"),
    *("check_spool", "read_counts", "read_results", "read_size"),
]

EVALUATE: Final = "evaluate"
"""Consumer of samples; all other consumers are sinks."""
NAME: Final = "outbox.sqlite"
LEASE_S: Final = 15.0
"""Seconds after which another process may claim the jobs of a process that stopped writing."""
_BUSY_S: Final = 0.5
"""Seconds to wait for another process that holds the file."""
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL,"
    " origin INTEGER, accepted REAL NOT NULL, due REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0,"
    " owner TEXT, payload TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (owner, consumer, due)",
    "CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY, lease REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL)",
)
_INSERT: Final = (
    "INSERT INTO jobs (consumer, origin, accepted, due, owner, payload) VALUES (?, ?, ?, ?, ?, ?)"
)
_COUNT: Final = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1"
_DEAD: Final = (
    # A lease of the far future was written before the clock was set back.
    "SELECT owner FROM owners WHERE owner != ?1 AND lease NOT BETWEEN ?2 AND ?2 + ?3"
)
_CLAIM: Final = (
    "UPDATE jobs SET owner = ?1 WHERE id IN (SELECT id FROM jobs WHERE owner IS NULL"
    " AND consumer = ?2 AND due <= ?3 ORDER BY id LIMIT ?4) RETURNING id, tries, accepted, payload"
)
_SIZE: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_SAMPLES: Final = "SELECT COUNT(DISTINCT coalesce(origin, id)) FROM jobs"


class FileMovedError(Exception):
    """The file at the path is not the file that is open: somebody deleted or replaced it."""


class OutboxFile:
    """File of an outbox, shared by processes. Used by one thread.

    All methods about jobs run inside `transaction`, and return whether the job was of this process.

    Args:
        folder: Folder of the file; created for its owner alone.
        max_bytes: Size in use above which nothing more is stored.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.path = folder / NAME
        self._max_bytes = max_bytes
        self._file = SqliteFile(self.path, _SCHEMA, patience=_BUSY_S)
        self._reset()

    def _reset(self) -> None:
        self._owner = uuid.uuid4().hex
        self._identity: tuple[int, int] | None = None
        self._beat_at = 0.0

    @property
    def exists(self) -> bool:
        """True if there is a file to look into."""
        return self._identity is not None or self.path.exists()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run statements in one transaction, and extend the lease.

        Raises:
            FileMovedError: The file was deleted or replaced; its jobs are lost.
            sqlite3.Error: The file cannot be used.
            OSError: The file cannot be used.
            ValueError: The file is damaged and SQLite's message about it cannot be decoded.
        """
        if self._identity is None:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self._check()
        now = time.time()
        is_beat = not 0.0 <= now - self._beat_at < LEASE_S / 3
        with self._file.transaction() as self._db:
            if is_beat:
                beat = "INSERT OR REPLACE INTO owners VALUES (?, ?)"
                self._db.execute(beat, (self._owner, now + LEASE_S))
            yield
        self._beat_at = now if is_beat else self._beat_at
        self._check()

    def _check(self) -> None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            if self._identity is not None:
                raise FileMovedError from None
            return
        if self._identity not in (None, (state.st_dev, state.st_ino)):
            raise FileMovedError
        self._identity = state.st_dev, state.st_ino

    def replace(self, *, is_damaged: bool) -> None:
        """Begin a new file under a new owner; a damaged one is renamed to `*.damaged`."""
        self._file.close()
        moved = self._identity
        self._reset()
        if not is_damaged:
            return
        with suppress(OSError):
            state = self.path.stat()
            # Another process may have replaced it already.
            if moved in (None, (state.st_dev, state.st_ino)):
                os.replace(self.path, self.path.with_name(f"{NAME}.damaged"))
                for end in ("-wal", "-shm"):
                    # SQLite would apply the log of the old file to the new one.
                    self.path.with_name(f"{NAME}{end}").unlink(missing_ok=True)

    def insert(
        self, consumer: str, payload: str, accepted: float, origin: int | None
    ) -> int | None:
        """Store a job of this process; return its row, or None without room for it."""
        if self._db.execute(_SIZE).fetchone()[0] + len(payload) > self._max_bytes:
            return None
        row = (consumer, origin, accepted, accepted, self._owner, payload)
        return self._db.execute(_INSERT, row).lastrowid

    def begin(self, row: int, tries: int) -> bool:
        """Note the tries of a job."""
        return self._changed("UPDATE jobs SET tries = ?", tries, row=row)

    def remove(self, row: int) -> bool:
        """Remove a job."""
        return self._changed("DELETE FROM jobs", row=row)

    def release(self, row: int | None, due: float) -> bool:
        """Let any process claim a job at a time."""
        return self._changed("UPDATE jobs SET owner = NULL, due = ?", due, row=row)

    def _changed(self, statement: str, *values: float, row: int | None) -> bool:
        sql = f"{statement} WHERE id = ? AND owner = ?"
        return self._db.execute(sql, (*values, row, self._owner)).rowcount > 0

    def count(self, name: str) -> None:
        """Count the end of a sample."""
        self._db.execute(_COUNT, (name,))

    def release_dead(self) -> None:
        """Release the jobs of processes whose lease ran out."""
        for (owner,) in self._db.execute(_DEAD, (self._owner, time.time(), LEASE_S)).fetchall():
            self._release_all(owner)

    def release_all(self) -> None:
        """Let other processes claim all jobs of this process."""
        self._release_all(self._owner)

    def _release_all(self, owner: str) -> None:
        self._db.execute("UPDATE jobs SET owner = NULL, due = 0 WHERE owner = ?", (owner,))
        self._db.execute("DELETE FROM owners WHERE owner = ?", (owner,))

    def claim(self, consumer: str, most: int) -> list[tuple[int, int, float, str]]:
        """Claim the oldest jobs that are due; return row, tries, acceptance and payload of each."""
        found = self._db.execute(_CLAIM, (self._owner, consumer, time.time(), most)).fetchall()
        return sorted(found)

    def purge(self, consumers: Sequence[str], accepted_before: float) -> int:
        """Remove old results for sinks that no process of these settings has; return how many."""
        marks = ",".join("?" * (len(consumers) + 1))
        sql = f"DELETE FROM jobs WHERE owner IS NULL AND accepted < ? AND consumer NOT IN ({marks})"
        return self._db.execute(sql, (accepted_before, EVALUATE, *consumers)).rowcount

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def check_spool(folder: Path) -> bool:
    """Check the folder of a spool, and close an existing one to other users.

    Returns:
        Whether earlier processes may have left something.

    Raises:
        ConfigError: The path cannot be a folder, or others can write to it.
    """
    wants = "a folder, or a path in a folder that exists"
    try:
        if not folder.parent.is_dir() or (folder.exists() and not folder.is_dir()):
            raise ConfigError("spool", str(folder), wants)
        if os.name == "posix" and folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o077:
            folder.chmod(0o700)
        return (folder / NAME).exists()
    except PermissionError:
        raise ConfigError("spool", str(folder), f"{wants}, of this user alone") from None
    except OSError:
        raise ConfigError("spool", str(folder), wants) from None


def read_counts(path: Path) -> Mapping[str, int]:
    """Return how the samples of all processes ended, and how many wait; empty without a file.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    with _read(path) as db:
        if db is None:
            return {}
        db.execute("BEGIN")
        ended = dict(db.execute("SELECT name, n FROM counts").fetchall())
        waiting = {}
        for name, sign in (("pending", "="), ("undelivered", "!=")):
            sql = f"{_SAMPLES} WHERE consumer {sign} ?"
            waiting[name] = db.execute(sql, (EVALUATE,)).fetchone()[0]
    accepted = sum(ended.values()) + waiting["pending"]
    counts = {"accepted": accepted, **ended, **waiting}
    return {name: n for name, n in counts.items() if n or name in ("accepted", "pending")}


def read_size(path: Path) -> tuple[int | None, int | None]:
    """Return the samples and bytes in a file.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    with _read(path) as db:
        if db is None:
            return 0, 0
        samples, size = (db.execute(sql).fetchone()[0] for sql in (_SAMPLES, _SIZE))
        return int(samples), int(size)


def read_results(path: Path) -> Iterator[str]:
    """Yield the results that a sink still lacks, each once, as stored.

    Raises:
        sqlite3.Error: The file cannot be read.
    """
    sql = "SELECT payload FROM jobs WHERE consumer != ? GROUP BY coalesce(origin, id) ORDER BY id"
    with _read(path) as db:
        rows = [] if db is None else db.execute(sql, (EVALUATE,)).fetchall()
    for (payload,) in rows:
        yield payload


@contextmanager
def _read(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a file that has an outbox's tables, to read it alone; None before it has."""
    if not path.exists():
        yield None
        return
    with closing(open_existing(path, patience=_BUSY_S)) as db:
        # The process that creates the file may not have come to its last table.
        has_tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        yield db if has_tables else None
