"""What SQLite files that several processes share need, whoever comes first."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

__all__ = ["is_busy", "make_private", "use_log"]

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
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _take_from_others(file)
    finally:
        os.close(file)
    for name in (f"{path.name}-wal", f"{path.name}-shm"):
        try:
            beside = os.open(path.with_name(name), os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            _take_from_others(beside)
        finally:
            os.close(beside)


def _take_from_others(file: int) -> None:
    if stat.S_IMODE(os.fstat(file).st_mode) != 0o600:
        os.fchmod(file, 0o600)
