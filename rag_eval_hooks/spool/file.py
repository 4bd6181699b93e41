"""SQLite file of one process: its rows, and the counts of the rows that are gone."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from rag_eval_hooks.spool.owner import Owner, lock_of
from rag_eval_hooks.spool.schema import COLUMNS, SCHEMA, Row
from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile, is_damage

__all__ = ["EVALUATE", "MOST_ROWS", "SpoolFile", "put_aside"]

EVALUATE: Final = ""
"""Key of the rows that wait for the evaluator; rows that wait for a sink have its name as key."""
_PATIENCE_S: Final = 0.5
"""Seconds to wait for another program, such as a backup, that locks the file."""
_INSERT: Final = "INSERT INTO rows (seq, sample, probability, reason, accepted_at) VALUES "
MOST_ROWS: Final = 64
"""Samples that one statement may store."""
_PAGES: Final = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
_ADD: Final = (
    "INSERT INTO books VALUES (?, ?)"
    " ON CONFLICT (entry) DO UPDATE SET count = count + excluded.count"
)
_EXPIRE: Final = (
    "UPDATE rows SET sinks = json_patch(sinks, json_object(?, NULL)) WHERE accepted_at < ?"
    " AND entry IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(sinks) WHERE key = ?)"
)


class SpoolFile:
    """File that this process owns: its own, or one taken over from a process that has ended.

    Args:
        path: The file.
        owner: Its lock, held by this process.

    Attributes:
        path: The file.
        waiting: Numbers of rows that nothing in memory handles, by `EVALUATE` or name of a sink.
        is_lost: Whether the file was removed, replaced or put aside.
        is_damaged: Whether the file is broken, so that it is only read.

    Raises:
        sqlite3.Error: The file cannot be used.
        OSError: The file cannot be used.
        ValueError: The file is damaged.
    """

    def __init__(self, path: Path, owner: Owner) -> None:
        self.path = path
        self.waiting: dict[str, deque[int]] = {}
        self.is_lost = False
        self.is_damaged = False
        self._owner = owner
        self._file = SqliteFile(path, SCHEMA, patience=_PATIENCE_S)
        self._next = 1
        with self._file.opened():
            self._inode = os.stat(path).st_ino

    @property
    def is_writable(self) -> bool:
        """True while rows can still be changed."""
        return not (self.is_lost or self.is_damaged)

    @classmethod
    def create(cls, folder: Path) -> Self:
        """Create the file of this process in a folder.

        Raises:
            sqlite3.Error: The file cannot be created.
            OSError: The file cannot be created.
        """
        while True:
            path = folder / f"{secrets.token_hex(16)}.sqlite"
            # None where another process tests the new lock at this very moment.
            if (owner := Owner.take(lock_of(path))) is not None:
                try:
                    return cls(path, owner)
                except BaseException:
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
                        owner.remove()
                    raise

    def is_intact(self) -> bool:
        """Return whether file and lock are still at their paths."""
        try:
            return os.stat(self.path).st_ino == self._inode and self._owner.is_intact()
        except OSError:
            return False

    def insert(self, rows: Sequence[tuple[str, float, str, float]]) -> range:
        """Store at most `MOST_ROWS` samples, all or none, and return the numbers of their rows.

        It is one statement: in a busy process, this thread may have to wait for the interpreter
        lock after every call, and a kill loses what is not stored yet.

        Args:
            rows: Sample as JSON, inclusion probability, reason and time of acceptance.
        """
        numbers = range(self._next, self._next + len(rows))
        values = [value for seq, row in zip(numbers, rows, strict=True) for value in (seq, *row)]
        with self._file.opened() as db:
            db.execute(_INSERT + ", ".join(["(?, ?, ?, ?, ?)"] * len(rows)), values)
        self._next += len(rows)
        return numbers

    def apply(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """Execute statements in one transaction."""
        with self._file.transaction() as db:
            for statement, values in statements:
                db.execute(statement, values)

    def find_waiting(self) -> None:
        """Note all rows as waiting: for the evaluator, or for the sinks that lack the result."""
        self.waiting = {}
        found: dict[int, list[str]] = {}
        with self._file.opened() as db:
            for order in ("ASC", "DESC"):
                rows = db.execute(f"SELECT seq, entry, sinks FROM rows ORDER BY seq {order}")
                try:
                    for seq, entry, sinks in rows:
                        found[seq] = [EVALUATE] if entry is None else _names(sinks)
                except (sqlite3.Error, ValueError) as error:
                    if not is_damage(error):
                        raise
                    # What lies behind the damage may be reached from the other end.
                    self.is_damaged = True
                else:
                    break
        for seq in sorted(found):
            for key in found[seq]:
                self.waiting.setdefault(key, deque()).append(seq)

    def expire(self, sinks: Iterable[str], oldest: float) -> int:
        """Give up results that wait for sinks since before a time; return how many.

        Args:
            sinks: Names of the sinks.
            oldest: Acceptance of the oldest sample to keep, in seconds since the epoch.
        """
        with self._file.transaction() as db:
            return sum(db.execute(_EXPIRE, (name, oldest, name)).rowcount for name in sinks)

    def read(self, key: str, limit: int) -> list[Row]:
        """Return the oldest waiting rows of a key, which are then no longer waiting."""
        waiting = self.waiting.get(key, deque())
        rows: list[Row] = []
        with self._file.opened() as db:
            while waiting and len(rows) < limit:
                row = _read(db, waiting[0])
                waiting.popleft()
                if row is not None:
                    rows.append(row)
        return rows

    def count_rows(self) -> int:
        """Return the number of rows; takes long if they are many."""
        with self._file.opened() as db:
            return int(db.execute("SELECT COUNT(*) FROM rows").fetchone()[0])

    def is_empty(self) -> bool:
        """Return whether there is no row."""
        with self._file.opened() as db:
            return db.execute("SELECT 1 FROM rows LIMIT 1").fetchone() is None

    def size(self) -> int:
        """Return the bytes in use."""
        with self._file.opened() as db:
            (pages,) = db.execute(_PAGES).fetchone()
            return int(pages) * int(db.execute("PRAGMA page_size").fetchone()[0])

    def counts(self) -> tuple[Counter[str], set[str]]:
        """Return the counts of rows that are gone, and the files whose counts are among them."""
        with self._file.opened() as db:
            counts = Counter(dict(db.execute("SELECT entry, count FROM books").fetchall()))
            return counts, {name for (name,) in db.execute("SELECT file FROM carried")}

    def carry(self, file: SpoolFile) -> None:
        """Add the counts of an empty file to this one, once, before that file is removed."""
        counts, carried = file.counts()
        with self._file.transaction() as db:
            new = "INSERT OR IGNORE INTO carried VALUES (?)"
            if db.execute(new, (file.path.name,)).rowcount:
                db.executemany(_ADD, counts.items())
            db.executemany(new, [(name,) for name in carried])

    def forget_carried(self) -> None:
        """Drop the notes of carried files that are gone: their names never return."""
        _, carried = self.counts()
        gone = [name for name in carried if not self.path.with_name(name).exists()]
        if gone:
            self.apply(("DELETE FROM carried WHERE file = ?", (name,)) for name in gone)

    def close(self) -> None:
        """Close the file and leave it to other processes."""
        try:
            self._file.close()
        finally:
            self._owner.release()

    def remove(self) -> None:
        """Remove the file with its lock."""
        self._file.close()
        for ending in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        self._owner.remove()

    def put_aside(self) -> None:
        """Rename the damaged file, so that nobody takes it over again."""
        self.is_lost = True
        with suppress(*FILE_ERRORS):
            self._file.close()
        put_aside(self.path, self._owner)


def put_aside(path: Path, owner: Owner) -> None:
    """Rename a damaged file and remove its lock, as far as the disk allows."""
    with suppress(OSError):
        for ending in ("", "-wal", "-shm"):
            file = path.with_name(path.name + ending)
            with suppress(FileNotFoundError):
                file.rename(file.with_name(f"{file.name}.damaged"))
    with suppress(OSError):
        owner.remove()


def _read(db: sqlite3.Connection, seq: int) -> Row | None:
    """Return a row, or None if it is gone; an empty one in place of a damaged one."""
    try:
        values = db.execute(f"SELECT {COLUMNS} FROM rows WHERE seq = ?", (seq,)).fetchone()
    except (sqlite3.Error, ValueError) as error:
        if not is_damage(error):
            raise
        return Row(seq, "", 0.0, "", 0.0)
    return None if values is None else Row(*values)


def _names(sinks: object) -> list[str]:
    """Return the names in a row's JSON; a row that cannot be read goes to the evaluator's check."""
    try:
        data = json.loads(str(sinks))
    except ValueError:
        return [EVALUATE]
    return list(data) if isinstance(data, Mapping) and data else [EVALUATE]
