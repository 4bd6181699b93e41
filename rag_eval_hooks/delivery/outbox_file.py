"""The outbox's SQLite file: jobs, leases, replacement of a damaged file, and readers."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import SqliteFile, open_existing

__all__ = [
    *("EVALUATE", "FEEDBACK", "LEASE_S", "NAME", "Job", "OutboxFile", "State"),
    *("check_spool", "read_counts", "read_results", "read_size"),
]

EVALUATE: Final = "evaluate"
"""Consumer of samples. Every other consumer is a sink, except `FEEDBACK`."""
FEEDBACK: Final = "feedback"
"""Consumer of feedback on other processes' requests."""
NAME: Final = "outbox.sqlite"
LEASE_S: Final = 15.0
"""Seconds after which other processes may claim the jobs of a silent process."""
_BUSY_S: Final = 0.5
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY AUTOINCREMENT, consumer TEXT NOT NULL,"
    " origin INTEGER, accepted REAL NOT NULL, tries INTEGER NOT NULL DEFAULT 0, owner TEXT,"
    " left_by TEXT, payload TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS jobs_ready ON jobs (owner, consumer)",
    "CREATE TABLE IF NOT EXISTS owners (owner TEXT PRIMARY KEY, lease REAL NOT NULL)",
    "CREATE TABLE IF NOT EXISTS counts (name TEXT PRIMARY KEY, n INTEGER NOT NULL)",
)
_INSERT: Final = (
    "INSERT INTO jobs (consumer, origin, accepted, owner, payload) VALUES (?, ?, ?, ?, ?)"
)
_UPDATE: Final = "UPDATE jobs SET owner = ?, left_by = ?, tries = ? WHERE id = ? AND owner = ?"
_COUNT: Final = "INSERT INTO counts VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1"
_DEAD: Final = (
    # A lease far in the future was written before the clock was set back.
    "SELECT owner FROM owners WHERE owner != ? AND lease NOT BETWEEN ? AND ?"
)
_READY: Final = "SELECT 1 FROM jobs WHERE owner IS NULL AND consumer = ? LIMIT 1"
_CLAIM: Final = (
    "UPDATE jobs SET owner = ? WHERE id IN (SELECT id FROM jobs WHERE owner IS NULL"
    " AND consumer = ? ORDER BY id LIMIT ?) RETURNING id, tries, accepted, payload, left_by"
)
_OLD: Final = "DELETE FROM jobs WHERE owner IS NULL AND accepted < ? AND consumer NOT IN"
_SIZE: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_OF_SINKS: Final = f"NOT IN ('{EVALUATE}', '{FEEDBACK}')"
_SAMPLES: Final = "SELECT COUNT(DISTINCT coalesce(origin, id)) FROM jobs"


class State(Enum):
    HELD = "held"
    FREE = "free"
    """Any process may claim the job."""
    DONE = "done"


@dataclass(slots=True, eq=False)
class Job:
    """One sample to evaluate, or one result for one sink. Stored in the file if `encode` is set."""

    consumer: str
    payload: Any = None
    """The sample or result. For a job claimed from the file, its stored text."""
    encode: Callable[[], str] | None = None
    """Returns the text to store, in the outbox's thread. None keeps the job out of the file."""
    accepted: float = field(default_factory=time.time)
    """Time at which the sample was accepted, in seconds since the epoch."""
    tries: int = 0
    state: State = State.HELD
    count: str = ""
    """Counter to increase in the transaction that finishes the job."""
    then: Sequence[Job] = ()
    # The outbox sets these fields. `row` is provisional until the commit.
    row: int | None = None
    text: str | None = None
    is_stored: bool = False
    is_left: bool = False
    """Whether this process has already counted the sample as `spooled`."""
    is_undurable: bool = False
    written: Future[bool] | None = None
    # A sink's queue sets these fields. Times are seconds of the monotonic clock.
    chars: int = 0
    queued_at: float = 0.0
    give_up_at: float = 0.0
    sends: int = 0
    is_alone: bool = False
    is_last: bool = False
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state is State.DONE

    def inserts(self, state: State) -> Sequence[Job]:
        return self.then if state is State.DONE else (self,)

    def resolve(self, *, is_ours: bool = True) -> None:
        """Tell waiting callers whether the last change is on disk."""
        # The caller may have timed out and cancelled the future.
        with suppress(InvalidStateError):
            if self.written is not None:
                self.written.set_result(is_ours)


