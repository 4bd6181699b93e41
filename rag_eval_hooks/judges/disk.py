"""Replies on disk, in one SQLite file; whatever is wrong with the disk, nobody is disturbed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from rag_eval_hooks.daemon_executor import DaemonExecutor
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.forks import ForkGuard
from rag_eval_hooks.incidents import Incidents

__all__ = ["Disk"]

_FILE = "replies.sqlite"
_BUSY_S = 0.2
"""How long another process may keep the file locked before a reply is asked for anew."""
_PATIENCE_S = 2.0
"""How long a disk that hangs may hold up a judgement."""
_MOST_FAILURES = 5
"""Failures in a row after which the disk is left alone."""
_TABLE = "CREATE TABLE IF NOT EXISTS replies_1 (id INTEGER PRIMARY KEY, key BLOB UNIQUE, text TEXT)"
_GET = "SELECT text FROM replies_1 WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO replies_1 (key, text) VALUES (?, ?)"
_TRIM = "DELETE FROM replies_1 WHERE id <= (SELECT MAX(id) FROM replies_1) - ?"


def _is_folder(path: Path) -> bool:
    """Whether a folder is, or can be made, at a path."""
    try:
        return path.is_dir() or not path.exists()
    except OSError:
        return False


class Disk:
    """Texts by key, in a thread of its own, for any number of processes.

    A file that is corrupt or locked and a disk that is full or hangs make `get` find nothing and
    `put` keep nothing. It is counted, logged once by its kind, and after some failures in a row
    the disk is left alone.

    Args:
        folder: Where the file is, or is to be.
        size: Texts kept; the ones stored first leave first.
        incidents: Counts failures.

    Raises:
        ConfigError: The folder's path is a file.
    """

    def __init__(self, folder: Path, size: int, incidents: Incidents) -> None:
        if not _is_folder(folder):
            raise ConfigError("judge_memo", str(folder), "the path of a folder")
        self._folder = folder
        self._size = size
        self._incidents = incidents
        self._failures = 0
        self._guard = ForkGuard(self._let_go)
        self._opened: tuple[int, sqlite3.Connection] | None = None
        self._inherited: list[object] = []
        self._worker = DaemonExecutor("rag-eval-hooks-memo")

    async def get(self, key: bytes) -> str | None:
        """The text, or None where there is none or the disk fails."""
        if self._failures >= _MOST_FAILURES:
            return None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await loop.run_in_executor(self._worker, self._get, key)
        except TimeoutError as error:
            self._failed(error)
            return None

    def put(self, key: bytes, text: str) -> None:
        """Keeps a text, soon; never waits for it."""
        if self._failures < _MOST_FAILURES:
            self._worker.submit(self._put, key, text)

    async def aclose(self) -> None:
        """Closes the file after the writing in hand; a later call opens it again."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await loop.run_in_executor(self._worker, self._close)
        except TimeoutError as error:
            self._failed(error)

    def _get(self, key: bytes) -> str | None:
        try:
            with self._guard:
                row = self._connection().execute(_GET, (key,)).fetchone()
        except (sqlite3.Error, OSError, ValueError) as error:
            self._failed(error)
            return None
        self._failures = 0
        return row[0] if row is not None and isinstance(row[0], str) else None

    def _put(self, key: bytes, text: str) -> None:
        try:
            with self._guard, self._connection() as connection:
                connection.execute(_PUT, (key, text))
                connection.execute(_TRIM, (self._size,))
        except (sqlite3.Error, OSError, ValueError) as error:
            self._failed(error)
        else:
            self._failures = 0

    def _connection(self) -> sqlite3.Connection:
        if self._opened is not None and self._opened[0] != os.getpid():
            # It was in use for too long when the process forked, and is the parent's alone.
            self._inherited.append(self._opened)
            self._opened = None
        if self._opened is None:
            self._opened = os.getpid(), self._open()
        return self._opened[1]

    def _open(self) -> sqlite3.Connection:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / _FILE
        # Replies quote texts: they are the owner's alone, whatever the umask and the folder.
        # One that is there is not opened: closing it again would end this process's locks on it.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_TABLE)
        except (sqlite3.Error, ValueError):
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        with self._guard:
            self._let_go()

    def _let_go(self) -> None:
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
            self._opened = None

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._incidents.report("judge memo on disk", error)
