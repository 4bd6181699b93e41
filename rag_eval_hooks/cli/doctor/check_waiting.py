"""Checks of where samples wait: the spool of this machine, and the broker of a fleet."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.outbox_file import NAME, check_spool
from rag_eval_hooks.delivery.outbox_reader import Health, read_health
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy

__all__ = ["check_fleet", "check_spool_files"]

_MB: Final = 1_000_000
_FULL: Final = 0.9


def check_spool_files(setup: Setup) -> Iterator[CheckResult]:
    """Read the files of the spool; nothing is written."""
    if setup.config.spool is None:
        text = "none: what waits when the process ends is lost, and counted"
        yield CheckResult(CheckStatus.NOTE, text, "set spool=PATH to keep it")
        return
    path = Path(setup.config.spool)
    try:
        check_spool(path)
    except ConfigError as error:
        yield CheckResult(CheckStatus.FAILED, str(error), f"set spool: {error.wants}")
        return
    yield from _writable(path)
    limit = limits.SPOOL_BYTES
    health = None
    try:
        health = read_health(path / NAME)
    except FILE_ERRORS as error:
        yield _unreadable(path, error)
    else:
        yield _state(path, health, limit)
    yield from _put_aside(path)
    yield _free_disk(path, limit - (0 if health is None else health.size))


def _writable(folder: Path) -> Iterator[CheckResult]:
    existing = folder if folder.exists() else folder.parent
    if not os.access(existing, os.W_OK):
        advice = "give this user the right to write there, or name another folder"
        yield CheckResult(CheckStatus.FAILED, f"{existing} cannot be written", advice)


def _unreadable(folder: Path, error: Exception) -> CheckResult:
    if is_busy(error):
        text, advice = f"a file in {folder} is locked by another program", "find it: fuser -v"
        return CheckResult(CheckStatus.WARNING, text, advice)
    text = f"a file in {folder} cannot be read: {type(error).__name__}"
    advice = "see that this user may read it; a damaged file is renamed by the next process"
    return CheckResult(CheckStatus.FAILED, text, advice)


def _state(folder: Path, health: Health | None, limit: int) -> CheckResult:
    if health is None:
        return CheckResult(
            CheckStatus.OK, f"{folder} is empty; the first sample makes a file in it"
        )
    figures = {"samples": health.samples, "unclaimed": health.unclaimed, "bytes": health.size}
    if health.damage is not None:
        text = f"{folder / NAME} is damaged: {health.damage}"
        advice = "the next process renames it and begins a new one"
        return CheckResult(CheckStatus.FAILED, text, advice, figures)
    text = f"{folder} is whole, {health.samples} samples wait in it"
    if health.oldest is not None:
        text += f", the oldest for {max(0.0, time.time() - health.oldest):.0f} s"
    if health.size > _FULL * limit:
        text += f"; {health.size / _MB:.0f} of {limit / _MB:.0f} MB are used"
        advice = "lower sample_rate: what does not fit is kept in memory"
        return CheckResult(CheckStatus.WARNING, text, advice, figures)
    return CheckResult(CheckStatus.OK, text, figures=figures)


def _put_aside(folder: Path) -> Iterator[CheckResult]:
    damaged = sorted(folder.glob("*.damaged"))
    if damaged:
        text = f"{len(damaged)} damaged files were put aside, such as {damaged[0]}"
        advice = "what is in them can be saved by sqlite3 .recover; then remove them"
        yield CheckResult(CheckStatus.WARNING, text, advice)


def _free_disk(folder: Path, wanted: int) -> CheckResult:
    free = shutil.disk_usage(folder if folder.is_dir() else folder.parent).free
    text = f"{free / _MB:.0f} MB free on its disk"
    if free >= wanted:
        return CheckResult(CheckStatus.OK, text, figures={"free_bytes": free})
    text += f", and it may still grow by {wanted / _MB:.0f} MB"
    advice = "make room"
    return CheckResult(CheckStatus.WARNING, text, advice, {"free_bytes": free})


def check_fleet(setup: Setup) -> Iterator[CheckResult]:
    """Ask broker and Redis; nothing is written."""
    if setup.config.broker is None:
        text = "none: this process evaluates"
        yield CheckResult(CheckStatus.NOTE, text, "set broker to have workers evaluate")
        return
    from rag_eval_hooks.fleet.broker import DEAD, Broker
    from rag_eval_hooks.fleet.store import FleetStore

    broker = Broker.of(setup.config)
    try:
        depths = dict(broker.depths())
    except Exception as error:  # noqa: BLE001 - a client raises anything
        yield _unreachable("the broker", error)
        return
    dead = depths.pop(DEAD, 0)
    waiting = sum(depths.values())
    figures = {"batches_waiting": waiting, "dead_letters": dead}
    yield CheckResult(CheckStatus.OK, f"{waiting} batches wait in the broker", figures=figures)
    if dead:
        advice = "look at the queue of dead letters in the broker"
        yield CheckResult(CheckStatus.WARNING, f"{dead} dead letters", advice)
    store = FleetStore(broker.redis_url, keep=0)
    try:
        workers, books = store.workers(), store.books()
    except Exception as error:  # noqa: BLE001 - a client raises anything
        yield _unreachable("its Redis", error)
        return
    finally:
        store.close()
        broker.close()
    if workers:
        yield CheckResult(CheckStatus.OK, f"{len(workers)} workers live: {', '.join(workers)}")
    else:
        advice = "start one: rag-eval-hooks worker"
        yield CheckResult(CheckStatus.WARNING, "no worker lives", advice)
    for service, counts in books.items():
        yield _counts(service, counts)


def _unreachable(name: str, error: Exception) -> CheckResult:
    text = f"{name} does not answer ({type(error).__name__})"
    advice = "see that it runs, and that broker names it"
    return CheckResult(CheckStatus.FAILED, text, advice)


def _counts(service: str, counts: Mapping[str, int]) -> CheckResult:
    ended = {name: count for name, count in sorted(counts.items()) if name != "shipped" and count}
    shipped = counts.get("shipped", 0)
    waiting = shipped - sum(ended.values())
    parts = [f"{count} {name}" for name, count in ended.items()]
    if waiting >= 0:
        parts.append(f"{waiting} on their way")
        text = f"{service or 'unknown service'}: {shipped} shipped = {' + '.join(parts)}"
        return CheckResult(CheckStatus.OK, text, figures={**counts, "waiting": waiting})
    text = (
        f"{service or 'unknown service'}: {-waiting} samples more ended than were counted as "
        f"shipped: {', '.join(parts)}"
    )
    advice = "an application died before it had counted what it had shipped"
    return CheckResult(CheckStatus.NOTE, text, advice, figures=dict(counts))
