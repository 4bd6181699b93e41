"""`Memo`: a cache of valid model replies, which judges reuse for identical prompts."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.errors import check_count
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile
from rag_eval_hooks.threads import DaemonExecutor

_FILE: Final = "replies.sqlite"
_BUSY_S: Final = 0.5  # maximum seconds to wait for another process's lock
_PATIENCE_S: Final = 2.0  # maximum seconds to wait for a hanging disk
_MOST_FAILURES: Final = 5  # consecutive failures after which the memo stops using the disk
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS replies_1 (id INTEGER PRIMARY KEY, key BLOB UNIQUE, text TEXT)"
)
_GET: Final = "SELECT text FROM replies_1 WHERE key = ?"
_PUT: Final = "INSERT OR REPLACE INTO replies_1 (key, text) VALUES (?, ?)"
_TRIM: Final = "DELETE FROM replies_1 WHERE id <= (SELECT MAX(id) FROM replies_1) - ?"


class Memo:
    """A cache of replies from models, in memory or on disk. Model and prompt are the key.

    Several judges may share a memo, and several processes may share its folder. Replies contain
    claims of your samples, so restrict access to the folder.

    If the disk fails, the judge asks the model instead. After five consecutive failures, the memo
    no longer reads or writes the disk.

    Args:
        path: Folder for the replies. None keeps the replies in memory.
        size: Maximum number of stored replies. A full memo deletes its oldest reply.
    """

    def __init__(self, path: str | PathLike[str] | None = None, *, size: int = 2048) -> None:
        check_count("size", size)
        self._size = size
        self._incidents = Incidents()
        self._failures = 0
        # Dictionary operations are atomic. A lock could stay locked in a forked child.
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._file = None
        if path is not None:
            self._file = SqliteFile(Path(path, _FILE), (_TABLE,), patience=_BUSY_S)
        self._worker = DaemonExecutor("rag-eval-hooks-memo")

    async def recall(self, key: bytes) -> str | None:
        if self._file is None:
            return self._texts.get(key)
        row: Any = None
        if (found := self._on_disk(lambda db: db.execute(_GET, (key,)).fetchone())) is not None:
            try:
                row = await asyncio.wait_for(asyncio.wrap_future(found), _PATIENCE_S)
            except TimeoutError as error:
                self._failed(error)
        return row[0] if row and isinstance(row[0], str) else None

    def keep(self, key: bytes, text: str) -> None:
        def put(db: sqlite3.Connection) -> None:
            db.execute(_PUT, (key, text))
            db.execute(_TRIM, (self._size,))

        if self._file is not None:
            self._on_disk(put)
            return
        self._texts[key] = text
        if len(self._texts) > self._size:
            self._texts.popitem(last=False)

    async def aclose(self) -> None:
        if self._file is not None:
            # A timeout cancels the call that it limits, so await a call after the close.
            self._worker.submit(self._file.close)
            closed = asyncio.wrap_future(self._worker.submit(bool))
            with suppress(TimeoutError):
                await asyncio.wait_for(closed, _PATIENCE_S)

    def _on_disk(self, work: Callable[[sqlite3.Connection], Any]) -> Future[Any] | None:
        file = self._file
        if file is None or self._failures >= _MOST_FAILURES:
            return None

        def run() -> Any:
            try:
                file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with file.opened() as connection:
                    result = work(connection)
            except FILE_ERRORS as error:
                return self._failed(error)
            self._failures = 0
            return result

        return self._worker.submit(run)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        self._incidents.report("judge cache on disk", error)


def memo_key(model: str, scope: str, asked: object) -> bytes:
    whole = json.dumps([model, scope, asked])
    return hashlib.blake2b(whole.encode("ascii"), digest_size=20).digest()
