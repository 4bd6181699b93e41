"""Whether the spool can be used: right file, whole, private, with room on its disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.spool.file import check_spool
from rag_eval_hooks.spool.inspect import Health, spool_health
from rag_eval_hooks.sqlite_file import FILE_ERRORS

__all__ = ["check_spool_file"]

_MB: Final = 1_000_000
_FULL: Final = 0.9


def check_spool_file(setup: Setup) -> Iterator[Result]:
    """Reads the file, and writes nothing."""
    if setup.config.spool is None:
        text = "none: what waits when the process ends is lost, and counted"
        yield _result(Status.NOTE, text, "set spool=PATH to keep it")
        return
    path = Path(setup.config.spool)
    try:
        check_spool(path)
    except ConfigError as error:
        yield _result(Status.FAILED, str(error), f"set spool: {error.wants}")
        return
    yield from _writable(path)
    yield from _private(path)
    size = 0
    if path.exists() and path.stat().st_size:
        try:
            health = spool_health(path)
        except FILE_ERRORS as error:
            yield _unreadable(path, error)
        else:
            size = health.size
            yield from _read(path, health, setup.config.spool_max_mb * _MB)
    else:
        yield _result(Status.OK, f"{path} is not there yet; the first sample makes it")
    yield _room(path, setup.config.spool_max_mb * _MB - size)


def _writable(path: Path) -> Iterator[Result]:
    # SQLite's log stands beside the file, so the folder has to be writable too.
    for place in filter(Path.exists, (path, path.parent)):
        if not os.access(place, os.W_OK):
            advice = "give this user the right to write there, or name another place"
            yield _result(Status.FAILED, f"{place} cannot be written", advice)


def _private(path: Path) -> Iterator[Result]:
    for file in filter(Path.exists, (path, *_beside(path))):
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            text = f"{file} has mode {mode:o}: others can read the samples in it"
            yield _result(Status.WARNING, text, f"chmod 600 {file}")


def _beside(path: Path) -> Iterator[Path]:
    for ending in ("-wal", "-shm"):
        yield path.with_name(path.name + ending)


def _unreadable(path: Path, error: Exception) -> Result:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
        text, advice = f"{path} is locked by another program", "find who holds it: fuser -v"
        return _result(Status.WARNING, text, advice)
    text = f"{path} cannot be read: {type(error).__name__}"
    advice = "see that this user may read it; is it damaged, move it away: a new one is made"
    return _result(Status.FAILED, text, advice)


def _read(path: Path, health: Health, most: int) -> Iterator[Result]:
    figures = {
        "schema_version": health.version,
        "samples": health.samples,
        "unclaimed": health.unclaimed,
        "bytes": health.size,
    }
    if health.damage is not None:
        text = f"{path} is damaged: {health.damage}"
        advice = "move it away: a new one is made; what is in it can be saved by sqlite3 .recover"
        yield _result(Status.FAILED, text, advice, figures)
        return
    text = f"{path} is whole, schema {health.version}, {health.samples} samples wait in it"
    if health.oldest is not None:
        text += f", the oldest for {max(0.0, time.time() - health.oldest):.0f} s"
    if health.size > _FULL * most:
        text += f"; {health.size / _MB:.0f} of {most / _MB:.0f} MB are in use"
        advice = "raise spool_max_mb, or lower sample_rate: what does not fit is kept in memory"
        yield _result(Status.WARNING, text, advice, figures)
    else:
        yield _result(Status.OK, text, figures=figures)


def _room(path: Path, wanted: int) -> Result:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / _MB:.0f} MB free on its disk"
    if free >= wanted:
        return _result(Status.OK, text, figures={"free_bytes": free})
    text += f", and it may still grow by {wanted / _MB:.0f} MB"
    advice = "make room, or lower spool_max_mb"
    return _result(Status.WARNING, text, advice, {"free_bytes": free})


def _result(
    status: Status, text: str, advice: str = "", figures: dict[str, int] | None = None
) -> Result:
    return Result(check="spool", status=status, text=text, advice=advice, figures=figures or {})
