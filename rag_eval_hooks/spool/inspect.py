"""Looks at a spool from outside: no thread, no lock that another process waits for, no change."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from rag_eval_hooks.spool.folder import spool_files, spool_folder
from rag_eval_hooks.spool.owner import is_held, lock_of
from rag_eval_hooks.spool.schema import VERSION
from rag_eval_hooks.sqlite_file import open_existing

__all__ = [
    "Health",
    "StoredSample",
    "carried_files",
    "spool_books",
    "spool_evaluations",
    "spool_health",
    "spool_samples",
]

_PATIENCE_S: Final = 0.5
_PENDING: Final = "pending"
_UNDELIVERED: Final = "undelivered"
_LOOKS: Final = 100
"""Looks at a folder in which files come and go before the last one is taken as it is."""
T = TypeVar("T")


def spool_books(path: Path) -> Mapping[str, int]:
    """Return the counts of all samples that went through a spool, by all processes.

    `accepted` is the sum of the columns and of `pending`. `undelivered`, if there are any, are
    samples that are counted in their column and that a sink still lacks. Empty if nothing was
    written yet; nothing is created.

    Args:
        path: Path of the spool in the settings.

    Raises:
        sqlite3.Error: A file cannot be read.
        OSError: A file cannot be read.
    """
    files = _each(path, _counts_of)
    if not files:
        return {}
    carried = {name for one in files.values() for name in one.carried}
    books: Counter[str] = Counter()
    for name, one in files.items():
        if name not in carried:
            books.update(one.books)
    books.update({_PENDING: sum(one.pending for one in files.values())})
    accepted = sum(books.values())
    books[_UNDELIVERED] = sum(one.undelivered for one in files.values())
    known = {entry: count for entry, count in books.items() if count or entry == _PENDING}
    return {"accepted": accepted, **known}


def carried_files(path: Path, but: str) -> set[str]:
    """Return the names of files whose counts another file already contains.

    Args:
        path: Path of the spool in the settings.
        but: Name of a file that is not read.

    Raises:
        sqlite3.Error: A file cannot be read.
        OSError: A file cannot be read.
    """
    files = _each(path, _counts_of, but)
    return {name for one in files.values() for name in one.carried}


@dataclass(frozen=True, slots=True)
class _Counts:
    books: Mapping[str, int] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    pending: int = 0
    undelivered: int = 0


def _counts_of(_file: Path, db: sqlite3.Connection) -> _Counts:
    db.execute("BEGIN")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        pending, rows = _rows(db, "SELECT COUNT(*) - COUNT(entry), COUNT(*) FROM rows")[0]
        books = dict(_rows(db, "SELECT entry, count FROM books"))
        carried = tuple(name for (name,) in _rows(db, "SELECT file FROM carried"))
        return _Counts(books, carried, pending, rows - pending)
    if not _rows(db, "SELECT 1 FROM sqlite_master WHERE name = 'samples'"):
        return _Counts()
    books = dict(_rows(db, "SELECT entry, count FROM books WHERE entry != 'accepted'"))
    (pending,) = _rows(db, "SELECT COUNT(*) FROM samples")[0]
    waiting = 0
    if _rows(db, "SELECT 1 FROM sqlite_master WHERE name = 'reports'"):
        ((waiting,),) = _rows(db, "SELECT COUNT(*) FROM reports")
    return _Counts(books, (), pending, waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """State of one file of a spool.

    Attributes:
        path: The file.
        version: Version of its schema.
        samples: Samples in it.
        oldest: Acceptance of the oldest in seconds since the epoch; None without samples.
        size: Bytes in use.
        damage: First damage that SQLite found, or None.
        is_owned: Whether its process is alive.
    """

    path: Path
    version: int
    samples: int
    oldest: float | None
    size: int
    damage: str | None
    is_owned: bool


def spool_health(path: Path) -> list[Health]:
    """Return the state of each file of a spool.

    Args:
        path: Path of the spool in the settings.

    Raises:
        sqlite3.Error: A file cannot be read, or is locked.
    """
    return list(_each(path, _health_of).values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """Sample in a spool.

    Attributes:
        id: Id of the sample.
        trace_id: Trace of its RAG span, or None.
        reason: Reason why it was chosen.
        probability: Inclusion probability.
        tries: Evaluations of it that were begun before, none of which ended.
        accepted_at: Acceptance in seconds since the epoch.
        sinks: Sinks that lack its evaluation; empty before the evaluation.
        scores: Metrics in its evaluation; 0 before it.
        is_counted: Whether it is counted as finished, so that only deliveries are missing.
        is_owned: Whether the process that holds it is alive.
    """

    id: str
    trace_id: str | None
    reason: str
    probability: float
    tries: int
    accepted_at: float
    sinks: tuple[str, ...]
    scores: int
    is_counted: bool
    is_owned: bool


def spool_samples(path: Path, name: str) -> list[StoredSample]:
    """Return the samples of a spool that have a trace id or sample id.

    Args:
        path: Path of the spool in the settings.
        name: The id, in lower case without dashes.

    Raises:
        sqlite3.Error: A file cannot be read.
    """
    found = _each(path, lambda file, db: list(_samples_of(file, db, name)))
    return [sample for samples in found.values() for sample in samples]


def spool_evaluations(path: Path) -> Iterator[tuple[str, str, float, str]]:
    """Yield sample, evaluation, probability and reason of what a sink still lacks, as stored.

    Args:
        path: Path of the spool in the settings.

    Raises:
        sqlite3.Error: A file cannot be read.
    """
    for rows in _each(path, _evaluations_of).values():
        yield from rows


def _evaluations_of(_file: Path, db: sqlite3.Connection) -> list[Any]:
    if _rows(db, "PRAGMA user_version") != [(VERSION,)]:
        return []
    return _rows(
        db,
        "SELECT sample, evaluation, probability, reason FROM rows"
        " WHERE evaluation IS NOT NULL ORDER BY seq",
    )


def _each(path: Path, look: Callable[[Path, sqlite3.Connection], T], but: str = "") -> dict[str, T]:
    """Return the result of a function by name of the file, for all files of a spool.

    If a file is removed meanwhile, another one may have its counts since: then all are read again.
    """
    found: dict[str, T] = {}
    for _ in range(_LOOKS):
        found = {}
        files = [*spool_files(spool_folder(path)), *([path] if path.is_file() else [])]
        try:
            for file in files:
                if file.name != but:
                    with closing(open_existing(file, patience=_PATIENCE_S)) as db:
                        found[file.name] = look(file, db)
        except sqlite3.OperationalError:
            if all(file.exists() for file in files):
                raise
        else:
            return found
    return found


def _health_of(file: Path, db: sqlite3.Connection) -> Health:
    damage = str(_rows(db, "PRAGMA quick_check(1)")[0][0])
    version = int(_rows(db, "PRAGMA user_version")[0][0])
    table = "rows" if version == VERSION else "samples"
    samples, oldest = 0, None
    if _rows(db, f"SELECT 1 FROM sqlite_master WHERE name = '{table}'"):
        samples, oldest = _rows(db, f"SELECT COUNT(*), MIN(accepted_at) FROM {table}")[0]
    pages = "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count"
    return Health(
        path=file,
        version=version,
        samples=samples,
        oldest=oldest,
        size=int(_rows(db, pages)[0][0]) * int(_rows(db, "PRAGMA page_size")[0][0]),
        damage=None if damage == "ok" else damage,
        is_owned=is_held(lock_of(file)),
    )


def _samples_of(file: Path, db: sqlite3.Connection, name: str) -> Iterator[StoredSample]:
    if _rows(db, "PRAGMA user_version") != [(VERSION,)]:
        return
    sample, trace = "json_extract(sample, '$.sample_id')", "json_extract(sample, '$.trace_id')"
    plain = "lower(replace({}, '-', ''))"
    query = (
        f"SELECT {sample}, {trace}, reason, probability, tries, accepted_at,"
        " (SELECT json_group_array(key) FROM json_each(sinks)),"
        " (SELECT COUNT(*) FROM json_each(coalesce(evaluation, '{}'), '$.outcomes')),"
        f" entry IS NOT NULL FROM rows WHERE {sample} = ?1 OR {plain.format(sample)} = ?1"
        f" OR {plain.format(trace)} = ?1 ORDER BY seq"
    )
    is_owned = is_held(lock_of(file))
    for row in db.execute(query, (name,)).fetchall():
        yield StoredSample(
            id=row[0],
            trace_id=row[1],
            reason=row[2],
            probability=row[3],
            tries=row[4],
            accepted_at=row[5],
            sinks=tuple(json.loads(row[6])),
            scores=row[7],
            is_counted=bool(row[8]),
            is_owned=is_owned,
        )


def _rows(db: sqlite3.Connection, query: str) -> list[Any]:
    return db.execute(query).fetchall()
