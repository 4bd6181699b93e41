"""Accepted samples on disk until their results are delivered, written by a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.spool.codec import evaluation_to_text, sample_to_text
from rag_eval_hooks.spool.file import (
    EVALUATE,
    MOST_ROWS,
    SpoolFile,
    is_damage,
)
from rag_eval_hooks.spool.folder import make_folder
from rag_eval_hooks.spool.inspect import spool_books
from rag_eval_hooks.spool.recovered import Entry, Receiver, recover
from rag_eval_hooks.spool.takeover import TakeOver
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy

__all__ = ["Spool"]

_GATHER_S: Final = 0.01
"""Seconds in which samples gather to be written together; well under the 50 ms at risk."""
_BUILD_S: Final = 0.02
"""Seconds for which samples are built before those that are built are written."""
_LOOK_S: Final = 1.0
"""Seconds between two looks for files of processes that have ended."""
_START_S: Final = 2.0
"""Seconds before the first look: a process that forks meanwhile leaves it to its children."""
_CHUNK: Final = 16
"""Samples handed back at a time; between them, newly accepted ones are written."""
_PATIENCE_S: Final = 2.0
"""Seconds that a result waits for the disk before it is delivered without being stored."""
_PAUSE_S: Final = 2.0
"""Seconds without the disk after it failed."""
_BUSY_PAUSE_S: Final = 0.1
"""Seconds without the file after another program held it."""
_MOST_LATE: Final = 5000
"""Operations that wait in memory for a disk that fails; the oldest are given up."""

_BEGIN: Final = "UPDATE rows SET tries = tries + 1 WHERE seq = ?"
_KEEP: Final = "UPDATE rows SET evaluation = ?, sinks = ? WHERE seq = ?"
_DELIVERED: Final = "UPDATE rows SET sinks = json_patch(sinks, json_object(?, NULL)) WHERE seq = ?"
_SETTLE: Final = "UPDATE rows SET entry = coalesce(entry, ?) WHERE seq = ?"
_DISCARD: Final = "UPDATE rows SET entry = coalesce(entry, ?), sinks = '{}' WHERE seq = ?"


@dataclass(slots=True)
class _Write:
    """Operation on one sample: to store it, or to change its row by a statement.

    The statement's last parameter is the number of the row. The future gets whether the change is
    on disk.
    """

    entry: Entry
    statement: str = ""
    values: tuple[Any, ...] = ()
    done: Future[bool] | None = None

    def finish(self, written: bool) -> None:
        future, self.done = self.done, None
        # The caller may have run out of patience and cancelled the future.
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(written)


class Spool:
    """Spool of one process: its own file, and those that it took over from processes that ended.

    Any number of processes share the folder; none waits for another. Whatever happens to the
    disk, no method raises: a sample that is evaluated before it could be stored is counted as
    undurable.

    Args:
        path: Path of the folder, see `folder`.
        max_bytes: Size limit of this process's own file, without SQLite's log of about 4 MB.
        incidents: Counts failures.
        redactor: Redacts samples that were stored under other settings.
        receiver: Takes the samples that wait on disk.

    Attributes:
        undurable: Accepted samples that were not stored.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        incidents: Incidents,
        redactor: Redactor,
        receiver: Receiver,
    ) -> None:
        self.undurable = 0
        self._path = path
        self._max_bytes = max_bytes
        self._incidents = incidents
        self._redactor = redactor
        self._receiver = receiver
        self._own: SpoolFile | None = None
        self._own_bytes = 0
        self._stored: set[Entry] = set()
        self._taken_over = TakeOver(path, incidents)
        self._down_until = 0.0
        self._late: list[_Write] = []
        self._lock = threading.Lock()
        self._writes: deque[_Write] = deque()
        self._wake = threading.Event()
        self._drained = threading.Condition(self._lock)
        self._added = self._done = 0
        self._is_stalled = self._is_stopping = self._has_ended = self._hurry = False
        self._look_at = 0.0
        self._is_measured = False
        self._measured: tuple[int, int] | tuple[None, None] = (None, None)
        self._thread: threading.Thread | None = None

    def start(self, *, later: bool = False) -> None:
        """Start the thread, once.

        Args:
            later: Whether to wait before the first look for files of other processes.

        Raises:
            RuntimeError: The system has no thread left.
        """
        with self._lock:
            if self._thread is None and not self._is_stopping:
                self._look_at = time.monotonic() + (_START_S if later else 0.0)
                thread = threading.Thread(
                    target=self._run, name="rag-eval-hooks-spool", daemon=True
                )
                thread.start()
                self._thread = thread

    def accept(
        self, build: Callable[[], Sample], probability: float, reason: str, accepted_at: float
    ) -> Entry:
        """Store a sample soon. Never waits.

        Args:
            build: Returns the sample; called in the spool's thread.
            probability: Inclusion probability.
            reason: Reason of the sampler's choice.
            accepted_at: Acceptance in seconds since the epoch.

        Returns:
            The handle for all other calls.
        """
        entry = Entry(build, probability, reason, accepted_at)
        self._add(_Write(entry))
        return entry

    async def begin(self, entry: Entry) -> None:
        """Note that the evaluation of a recovered sample begins.

        Returns when the note is on disk, as the evaluation may end this process at once.
        """
        await self._written(_Write(entry, _BEGIN))

    async def keep(
        self,
        entry: Entry,
        outcomes: Outcomes,
        start: int,
        end: int,
        sinks: Mapping[str, int | None],
    ) -> bool:
        """Store an evaluation before it is delivered.

        Args:
            entry: The sample's handle.
            outcomes: Outcome by metric id.
            start: Start of the evaluation in nanoseconds since the epoch.
            end: End of the evaluation in nanoseconds since the epoch.
            sinks: Sinks that are to get it, each with the position of a resumable one.

        Returns:
            Whether it is on disk.
        """
        try:
            text = evaluation_to_text(outcomes, start, end)
        except Exception as error:  # noqa: BLE001 - a user's metric may explain by any object
            self._incidents.report("spool", error)
            return False
        positions = {name: -1 if at is None else at for name, at in sinks.items()}
        entry.is_kept = await self._written(_Write(entry, _KEEP, (text, json.dumps(positions))))
        return entry.is_kept

    def delivered(self, entry: Entry, sink: str) -> None:
        """Note that a sink has the evaluation, or will never have it. Never waits."""
        self._add(_Write(entry, _DELIVERED, (sink,)))

    def leave(self, entry: Entry, sink: str) -> bool:
        """Leave an evaluation on disk until the sink has room for it again. Never waits.

        Returns:
            Whether it is on disk.
        """
        file = entry.file
        if file is None or file.is_lost:
            return False
        file.waiting.setdefault(sink, deque()).append(entry.seq)
        return True

    def settle(self, entry: Entry, column: str) -> None:
        """Count the end of a sample, once; its row goes when no sink lacks the result.

        Args:
            entry: The sample's handle.
            column: Name under which the end is counted in the books.
        """
        entry.is_settled = True
        # An evaluation whose storing was not confirmed is not delivered by way of the spool.
        self._add(_Write(entry, _SETTLE if entry.is_kept else _DISCARD, (column,)))

    def books(self) -> Mapping[str, int]:
        """Return the counts of all processes, ever; empty if they cannot be read now."""
        try:
            return spool_books(self._path)
        except FILE_ERRORS as error:
            self._incidents.report("spool", error)
            return {}

    def measured(self) -> tuple[int, int] | tuple[None, None]:
        """Return the rows and bytes of this process's files, at most some seconds old.

        Never waits. Two None before the first look after the first call.
        """
        self._is_measured = True
        return self._measured

    def drain(self, timeout: float | None) -> bool:
        """Wait until all that was noted so far is on disk, and return whether it is.

        Args:
            timeout: Seconds, or None without limit.
        """
        self._hurry = True
        self._wake.set()
        with self._lock:
            last = self._added
            self._drained.wait_for(lambda: self._has_ended or self._is_written(last), timeout)
            return self._is_written(last)

    def _is_written(self, last: int) -> bool:
        return self._done >= last and all(one.statement for one in self._late)

    def stop(self, timeout: float) -> None:
        """Write what is noted, leave the files to other processes and end the thread."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _add(self, write: _Write) -> None:
        with self._lock:
            self._writes.append(write)
            self._added += 1
        self._wake.set()

    async def _written(self, write: _Write) -> bool:
        """Return whether an operation is on disk; False at once while the disk hangs."""
        if self._is_stalled:
            self._add(write)
            return False
        written = write.done = Future()
        self._add(write)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await asyncio.wrap_future(written)
        except TimeoutError as error:
            self._is_stalled = True
            self._incidents.report("spool", error)
            return False

    def _run(self) -> None:
        while not self._is_stopping:
            pause = self._look_at - time.monotonic()
            if self._late:
                pause = min(pause, max(_BUSY_PAUSE_S, self._down_until - time.monotonic()))
            if self._wake.wait(max(0.0, pause)) and not self._hurry:
                time.sleep(_GATHER_S)
            self._guarded(self._write)
            self._guarded(self._look)
        self._hurry = True
        self._guarded(self._write)
        self._guarded(self._close)
        with self._lock:
            self._has_ended = True
            self._drained.notify_all()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
            self._incidents.report("spool", error)

    def _write(self) -> None:
        if self._hurry:
            self._hurry, self._down_until = False, 0.0
        with self._lock:
            self._wake.clear()
            new = list(self._writes)
            self._writes.clear()
        writes, self._late = [*self._late, *new], []
        try:
            self._store([one for one in writes if not one.statement])
            self._change([one for one in writes if one.statement])
        finally:
            # An operation that failed is done as well: nobody may wait for it for ever.
            for one in new:
                one.finish(False)
            self._give_up_oldest()
            with self._lock:
                self._is_stalled = False
                self._done += len(new)
                self._drained.notify_all()

    def _store(self, writes: Sequence[_Write]) -> None:
        """Store samples, without waiting for all of them to be built, as by slow redaction."""
        batch: list[tuple[_Write, str]] = []
        size, until = 0, time.monotonic() + _BUILD_S
        for write in writes:
            text = self._text(write.entry)
            if text is None or not self._fits(size + len(text)):
                self.undurable += 1
                continue
            batch.append((write, text))
            size += len(text)
            if len(batch) == MOST_ROWS or time.monotonic() >= until:
                self._insert(batch, size)
                batch, size, until = [], 0, time.monotonic() + _BUILD_S
        if batch:
            self._insert(batch, size)

    def _text(self, entry: Entry) -> str | None:
        """Return a sample as text; None if it is evaluated already, or cannot be stored."""
        if entry.is_settled or entry.build is None:
            return None
        try:
            return sample_to_text(entry.build(), self._redactor.mark)
        except Exception as error:  # noqa: BLE001 - the host's edge: it reads the host's objects
            self._incidents.report("spool", error)
            return None

    def _insert(self, batch: Sequence[tuple[_Write, str]], size: int) -> None:
        entries = [write.entry for write, _ in batch]
        texts = [text for _, text in batch]
        try:
            file = self._opened()
            numbers = file.insert(
                [
                    (text, entry.probability, entry.reason, entry.accepted_at)
                    for entry, text in zip(entries, texts, strict=True)
                ]
            )
        except FILE_ERRORS as error:
            self._failed(self._own, error)
            self._late += [write for write, _ in batch]
            return
        self._own_bytes += size
        for entry, seq in zip(entries, numbers, strict=True):
            entry.seq, entry.file = seq, file
            self._stored.add(entry)

    def _change(self, writes: Sequence[_Write]) -> None:
        by_file: dict[SpoolFile, list[_Write]] = {}
        for write in writes:
            # A sample that is not on disk has no row to change.
            file = write.entry.file
            if file is not None and file.is_writable and self._has_room(write):
                by_file.setdefault(file, []).append(write)
        for file, group in by_file.items():
            try:
                if time.monotonic() < self._down_until:
                    raise _DownError
                file.apply((one.statement, (*one.values, one.entry.seq)) for one in group)
            except FILE_ERRORS as error:
                self._failed(file, error)
                self._late += group if file.is_writable else []
            else:
                self._changed(group)

    def _fits(self, size: int) -> bool:
        """Return whether this process's own file may grow by so many bytes."""
        if self._own_bytes + size <= self._max_bytes:
            return True
        self._incidents.count("spool: Full")
        return False

    def _has_room(self, write: _Write) -> bool:
        """Return whether there is room for a change, which only an evaluation needs."""
        if write.statement != _KEEP or write.entry.file is not self._own:
            return True
        size = len(write.values[0])
        fits = self._fits(size)
        self._own_bytes += size if fits else 0
        return fits

    def _changed(self, writes: Sequence[_Write]) -> None:
        for write in writes:
            write.finish(True)
            if write.entry.is_settled:
                # A finished sample must not fill the memory.
                write.entry.build = None
                self._stored.discard(write.entry)

    def _give_up_oldest(self) -> None:
        given_up, self._late = self._late[:-_MOST_LATE], self._late[-_MOST_LATE:]
        self.undurable += sum(not one.statement for one in given_up)

    def _opened(self) -> SpoolFile:
        """Return this process's own file; it is created for the first sample.

        Raises:
            OSError: It cannot be used, or could not be used a moment ago.
            sqlite3.Error: It cannot be used.
        """
        if time.monotonic() < self._down_until:
            raise _DownError
        if self._own is None:
            self._own = SpoolFile.create(make_folder(self._path))
            self._own_bytes = 0
        return self._own

    def _failed(self, file: SpoolFile | None, error: Exception) -> None:
        if isinstance(error, _DownError):
            return
        self._incidents.report("spool", error)
        if file is not None and is_damage(error):
            file.is_damaged = True
            if file is self._own:
                file.put_aside()
                self._forget(file)
            return
        self._down_until = time.monotonic() + (_BUSY_PAUSE_S if is_busy(error) else _PAUSE_S)

    def _forget(self, file: SpoolFile) -> None:
        """Go on without a lost file: its samples that are still in memory are stored anew."""
        self._taken_over.forget(file)
        if file is self._own:
            self._own = None
            stored, self._stored = self._stored, set()
            for entry in stored:
                if not entry.is_settled:
                    entry.file = None
                    self._late.append(_Write(entry))

    def _look(self) -> None:
        """Hand back what waits on disk, as far as there is room for it."""
        if time.monotonic() < max(self._look_at, self._down_until) or self._is_stopping:
            return
        self._look_at = time.monotonic() + _LOOK_S
        self._check_files()
        self._taken_over.look(() if self._own is None else (self._own.path.name,))
        files = self._files()
        has_more = [self._hand_back(file, key) for file in files for key in list(file.waiting)]
        if any(has_more):
            self._look_at = 0.0
        for file in self._taken_over.finished():
            self._taken_over.remove(file, self._opened())
        self._measure()

    def _files(self) -> list[SpoolFile]:
        return [*([] if self._own is None else [self._own]), *self._taken_over.files]

    def _check_files(self) -> None:
        for file in self._files():
            if not file.is_intact():
                self._incidents.report("spool", FileNotFoundError())
                file.is_lost = True
                self._forget(file)

    def _hand_back(self, file: SpoolFile, key: str) -> bool:
        """Hand back a chunk of rows, and return whether there may be room for more."""
        sink = None if key == EVALUATE else key
        limit = min(_CHUNK, self._receiver.room(sink))
        try:
            rows = file.read(key, limit) if limit > 0 else []
        except FILE_ERRORS as error:
            self._failed(file, error)
            return False
        for number, row in enumerate(rows):
            recovered = recover(row, file, self._redactor, self._incidents)
            if recovered.refusal is not None and recovered.counted:
                self._incidents.count("spool, unreadable: Lost")
                self.settle(recovered.entry, "")
            elif not self._receiver.take(recovered, sink):
                file.waiting[key].extendleft(one.seq for one in reversed(rows[number:]))
                return False
        return len(rows) == _CHUNK

    def _measure(self) -> None:
        if self._own is not None:
            self._own_bytes = self._own.size()
        if self._is_measured:
            files = self._files()
            rows = sum(file.count_rows() for file in files)
            self._measured = rows, sum(file.size() for file in files)

    def _close(self) -> None:
        for file in self._files():
            try:
                file.close()
            except FILE_ERRORS as error:
                self._incidents.report("spool", error)


class _DownError(OSError):
    """The disk failed a moment ago."""
