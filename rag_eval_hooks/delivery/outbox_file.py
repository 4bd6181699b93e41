"""The outbox's SQLite file, with jobs and leases."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import SqliteFile, open_existing
from rag_eval_hooks.text.folding import toml_of

EVALUATE: Final = "evaluate"  # consumer of samples
FEEDBACK: Final = "feedback"  # consumer of feedback on other processes' requests
NAME: Final = "outbox.sqlite"
LOST: Final = -1  # result of a write if another process has claimed the job
LEASE_S: Final = 15.0  # seconds after which another process can claim a dead process's jobs
_BUSY_S: Final = 0.5
_SQL: Final = toml_of("outbox.toml", __package__)


@dataclass(slots=True, eq=False)
class Job:
    """A sample to evaluate, a result to deliver to sinks, or feedback."""

    consumers: set[str]  # names of the consumers that must finish the job
    encode: Callable[[], str]  # returns the payload; runs on the outbox's thread
    accepted: float = field(default_factory=time.time)
    tries: int = 0
    left: set[str] = field(default_factory=set)  # consumers left to other processes
    # The outbox sets the fields below.
    row: int | None = None
    stored: Callable[[], str] | None = None  # the `encode` that returned the row's payload
    is_ours: bool = True  # False after another process may have claimed the job
    is_left: bool = False  # this process has counted the sample as `spooled`
    is_undurable: bool = False
    written: Future[bool] | None = None

    @property
    def is_stored(self) -> bool:
        return self.stored is not None

    @property
    def is_claimable(self) -> bool:
        return bool(self.consumers) and self.consumers <= self.left


class OutboxFile:
    """Methods raise `FILE_ERRORS`. If `is_damage(error)` is true, call `replace`.

    Not thread-safe.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.path = folder / NAME
        self._max_bytes = max_bytes
        self._file = SqliteFile(self.path, _SQL["schema"], patience=_BUSY_S)
        self._reset()

    def _reset(self) -> None:
        self._owner = uuid.uuid4().hex
        self._identity: tuple[int, int] | None = None
        self._beat_at = 0.0

    @property
    def exists(self) -> bool:
        return self._identity is not None or self.path.exists()

    def write(self, changes: Iterable[tuple[Job, str | None]]) -> list[int | None]:
        """Store jobs and their payloads. If a payload is None, the stored payload stays.

        Return each job's row, or `LOST` if another process claimed the job. A finished job has no
        row. If the file is full, a new job has no row.
        """
        with self._transaction() as db:
            return [self._write(db, job, text) for job, text in changes]

    def claim(self, rooms: Mapping[str, int]) -> tuple[list[Job], int]:
        """Claim jobs, and delete old results of removed sinks.

        Return the claimed jobs and the number of deleted results.
        """
        self._check()
        now = time.time()
        leases = self._owner, now, now + LEASE_S
        open_to = {name: room for name, room in rooms.items() if room > 0}
        with self._file.opened() as db:
            waiting = (_run(db, "ready", name).fetchone() for name in open_to)
            if not (self._is_beat(now) or _run(db, "dead", *leases).fetchone() or any(waiting)):
                # Without a ready job, do not lock the file.
                return [], 0
        with self._transaction() as db:
            for (owner,) in _run(db, "dead", *leases).fetchall():
                self._release_all(db, owner)
            claimed = [
                _claimed(self._owner, *row)
                for name, room in open_to.items()
                for row in sorted(_run(db, "claim", self._owner, name, room).fetchall())
            ]
            expired = _run(db, "old", now - limits.SINK_KEEP_SECONDS).fetchall()
            unknown = [row for row, names in expired if rooms.keys().isdisjoint(_split(names))]
            for row in unknown:
                _run(db, "remove", row)
        return claimed, len(unknown)

    def leave(self) -> None:
        with self._transaction() as db:
            self._release_all(db, self._owner)
        self._file.close()

    def replace(self) -> None:
        self._file.close()
        moved = self._identity
        self._reset()
        with suppress(OSError):
            # Another process may already have replaced the file.
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
                _run(db, "beat", self._owner, now + LEASE_S)
            yield db
        self._beat_at = now if is_beat else self._beat_at
        self._check()

    def _is_beat(self, now: float) -> bool:
        return not 0.0 <= now - self._beat_at < LEASE_S / 3

    def _check(self) -> None:
        found = _identity_of(self.path)
        if self._identity not in (None, found):
            raise ValueError("Another program moved the outbox file.")
        self._identity = found

    def _write(self, db: sqlite3.Connection, job: Job, text: str | None) -> int | None:
        row = job.row
        state = (
            "\n".join(sorted(job.consumers)),
            job.tries,
            None if job.is_claimable else self._owner,
            self._owner if job.is_left else None,
        )
        if row is not None and job.consumers and text is None:
            is_ours = _run(db, "update", *state, row, self._owner).rowcount > 0
        else:
            is_ours = row is None or _run(db, "delete", row, self._owner).rowcount > 0
            row = None
        if not (job.is_ours and is_ours):
            return LOST
        if text is not None and _number(db, "size") + len(text) <= self._max_bytes:
            names, tries, *owners = state
            row = _run(db, "insert", names, job.accepted, tries, *owners, text).lastrowid
        return row

    def _release_all(self, db: sqlite3.Connection, owner: str) -> None:
        _run(db, "release", owner)
        _run(db, "forget", owner)


def _run(db: sqlite3.Connection, statement: str, *values: object) -> sqlite3.Cursor:
    return db.execute(_SQL[statement], values)


def _number(db: sqlite3.Connection, statement: str) -> int:
    return int(_run(db, statement).fetchone()[0])


def _identity_of(path: Path) -> tuple[int, int] | None:
    with suppress(FileNotFoundError):
        state = path.stat()
        return state.st_dev, state.st_ino
    return None


def _split(names: object) -> list[str]:
    return str(names).split("\n")


def _claimed(owner: str, row: int, names: str, *columns: Any) -> Job:
    tries, accepted, text, left_by = columns
    # Another program may have changed the file, so check the types.
    if not (isinstance(tries, int) and isinstance(accepted, float) and isinstance(text, str)):
        tries, accepted, text = 0, 0.0, ""
    job = Job({*_split(names)}, lambda: text, accepted, tries, row=row)
    job.stored, job.is_left = job.encode, left_by == owner
    return job


def check_spool(folder: Path) -> None:
    try:
        is_new = not folder.exists()
        if folder.parent.is_dir() and (is_new or folder.is_dir()):
            if os.name == "posix" and not is_new and folder.stat().st_mode & 0o077:
                folder.chmod(0o700)
            # Raises `OSError` if the folder belongs to another user.
            (folder / NAME).exists()
            return
    except OSError:
        pass
    wants = "a folder that this user owns, or a new folder inside an existing folder"
    raise ConfigError("spool", str(folder), wants)


def read_counts(path: Path) -> Mapping[str, int]:
    with _read(path) as db:
        return {} if db is None else {key: _number(db, key) for key in ("pending", "undelivered")}


def read_results(path: Path) -> Iterator[str]:
    with _read(path) as db:
        yield from () if db is None else [text for (text,) in _run(db, "results")]


@contextmanager
def _read(path: Path) -> Iterator[sqlite3.Connection | None]:
    if not path.exists():
        yield None
        return
    with closing(open_existing(path, patience=_BUSY_S)) as db:
        # Another process may still be creating the tables.
        yield db if _run(db, "has_tables").fetchone() else None
