"""Judge replies on disk, in one SQLite file; failures of the disk never reach the judge."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile
from rag_eval_hooks.threads import DaemonExecutor

__all__ = ["Disk"]

_FILE = "replies.sqlite"
_BUSY_S = 0.5
"""Seconds to wait for another process that holds the file before the judge is asked again."""
_PATIENCE_S = 2.0
"""Seconds that a disk that hangs may delay a judgement."""
_MOST_FAILURES = 5
"""Failures in a row after which the disk is no longer used."""
_TABLE = "CREATE TABLE IF NOT EXISTS replies_1 (id INTEGER PRIMARY KEY, key BLOB UNIQUE, text TEXT)"
_GET = "SELECT text FROM replies_1 WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO replies_1 (key, text) VALUES (?, ?)"
_TRIM = "DELETE FROM replies_1 WHERE id <= (SELECT MAX(id) FROM replies_1) - ?"


def _is_folder(path: Path) -> bool:
    """Return whether a folder exists, or can be created, at a path."""
    try:
        # In this order: another process may create the folder between the two looks.
        return not path.exists() or path.is_dir()
    except OSError:
        return False


class Disk:
    """Texts by key, read and written in a thread of its own; any number of processes share them.

    A file that is corrupt or locked and a disk that is full or hangs make `get` return nothing and
    `put` store nothing. Each failure is counted, the first of its kind is logged, and after some
    failures in a row the disk is no longer used.

    Args:
        folder: Folder of the file; created if it does not exist.
        size: Number of texts kept; the oldest are removed first.
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
        self._replies = SqliteFile(folder / _FILE, (_TABLE,), patience=_BUSY_S)
        self._worker = DaemonExecutor("rag-eval-hooks-memo")

    async def get(self, key: bytes) -> str | None:
        """Return the text; None if there is none or the disk fails."""
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
        """Store a text soon. Never waits."""
        if self._failures < _MOST_FAILURES:
            self._worker.submit(self._put, key, text)

    async def aclose(self) -> None:
        """Close the file after the pending writes; a later call opens it again."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await loop.run_in_executor(self._worker, self._close)
        except TimeoutError as error:
            self._failed(error)

    def _get(self, key: bytes) -> str | None:
        try:
            with self._file().opened() as connection:
                row = connection.execute(_GET, (key,)).fetchone()
        except FILE_ERRORS as error:
            self._failed(error)
            return None
        self._failures = 0
        return row[0] if row is not None and isinstance(row[0], str) else None

    def _put(self, key: bytes, text: str) -> None:
        try:
            with self._file().transaction() as connection:
                connection.execute(_PUT, (key, text))
                connection.execute(_TRIM, (self._size,))
        except FILE_ERRORS as error:
            self._failed(error)
        else:
            self._failures = 0

    def _file(self) -> SqliteFile:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._replies

    def _close(self) -> None:
        try:
            self._replies.close()
        except FILE_ERRORS as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._incidents.report("judge memo on disk", error)
