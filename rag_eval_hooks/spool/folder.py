"""Folder of a spool, and the spools of version 1, which were one file for all processes.

Version 1 had its file at the path of the setting. While such a file, or the folder that was made
because of one, exists, the folder stands beside it as `<path>.d`; otherwise it stands at the path
itself. Processes of both versions that start at the same moment therefore never write to the same
file. The old file is moved into the folder, as the file of a process that has ended, once the last
process of version 1 that shares it is gone.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.spool.owner import is_held, is_supported
from rag_eval_hooks.spool.recovered import ALL_SINKS
from rag_eval_hooks.spool.schema import APPLICATION, SCHEMA, VERSION
from rag_eval_hooks.sqlite_file import FILE_ERRORS, open_existing

__all__ = [
    "check_spool",
    "identity_of",
    "make_folder",
    "move_old_file",
    "spool_files",
    "spool_folder",
    "upgrade",
]

_OLD_VERSION: Final = 1
_PATIENCE_S: Final = 0.5
_NAME: Final = re.compile(r"[0-9a-f]{32}\.sqlite")
_WANTS: Final = "a folder, or a path in a folder that exists"


def spool_folder(path: Path) -> Path:
    """Return the folder of the spool at a path of the settings."""
    beside = path.with_name(f"{path.name}.d")
    return beside if path.is_file() or beside.is_dir() else path


def make_folder(path: Path) -> Path:
    """Create the folder of the spool, for its owner alone, if it does not exist.

    Raises:
        OSError: It cannot be created.
    """
    folder = spool_folder(path)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        # A process of version 1 has just created its file.
        folder = spool_folder(path)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def spool_files(folder: Path) -> list[Path]:
    """Return the spool files in a folder, the oldest first; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry in entries if _NAME.fullmatch(entry.name)]
            return [Path(entry.path) for entry in sorted(found, key=_changed_at)]
    except OSError:
        return []