class OutboxFile:
    """The outbox's file, which several processes share. One thread uses this object.

    Methods raise one of `FILE_ERRORS`. After damage, or if the file is gone, call `replace`.
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
        return self._identity is not None or self.path.exists()

    def write(self, changes: Sequence[tuple[Job, State]]) -> list[bool]:
        """Write job states in one transaction. Return which jobs belonged to this process."""
        with self._transaction() as db:
            return [self._sync(db, job, state) for job, state in changes]

    def claim(self, rooms: Mapping[str, int]) -> tuple[list[Job], int]:
        """Claim the oldest jobs of dead processes, up to each consumer's capacity.

        All processes poll every second and must not delay a sample's write. The file is therefore
        locked only for changes. The second result is the number of removed results whose sink no
        longer exists.
        """
        self._check()
        now = time.time()
        leases = self._owner, now, now + LEASE_S
        open_to = {name: room for name, room in rooms.items() if room > 0}
        is_beat = self._is_beat(now)
        with self._file.opened() as db:
            dead = [owner for (owner,) in db.execute(_DEAD, leases)]
            if not (is_beat or dead or any(db.execute(_READY, (n,)).fetchone() for n in open_to)):
                return [], 0
        with self._transaction() as db:
            for owner in dead:
                self._release_all(db, owner)
            claimed = [
                _claimed(self._owner, name, *row)
                for name, room in open_to.items()
                for row in sorted(db.execute(_CLAIM, (self._owner, name, room)).fetchall())
            ]
            removed = 0
            if is_beat:
                old = f"{_OLD} ({','.join('?' * len(rooms))})"
                removed = db.execute(old, (now - limits.SINK_KEEP_SECONDS, *rooms)).rowcount
        return claimed, removed

    def leave(self) -> None:
        with self._transaction() as db:
            self._release_all(db, self._owner)
        self._file.close()

    def replace(self) -> None:
        """Start a new file with a new owner id. Rename a damaged file to `*.damaged`."""
        self._file.close()
        moved = self._identity
        self._reset()
        with suppress(OSError):
            # Another process may already have replaced it.
            if moved in (None, _identity_of(self.path)):
                os.replace(self.path, self.path.with_name(f"{NAME}.damaged"))
                for end in ("-wal", "-shm"):
                    # SQLite would apply the old file's log to the new file.
                    self.path.with_name(f"{NAME}{end}").unlink(missing_ok=True)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        self._check()
        now = time.time()
        is_beat = self._is_beat(now)
        with self._file.transaction() as db:
            if is_beat:
                beat = "INSERT OR REPLACE INTO owners VALUES (?, ?)"
                db.execute(beat, (self._owner, now + LEASE_S))
            yield db
        self._beat_at = now if is_beat else self._beat_at
        self._check()

    def _is_beat(self, now: float) -> bool:
        return not 0.0 <= now - self._beat_at < LEASE_S / 3

    def _check(self) -> None:
        """Raise `ValueError` if another program deleted or replaced the open file."""
        found = _identity_of(self.path) if self.path.exists() else None
        if self._identity not in (None, found):
            raise ValueError("the file was moved")
        self._identity = found

    def _sync(self, db: sqlite3.Connection, job: Job, state: State) -> bool:
        if state is State.DONE:
            return self._finish(db, job)
        if job.row is None:
            self._insert(db, job)
            if state is State.HELD:
                return True
        owner = None if state is State.FREE else self._owner
        left_by = self._owner if job.is_left else None
        return db.execute(_UPDATE, (owner, left_by, job.tries, job.row, self._owner)).rowcount > 0

    def _finish(self, db: sqlite3.Connection, job: Job) -> bool:
        if (origin := job.row) is not None:
            delete = "DELETE FROM jobs WHERE id = ? AND owner = ?"
            if db.execute(delete, (job.row, self._owner)).rowcount == 0:
                return False
        if job.count:
            db.execute(_COUNT, (job.count,))
        for following in job.then:
            self._insert(db, following, origin)
            origin = origin or following.row
        return True

    def _insert(self, db: sqlite3.Connection, job: Job, origin: int | None = None) -> None:
        if job.row is not None or job.text is None or job.is_over:
            return
        if db.execute(_SIZE).fetchone()[0] + len(job.text) <= self._max_bytes:
            row = (job.consumer, origin, job.accepted, self._owner, job.text)
            job.row = db.execute(_INSERT, row).lastrowid

    def _release_all(self, db: sqlite3.Connection, owner: str) -> None:
        db.execute("UPDATE jobs SET owner = NULL WHERE owner = ?", (owner,))
        db.execute("DELETE FROM owners WHERE owner = ?", (owner,))


def _identity_of(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_dev, state.st_ino


def _claimed(owner: str, consumer: str, row: int, *columns: Any) -> Job:
    tries, accepted, text, left_by = columns
    # Any program may have changed the file: a row of other types is unreadable.
    if not (isinstance(tries, int) and isinstance(accepted, float) and isinstance(text, str)):
        tries, accepted, text = 0, 0.0, ""
    job = Job(consumer, text, lambda: text, accepted, tries=tries, row=row, is_stored=True)
    job.is_left = left_by == owner
    return job


def check_spool(folder: Path) -> bool:
    """Check a spool folder and make it private. Return whether it contains an outbox file."""
    try:
        if folder.parent.is_dir() and (folder.is_dir() or not folder.exists()):
            if os.name == "posix" and folder.exists() and folder.stat().st_mode & 0o077:
                folder.chmod(0o700)
            return (folder / NAME).exists()
    except OSError:
        pass
    wants = "a folder of this user, or the path of a new folder inside an existing folder"
    raise ConfigError("spool", str(folder), wants)


def read_counts(path: Path) -> Mapping[str, int]:
    """Return counts of outcomes and waiting samples of all processes. Empty without a file."""
    with _read(path) as db:
        if db is None:
            return {}
        db.execute("BEGIN")
        ended = dict(db.execute("SELECT name, n FROM counts").fetchall())
        pending, undelivered = (
            db.execute(f"{_SAMPLES} WHERE consumer {one}").fetchone()[0]
            for one in (f"= '{EVALUATE}'", _OF_SINKS)
        )
    counts = {"accepted": sum(ended.values()) + pending, **ended, "pending": pending}
    return counts | ({"undelivered": undelivered} if undelivered else {})


def read_size(path: Path) -> tuple[int | None, int | None]:
    """Return the number of samples and of bytes in the file."""
    with _read(path) as db:
        if db is None:
            return 0, 0
        of_samples = f"{_SAMPLES} WHERE consumer != '{FEEDBACK}'"
        samples, size = (db.execute(sql).fetchone()[0] for sql in (of_samples, _SIZE))
        return int(samples), int(size)


def read_results(path: Path) -> Iterator[str]:
    chosen = f"SELECT payload FROM jobs WHERE consumer {_OF_SINKS}"
    with _read(path) as db:
        sql = f"{chosen} GROUP BY coalesce(origin, id) ORDER BY id"
        yield from () if db is None else [text for (text,) in db.execute(sql)]


@contextmanager
def _read(path: Path) -> Iterator[sqlite3.Connection | None]:
    if not path.exists():
        yield None
        return
    with closing(open_existing(path, patience=_BUSY_S)) as db:
        # The creating process may not have created the last table.
        has_tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'counts'").fetchone()
        yield db if has_tables else None
