"""SQLite files that threads, processes and forked children share."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from rag_eval_hooks.threads import at_fork

# Python raises `UnicodeDecodeError` if SQLite's message quotes invalid bytes.
FILE_ERRORS: Final = (sqlite3.Error, OSError, ValueError)
# SQLite's own pauses last up to 0.1 s, so newer processes could overtake a waiting process.
_RETRY_S: Final = 0.002
_FORK_PATIENCE_S: Final = 2.0  # longest wait of a fork for another thread
_LOG_LIMIT: Final = 4_194_304  # maximum bytes of the write-ahead log after a checkpoint
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
# These errors do not mean a damaged file.
_HARMLESS: Final = "BUSY LOCKED FULL IOERR READONLY CANTOPEN PERM NOMEM INTERRUPT TOOBIG"
_UNHARMED: Final = {getattr(sqlite3, f"SQLITE_{name}") for name in _HARMLESS.split()}


class SqliteFile:
    """A connection to an SQLite file. Thread-safe.

    The connection closes before a fork, because a child process must not inherit SQLite's locks.
    """

    def __init__(self, path: Path, schema: Sequence[str], *, patience: float) -> None:
        self.path = path
        self._schema, self._patience = schema, patience  # seconds to wait for a lock
        self._lock, self._forking = threading.Lock(), False
        self._connection: sqlite3.Connection | None = None
        self._inherited: list[sqlite3.Connection | None] = []
        at_fork(before=self._before_fork, in_parent=self._after_fork, in_child=self._forked)

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = _open(self.path, self._schema, self._patience)
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self.opened() as connection:
            # Lock before reading, so that two processes do not act on the same rows.
            _locking(connection, "BEGIN IMMEDIATE", time.monotonic() + self._patience)
            with connection:
                yield connection

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _before_fork(self) -> None:
        self._forking = self._lock.acquire(timeout=_FORK_PATIENCE_S)
        if self._forking:
            with suppress(*FILE_ERRORS):
                self._close()

    def _after_fork(self) -> None:
        if self._forking:
            self._forking = False
            self._lock.release()

    def _forked(self) -> None:
        # Another thread may have held the lock. An open connection belongs to the parent, so keep
        # a reference to prevent its garbage collection.
        self._lock, self._forking = threading.Lock(), False
        self._inherited.append(self._connection)
        self._connection = None


def open_existing(path: Path, *, patience: float, writable: bool = False) -> sqlite3.Connection:
    # Not "rwc", because SQLite would create the file with the umask's permissions.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'rw' if writable else 'ro'}",
        uri=True,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
    )


def is_damage(error: BaseException, *, is_read: bool = False) -> bool:
    if is_read and isinstance(error, sqlite3.DataError):
        # A row beyond SQLite's limits means a damaged file.
        return True
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF not in _UNHARMED
    # A UnicodeEncodeError means that our own text is invalid, not that the file is damaged.
    return isinstance(error, ValueError) and not isinstance(error, UnicodeEncodeError)


def is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF in _BUSY


def _open(path: Path, schema: Sequence[str], patience: float) -> sqlite3.Connection:
    _make_private(path)
    until = time.monotonic() + patience
    connection = open_existing(path, patience=_RETRY_S, writable=True)
    try:
        # With a write-ahead log, readers and writers do not block each other.
        _locking(connection, "PRAGMA journal_mode = WAL", until)
        # A commit survives a crash of the process, but not a power failure.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT}")
        for statement in schema:
            _locking(connection, statement, until)
    except BaseException:
        connection.close()
        raise
    return connection


def _locking(connection: sqlite3.Connection, statement: str, until: float) -> None:
    while True:
        try:
            connection.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)


def _make_private(path: Path) -> None:
    # SQLite's log gets the file's permissions. Do not open an existing file, because closing the
    # file would release this process's locks.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + end).chmod(0o600)