def _changed_at(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def identity_of(path: Path) -> tuple[int, int]:
    """Return application id and schema version of an SQLite file; two zeros of an empty one.

    Raises:
        sqlite3.Error: The file cannot be read, or is not a database.
    """
    with closing(open_existing(path, patience=_PATIENCE_S)) as db:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return int(application), int(version)


def check_spool(path: Path) -> bool:
    """Look at a spool before anything is written to it.

    Returns:
        Whether earlier processes may have left something.

    Raises:
        ConfigError: The path cannot be a folder, it is a file of another program, or this system
            lacks file locks.
    """
    if not is_supported():
        raise ConfigError("spool", str(path), "a system with POSIX file locks, or 'none'")
    try:
        if not path.parent.is_dir():
            raise ConfigError("spool", str(path), _WANTS)
        if path.is_file() and path.stat().st_size:
            _check_old_file(path)
            return True
        return bool(spool_files(spool_folder(path)))
    except OSError:
        raise ConfigError("spool", str(path), _WANTS) from None


def _check_old_file(path: Path) -> None:
    try:
        application, version = identity_of(path)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            wants = f"{_WANTS}; this is a file, and not of a spool"
            raise ConfigError("spool", str(path), wants) from None
        return
    except FILE_ERRORS:
        return
    if application != APPLICATION and (application, version) != (0, 0):
        raise ConfigError("spool", str(path), f"{_WANTS}; this is another program's file")
    if application == APPLICATION and version > VERSION:
        raise ConfigError("spool", str(path), f"{_WANTS}; this file has version {version}")


def move_old_file(path: Path, folder: Path) -> bool:
    """Move the file of a spool of version 1 into the folder, once nobody uses it any more.

    Returns:
        Whether it was moved.

    Raises:
        sqlite3.Error: The file is locked, or damaged.
        OSError: The disk failed.
    """
    if not path.is_file() or _old_owners(path):
        return False
    target = folder / f"{secrets.token_hex(16)}.sqlite"
    with closing(open_existing(path, patience=_PATIENCE_S, writable=True)) as db:
        # Without its log the file can be moved alone; that fails while another process uses it.
        if db.execute("PRAGMA journal_mode = DELETE").fetchone() != ("delete",):
            return False
        db.execute("BEGIN EXCLUSIVE")
        path.rename(target)
        db.execute("COMMIT")
    with suppress(OSError):
        path.with_name(f"{path.name}-owners").rmdir()
    return True


def _old_owners(path: Path) -> bool:
    """Return whether a process of version 1 lives; locks of others are removed."""
    try:
        with os.scandir(path.with_name(f"{path.name}-owners")) as entries:
            locks = [Path(entry.path) for entry in entries]
    except FileNotFoundError:
        return False
    if any(is_held(lock) for lock in locks):
        return True
    for lock in locks:
        lock.unlink(missing_ok=True)
    return False


def upgrade(path: Path) -> None:
    """Bring a file of version 1 to the present schema, in one transaction.

    A result that such a file kept for a platform becomes a row of its own, with the scores as
    outcomes; its sample was counted by the process that evaluated it.

    Raises:
        sqlite3.Error: The file is locked, or damaged.
    """
    with closing(open_existing(path, patience=_PATIENCE_S, writable=True)) as db:
        db.execute("BEGIN EXCLUSIVE")
        if tuple(db.execute("PRAGMA user_version").fetchone()) != (_OLD_VERSION,):
            return
        for statement in (*SCHEMA, _UPGRADE):
            db.execute(statement)
        _move_samples(db)
        _move_reports(db)
        for table in ("samples", "reports", "report_sizes"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute("DELETE FROM books WHERE entry = 'accepted'")
        db.execute("COMMIT")


_UPGRADE: Final = (
    "INSERT INTO rows (seq, sinks, tries, probability, reason, accepted_at, sample, evaluation)"
    " SELECT seq, positions, tries, probability, reason, accepted_at, sample, outcomes FROM samples"
)


def _move_samples(db: sqlite3.Connection) -> None:
    query = "SELECT seq, accepted_at, evaluation, sinks FROM rows"
    for seq, accepted_at, outcomes, positions in db.execute(query).fetchall():
        evaluation, sinks = None, "{}"
        with suppress(ValueError, TypeError):
            if outcomes is not None:
                evaluation = _evaluation(json.loads(outcomes), int(accepted_at * 1e9))
                sinks = json.dumps({ALL_SINKS: -1, **json.loads(positions)})
        values = (evaluation, sinks, seq)
        db.execute("UPDATE rows SET evaluation = ?, sinks = ? WHERE seq = ?", values)


def _move_reports(db: sqlite3.Connection) -> None:
    if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'reports'").fetchone() is None:
        return
    query = "SELECT place, id, report, kept_at FROM reports ORDER BY seq"
    for sink, name, text, kept_at in db.execute(query).fetchall():
        with suppress(ValueError, TypeError, KeyError, AttributeError):
            report = json.loads(text)
            outcomes = dict(_outcomes_of(report))
            ids = {key: report[key] for key in ("trace_id", "span_id")}
            sample = json.dumps({"question": "", "sample_id": name, **ids})
            evaluation, sinks = _evaluation(outcomes, report["time"]), json.dumps({sink: -1})
            db.execute(
                "INSERT INTO rows (sample, probability, reason, accepted_at, evaluation, sinks,"
                " entry) VALUES (?, 1.0, '', ?, ?, ?, 'scored')",
                (sample, kept_at, evaluation, sinks),
            )


def _evaluation(outcomes: dict[str, Any], time_ns: int) -> str:
    return json.dumps({"start": time_ns, "end": time_ns, "outcomes": outcomes})


def _outcomes_of(report: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for result in report["results"]:
        known = result["metadata"]
        yield (
            result["name"],
            {
                "value": result["value"],
                "normalised": known.get("normalised", 0.0),
                "label": result["label"],
                "parts": known.get("parts", {}),
                "explanation": {"text": result["explanation"]} if result["explanation"] else {},
                "warnings": [],
                "annotator_kind": result["annotator_kind"],
                "annotator": result["identifier"],
                "version": known.get("version", ""),
                "usage": known.get("usage", {}),
                "probability": known.get("sample_rate"),
                "probability_estimated": bool(known.get("sample_rate_estimated")),
                "reason": known.get("reason", ""),
            },
        )
