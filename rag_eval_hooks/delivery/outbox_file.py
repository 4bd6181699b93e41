"""The outbox's SQLite file, with jobs, leases and counts."""

from __future__ import annotations

import os
import sqlite3
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import SqliteFile, open_existing

EVALUATE: Final = "evaluate"  # consumer of samples
FEEDBACK: Final = "feedback"  # consumer of feedback on other processes' requests
NAME: Final = "outbox.sqlite"
LEASE_S: Final = 15.0  # seconds after which another process can claim a dead process's jobs
_BUSY_S: Final = 0.5
_SQL: Final[Mapping[str, Any]] = tomllib.loads(
    files(__package__).joinpath("outbox.toml").read_text("utf-8")
)


class State(Enum):
    HELD = "held"
    FREE = "free"  # any process may claim the job
    DONE = "done"


@dataclass(slots=True, eq=False)
class Job:
    """A sample to evaluate, or a result for one sink."""

    consumer: str
    payload: Any = None  # JSON text if this process claimed the job from the file
    encode: Callable[[], str] | None = None  # runs on the outbox's thread
    accepted: float = field(default_factory=time.time)
    tries: int = 0
    state: State = State.HELD
    # `done` sets these fields. The transaction that finishes the job stores them.
    count: str = ""
    then: Sequence[Job] = ()
    # The outbox sets these fields. `row` is final only after the commit.
    row: int | None = None
    text: str | None = None
    is_stored: bool = False
    is_left: bool = False  # this process has counted the sample as `spooled`
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
        # After a timeout, the caller has cancelled the future.
        with suppress(InvalidStateError):
            if self.written is not None:
                self.written.set_result(is_ours)


class OutboxFile:
    """The outbox's SQLite file, which several processes share. Not thread-safe.

    If the file fails, methods raise one of `FILE_ERRORS`. If `is_damage` accepts the error, call
    `replace`.
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

    def write(self, changes: Sequence[tuple[Job, State]]) -> list[bool]:
        with self._transaction() as db:
            return [self._sync(db, job, state) for job, state in changes]

    def claim(self, rooms: Mapping[str, int]) -> tuple[list[Job], int]:
        """Claim the oldest jobs of dead processes, up to each consumer's capacity.

        Also delete expired results whose sink is not configured. Return the claimed jobs and the
        number of deleted results. If nothing is ready, do not lock the file.
        """
        self._check()
        now = time.time()
        leases = self._owner, now, now + LEASE_S
        open_to = {name: room for name, room in rooms.items() if room > 0}
        with self._file.opened() as db:
            waiting = (_run(db, "ready", name).fetchone() for name in open_to)
            if not (self._is_beat(now) or _run(db, "dead", *leases).fetchone() or any(waiting)):
                return [], 0
        with self._transaction() as db:
            for (owner,) in _run(db, "dead", *leases).fetchall():
                self._release_all(db, owner)
            claimed = [
                _claimed(self._owner, name, *row)
                for name, room in open_to.items()
                for row in sorted(_run(db, "claim", self._owner, name, room).fetchall())
            ]
            old = f"{_SQL['old']} ({','.join('?' * len(rooms))})"
            removed = db.execute(old, (now - limits.SINK_KEEP_SECONDS, *rooms)).rowcount
        return claimed, removed

    def leave(self) -> None:
        with self._transaction() as db:
            self._release_all(db, self._owner)
        self._file.close()

    def replace(self) -> None:
        """Rename the damaged file to `*.damaged`, and start a new file."""
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
        """Raise `ValueError` if another program has deleted or replaced the file."""
        found = _identity_of(self.path)
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
        updated = _run(db, "update", owner, left_by, job.tries, job.row, self._owner)
        return updated.rowcount > 0

    def _finish(self, db: sqlite3.Connection, job: Job) -> bool:
        origin = job.row
        if origin is not None and _run(db, "delete", origin, self._owner).rowcount == 0:
            return False
        if job.count:
            _run(db, "count", job.count)
        for following in job.then:
            self._insert(db, following, origin)
            origin = origin or following.row
        return True

    def _insert(self, db: sqlite3.Connection, job: Job, origin: int | None = None) -> None:
        if job.row is not None or job.text is None or job.is_over:
            return
        if _number(db, "size") + len(job.text) <= self._max_bytes:
            row = (job.consumer, origin, job.accepted, self._owner, job.text)
            job.row = _run(db, "insert", *row).lastrowid

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


def _claimed(owner: str, consumer: str, row: int, *columns: Any) -> Job:
    tries, accepted, text, left_by = columns
    # Another program may have changed the file, so check the types.
    if not (isinstance(tries, int) and isinstance(accepted, float) and isinstance(text, str)):
        tries, accepted, text = 0, 0.0, ""
    job = Job(consumer, text, lambda: text, accepted, tries=tries, row=row, is_stored=True)
    job.is_left = left_by == owner
    return job


def check_spool(folder: Path) -> None:
    """Make an existing spool folder private. Raise `ConfigError` if the folder is unusable."""
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
    """Return each outcome's count over all processes. Without a file, return no counts."""
    with _read(path) as db:
        if db is None:
            return {}
        db.execute("BEGIN")
        ended = dict(_run(db, "ended").fetchall())
        pending, undelivered = (_number(db, name) for name in ("pending", "undelivered"))
    counts = {"accepted": sum(ended.values()) + pending, **ended, "pending": pending}
    return counts | ({"undelivered": undelivered} if undelivered else {})


def read_size(path: Path) -> tuple[int | None, int | None]:
    with _read(path) as db:
        return (0, 0) if db is None else (_number(db, "samples"), _number(db, "size"))


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
        yield db if _run(db, "has_counts").fetchone() else None
