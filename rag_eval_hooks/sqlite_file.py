"""What SQLite files that several processes share need, whoever comes first."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["FILE_ERRORS", "is_busy", "make_private", "use_log"]

FILE_ERRORS = (sqlite3.Error, OSError, UnicodeDecodeError)
"""What the use of a file may raise. SQLite's words about a damaged one may quote bytes that are no
text: then Python fails to decode the message."""
_RETRY_S = 0.005


def use_log(db: sqlite3.Connection, patience: float) -> None:
    """Switches to the write-ahead log, which readers and a writer use side by side.

    Of several processes that open a new file at the same moment, all but one are refused at
    once: SQLite does not wait for this switch as it does for other locks.

    Args:
        db: The open file.
        patience: Seconds in which to try again.

    Raises:
        sqlite3.Error: The file cannot be used.
    """
    until = time.monotonic() + patience
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def is_busy(error: BaseException) -> bool:
    """Whether another process has the file at the moment: nothing is wrong with it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def make_private(path: Path) -> None:
    """Makes the file where there is none; it and SQLite's files beside it are the owner's alone.

    SQLite gives the files beside it the mode of the file, so it must be there before them.

    Raises:
        OSError: It can be neither made nor changed.
    """
    # What is there is not opened: closing it again would end every lock that this process has on
    # it, those of another connection in the midst of a transaction too.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _take_from_others(path)
    for name in (f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            _take_from_others(path.with_name(name))


def _take_from_others(path: Path) -> None:
    if stat.S_IMODE(path.stat().st_mode) != 0o600:
        path.chmod(0o600)
