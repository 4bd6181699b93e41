"""The spool's file with all that can go wrong with it: opens, reopens, writes in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.spool.codec import sample_to_text
from rag_eval_hooks.spool.entry import NOWHERE, Entry
from rag_eval_hooks.spool.file import Row, SpoolFile, SpoolFullError
from rag_eval_hooks.spool.owner import Owner, owners_of
from rag_eval_hooks.spool.reports import (
    DropReport,
    KeepReport,
    Kept,
    LeaveReport,
    ReportHost,
    ReportOperation,
)
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy

__all__ = ["Begin", "Finish", "GiveUp", "Insert", "Keep", "Operation", "SpoolWriter"]

_PAUSE_S = 2.0
"""After a failure: how long the spool does without its file before it tries again."""
_BUSY_PAUSE_S = 0.2
"""The same where other processes held it for too long."""
_CLEAR_UP = 5000
"""Notes of finished samples kept for a file that fails; more are forgotten, oldest first."""


@dataclass(slots=True)
class Insert:
    """Keep a sample."""

    entry: Entry


@dataclass(slots=True)
class Keep:
    """Keep what was found; the future tells whether the sample is still ours."""

    entry: Entry
    outcomes: str
    mine: Future[bool] = field(default_factory=Future)


@dataclass(slots=True)
class Begin:
    """Count a try; the future tells when it is counted."""

    entry: Entry
    mine: Future[bool] = field(default_factory=Future)


@dataclass(slots=True)
class GiveUp:
    """Leave a sample to others."""

    entry: Entry


@dataclass(slots=True)
class Finish:
    """Let go of a sample."""

    entry: Entry
    column: str


Operation = Insert | Keep | Begin | GiveUp | Finish | ReportOperation


class SpoolWriter:
    """Not thread-safe: its owner calls it from one thread at a time.

    Whatever happens to the file, no operation raises: a sample that cannot be kept is counted
    and goes on without, what is to be noted later is noted when the file is back. Samples and
    reports that other processes' locks kept from the file wait for it too, until they are done.

    Args:
        path: The file.
        max_bytes: Size that it may have.
        incidents: Counts failures.
        positions: Where sinks stand, by their place.
        reports: Those who send reports.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        incidents: Incidents,
        positions: Callable[[], Mapping[str, int]],
        reports: ReportHost,
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._incidents = incidents
        self._positions = positions
        self._reports = reports
        self._file: SpoolFile | None = None
        self._owner: Owner | None = None
        self._generation = NOWHERE
        self._down_until = 0.0
        self._busy = False
        self._late: list[Operation] = []
        self._lost: list[SpoolFile] = []
        self.undurable = 0

    @property
    def unwritten(self) -> bool:
        """Whether samples or reports wait for a file which others hold."""
        return self._busy and any(isinstance(one, Insert | KeepReport) for one in self._late)

    def hurry(self) -> None:
        """Tries the file again with the next operation, however lately it failed."""
        self._down_until = 0.0

    def open(self) -> None:
        """Opens the file now, so that the first sample does not wait for it."""
        try:
            self._ready()
        except FILE_ERRORS as error:
            self._failed(error)

    def write(self, operations: Sequence[Operation]) -> None:
        """Does all of them, in order, in one transaction."""
        pending = [*self._late, *operations]
        self._late = []
        if not pending:
            return
        try:
            file, owner = self._ready()
            with file.writing():
                results = [self._do(file, owner, operation) for operation in pending]
        except FILE_ERRORS as error:
            self._failed(error)
            self._give_up(pending)
        else:
            self._busy = False
            for operation, result in zip(pending, results, strict=True):
                self._settle(operation, result)

    def claim(self, limit: int) -> tuple[list[Row], int]:
        """Samples taken over from processes that have ended, and the file's generation."""
        try:
            file, owner = self._ready()
            if limit < 1 or not file.has_others(owner.name):
                return [], self._generation
            with file.writing():
                return file.claim(owner.name, limit, owner.is_alive), self._generation
        except FILE_ERRORS as error:
            self._failed(error)
            return [], NOWHERE

    def claim_reports(self) -> list[Kept]:
        """Reports taken over: left behind, or of processes that have ended."""
        try:
            file, owner = self._ready()
            if not file.reports.has_others(owner.name):
                return []
            with file.writing():
                dead = file.reports.dead(owner.name, owner.is_alive)
                late = file.reports.expire(dead, self._reports.keep_for)
                taken = file.reports.claim(owner.name, self._reports.room(), dead)
        except FILE_ERRORS as error:
            self._failed(error)
            return []
        for place, count in late.items():
            self._reports.lost(place, count)
        for kept in taken:
            kept.generation = self._generation
        return taken

    def measure(self) -> tuple[int, int] | tuple[None, None]:
        """Samples and bytes in the file; two None where it cannot be used just now."""
        try:
            file, _owner = self._ready()
            return file.measure()
        except FILE_ERRORS as error:
            self._failed(error)
            return None, None

    def close(self, *, give_up: bool) -> None:
        """Closes the file, to be opened again when it is needed.

        Args:
            give_up: Whether the claims are given up too, for others to take.
        """
        try:
            if give_up and self._file is not None and self._owner is not None:
                with self._file.writing():
                    self._file.release(self._owner.name)
        except FILE_ERRORS as error:
            self._incidents.report("spool", error)
        self._close_file()
        if give_up and self._owner is not None:
            self._owner.leave()
            self._owner = None

    def abandon(self) -> None:
        """Lets go of what belongs to the parent of a forked child, without touching it."""
        if self._owner is not None:
            self._owner.abandon()
            self._owner = None

    def _ready(self) -> tuple[SpoolFile, Owner]:
        """The open file and our name.

        Raises:
            OSError: It is not to be had, or was lately not to be had.
        """
        if time.monotonic() < self._down_until:
            raise _DownError
        if self._file is not None and self._file.is_gone():
            # Closing it would remove the log of the file that may be in its place by now.
            self._lost.append(self._file)
            self._file = None
            # What was in the lost file is now in memory alone.
            self._generation += 1
            self._incidents.report("spool", FileNotFoundError())
        if self._file is None:
            self._file = SpoolFile(self._path, self._max_bytes)
            self._generation = max(self._generation, NOWHERE + 1)
        if self._owner is None or not self._owner.is_intact():
            self._rename(self._file)
        assert self._owner is not None
        return self._file, self._owner

    def _rename(self, file: SpoolFile) -> None:
        """Takes a name, and our claims along where others can see the old one no more."""
        old, new = self._owner, Owner(owners_of(self._path))
        try:
            new.sweep()
            if old is not None:
                with file.writing():
                    file.release(old.name, to=new.name)
        except BaseException:
            new.leave()
            raise
        if old is not None:
            old.leave()
        self._owner = new

    def _do(self, file: SpoolFile, owner: Owner, operation: Operation) -> bool:
        if isinstance(operation, ReportOperation):
            return self._report(file, owner, operation)
        entry = operation.entry
        if isinstance(operation, Insert):
            return self._insert(file, owner, entry)
        if entry.generation not in (self._generation, _JUST_NOW):
            # The sample is not in this file: nobody else can have it.
            return True
        sample_id = entry.sample().sample_id
        if isinstance(operation, Keep):
            return file.keep_outcomes(sample_id, owner.name, operation.outcomes)
        if isinstance(operation, Begin):
            file.begin(sample_id, owner.name)
        elif isinstance(operation, GiveUp):
            file.give_up(sample_id, owner.name)
        else:
            file.finish(sample_id, owner.name, operation.column)
        return True

    def _report(self, file: SpoolFile, owner: Owner, operation: ReportOperation) -> bool:
        kept = operation.entry
        if isinstance(operation, KeepReport):
            if not file.reports.insert(kept, owner.name, self._reports.max_bytes):
                self._incidents.report(f"spool of {kept.place}", SpoolFullError())
                return False
            kept.generation = _JUST_NOW
            return True
        if kept.generation not in (self._generation, _JUST_NOW):
            return False
        if isinstance(operation, LeaveReport):
            return file.reports.leave(kept, owner.name)
        file.reports.drop(kept, owner.name)
        return True

    def _insert(self, file: SpoolFile, owner: Owner, entry: Entry) -> bool:
        try:
            sample = entry.sample()
            text = sample_to_text(sample, entry.redaction)
            sample.sample_id.encode()
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self._incidents.report("spool", error)
            return False
        # One that is written late may be in a sink already.
        entry.positions = self._positions() if entry.positions is None else entry.positions
        row = Row(
            id=sample.sample_id,
            sample=text,
            probability=entry.probability,
            reason=entry.reason,
            positions=entry.positions,
            accepted_at=entry.accepted_at,
        )
        try:
            file.insert(row, owner.name)
        except SpoolFullError as error:
            self._incidents.report("spool", error)
            return False
        # Operations on it may follow in the same transaction.
        entry.generation = _JUST_NOW
        return True

    def _settle(self, operation: Operation, result: bool) -> None:
        if isinstance(operation, Keep | Begin):
            _tell(operation, result)
        elif isinstance(operation, Insert):
            operation.entry.generation = self._generation if result else NOWHERE
            self.undurable += not result
            operation.entry.written.set()
        elif isinstance(operation, KeepReport):
            operation.entry.generation = self._generation if result else NOWHERE
            operation.entry.text = ""
        elif isinstance(operation, LeaveReport):
            operation.told(result)
        elif isinstance(operation, Finish):
            # Not before: until then the sample may still have to be written.
            operation.entry.forget()

    def _give_up(self, operations: Sequence[Operation]) -> None:
        waiting = _unfinished(operations) if self._busy else set()
        for operation in operations:
            if isinstance(operation, Insert | KeepReport):
                self._put_off(operation, waits=operation.entry in waiting)
            elif isinstance(operation, Keep):
                # Nobody can tell; that it reaches the sinks is worth more.
                _tell(operation, True)
            elif operation.entry.generation != NOWHERE or operation.entry in waiting:
                self._late.append(operation)
            elif isinstance(operation, LeaveReport):
                self._settle(operation, False)
        for operation in operations:
            if isinstance(operation, Finish):
                operation.entry.forget()
        self._bound()

    def _put_off(self, operation: Insert | KeepReport, *, waits: bool) -> None:
        if not waits:
            self._settle(operation, False)
            return
        operation.entry.generation = NOWHERE
        if isinstance(operation, Insert):
            operation.entry.written.set()
        self._late.append(operation)

    def _bound(self) -> None:
        for operation in self._late[:-_CLEAR_UP]:
            if isinstance(operation, Insert | KeepReport):
                self._settle(operation, False)
            elif isinstance(operation, LeaveReport):
                # One that is on disk is there under our name: for the next process.
                self._settle(operation, operation.entry.generation != NOWHERE)
        del self._late[:-_CLEAR_UP]

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, _DownError):
            self._incidents.report("spool", error)
            self._busy = is_busy(error)
            pause = _BUSY_PAUSE_S if self._busy else _PAUSE_S
            self._down_until = time.monotonic() + pause
            self._close_file()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except FILE_ERRORS as error:
                self._incidents.report("spool", error)


def _unfinished(operations: Sequence[Operation]) -> set[Entry | Kept]:
    """What is to be kept, and is not done with."""
    kept = {one.entry for one in operations if isinstance(one, Insert | KeepReport)}
    return kept - {one.entry for one in operations if isinstance(one, Finish | DropReport)}


def _tell(asked: Keep | Begin, result: bool) -> None:
    # Who asked may have lost patience.
    if asked.mine.set_running_or_notify_cancel():
        asked.mine.set_result(result)


_JUST_NOW = -1
"""The generation of a sample whose transaction is not over."""


class _DownError(OSError):
    """The file failed lately."""
