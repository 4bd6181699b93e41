"""SQLite file of an outbox: statements, leases, and how the file is opened and replaced."""

from __future__ import annotations

import os
import stat
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import SqliteFile

__all__ = ["EVALUATE", "LEASE_S", "NAME", "FileMovedError", "OutboxFile", "check_spool"]

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
_BEAT: Final = "INSERT OR REPLACE INTO owners VALUES (?, ?)"
_COUNT: Final = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1"
_DEAD: Final = (
    "SELECT DISTINCT owner FROM jobs WHERE owner IS NOT NULL AND owner != ?1 AND owner NOT IN"
    # A lease of the far future was written before the clock was set back.
    " (SELECT owner FROM owners WHERE lease BETWEEN ?2 AND ?2 + ?3)"
)
_CLAIM: Final = (
    "UPDATE jobs SET owner = ?1 WHERE id IN (SELECT id FROM jobs WHERE owner IS NULL"
    " AND consumer = ?2 AND due <= ?3 ORDER BY id LIMIT ?4) RETURNING id, tries, accepted, payload"
)


class FileMovedError(Exception):
    """The file at the path is not the file that is open: somebody deleted or replaced it."""


class OutboxFile:
    """File of an outbox, shared by processes. Used by one thread.

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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run statements in one transaction, and extend the lease.

        Raises:
            FileMovedError: The file was deleted or replaced; what was written is lost.
            sqlite3.Error: The file cannot be used.
            OSError: The file cannot be used.
            ValueError: The file is damaged and SQLite's message about it cannot be decoded.
        """
        if self._identity is None:
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self._check()
        with self._file.transaction() as self._db:
            now, beats = time.time(), self.beats_late
            if beats:
                self._db.execute(_BEAT, (self._owner, now + LEASE_S))
            yield
        if beats:
            self._beat_at = now
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
        if self._size() + len(payload) > self._max_bytes:
            return None
        row = (consumer, origin, accepted, accepted, self._owner, payload)
        return self._db.execute(_INSERT, row).lastrowid

    def _size(self) -> int:
        pages = (
            "SELECT (page_count - freelist_count) * page_size"
            " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(self._db.execute(pages).fetchone()[0])

    def begin(self, row: int | None) -> bool:
        """Count a try; return whether the job is still of this process."""
        sql = "UPDATE jobs SET tries = tries + 1 WHERE id = ? AND owner = ?"
        return self._db.execute(sql, (row, self._owner)).rowcount > 0

    def remove(self, row: int | None) -> bool:
        """Remove a job; return whether it was still of this process."""
        sql = "DELETE FROM jobs WHERE id = ? AND owner = ?"
        return self._db.execute(sql, (row, self._owner)).rowcount > 0

    def release(self, row: int | None, due: float) -> bool:
        """Let any process claim a job at a time; return whether it was of this process."""
        sql = "UPDATE jobs SET owner = NULL, due = ? WHERE id = ? AND owner = ?"
        return self._db.execute(sql, (due, row, self._owner)).rowcount > 0

    def release_all(self) -> None:
        """Let other processes claim what is left."""
        self._db.execute("UPDATE jobs SET owner = NULL WHERE owner = ?", (self._owner,))
        self._db.execute("DELETE FROM owners WHERE owner = ?", (self._owner,))

    def count(self, name: str) -> None:
        """Count the end of a sample."""
        self._db.execute(_COUNT, (name,))

    def claimable(self, consumers: Sequence[str]) -> bool:
        """Return whether there may be jobs to claim; takes no lock that a writer waits for."""
        self._check()
        now = time.time()
        with self._file.opened() as db:
            if db.execute(f"{_DEAD} LIMIT 1", (self._owner, now, LEASE_S)).fetchone():
                return True
            marks = ",".join("?" * len(consumers))
            ready = f"SELECT 1 FROM jobs WHERE owner IS NULL AND consumer IN ({marks}) AND due <= ?"
            return db.execute(f"{ready} LIMIT 1", (*consumers, now)).fetchone() is not None

    def release_dead(self) -> None:
        """Release the jobs of processes whose lease ran out."""
        now = time.time()
        for (owner,) in self._db.execute(_DEAD, (self._owner, now, LEASE_S)).fetchall():
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

    def measure(self) -> tuple[int, int]:
        """Return samples and bytes in the file."""
        with self._file.opened() as self._db:
            sql = "SELECT COUNT(DISTINCT coalesce(origin, id)) FROM jobs"
            return int(self._db.execute(sql).fetchone()[0]), self._size()

    @property
    def beats_late(self) -> bool:
        """True if the lease should be extended."""
        return not 0.0 <= time.time() - self._beat_at < LEASE_S / 3

    @property
    def exists(self) -> bool:
        """True if there is a file to look into."""
        return self._identity is not None or self.path.exists()

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
