"""Keeps accepted samples and finished scores on disk until they are delivered."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypedDict, Unpack

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.spool.codec import outcomes_to_text
from rag_eval_hooks.spool.entry import NOWHERE, Entry
from rag_eval_hooks.spool.file import Row, spool_books
from rag_eval_hooks.spool.reports import (
    DropReport,
    KeepReport,
    Kept,
    LeaveReport,
    ReportHost,
)
from rag_eval_hooks.spool.writer import (
    Begin,
    Finish,
    GiveUp,
    Insert,
    Keep,
    Operation,
    SpoolWriter,
)
from rag_eval_hooks.sqlite_file import FILE_ERRORS

__all__ = ["Spool"]

_GATHER_S = 0.015
"""How long `batch` waits for more to write along; well under the 50 ms that may be lost."""
_BUILD_S = 0.02
"""How long samples are built before those that are built are written."""
_LOOK_S = 1.0
"""How often samples of processes that have ended are looked for."""
_START_S = 2.0
"""How long a new process waits with that: one that forks meanwhile leaves it to its children."""
_RETRY_S = 0.1
"""How soon samples are tried again that found the file locked."""
_CHUNK = 16
"""Samples taken over at a time; between them, what is accepted here is written."""
_PATIENCE_S = 2.0
"""How long a result waits for the disk before it is delivered without being kept."""


class SpoolParts(TypedDict):
    """What the spool of a process works with; see `Spool`."""

    incidents: Incidents
    positions: Callable[[], Mapping[str, int]]
    room: Callable[[], int]
    take: Callable[[Row, int], bool]
    reports: ReportHost


class Spool:
    """The spool of one process: a thread that writes, and looks for what others left behind.

    Args:
        path: The SQLite file; may be shared by any number of processes of one machine.
        max_bytes: Size that it may have; further samples go on without being kept, counted.
        sync: Whether `put` waits until the sample is on disk.
        wait: Seconds that it waits at most.
        incidents: Counts failures.
        positions: Where sinks stand, by their place.
        room: How many more samples the evaluator can take.
        take: Called with a sample of a process that has ended, and the file's generation; tells
            whether there was room for it.
        reports: Those who send reports.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        sync: bool,
        wait: float,
        incidents: Incidents,
        positions: Callable[[], Mapping[str, int]],
        room: Callable[[], int],
        take: Callable[[Row, int], bool],
        reports: ReportHost,
    ) -> None:
        self._path = path
        self._sync = sync
        self._wait = wait
        self._incidents = incidents
        self._room = room
        self._take = take
        self._reports = reports
        self._writer = SpoolWriter(path, max_bytes, incidents, positions, reports)
        # Held while the file is used, so that a fork can find it closed.
        self._file_lock = threading.Lock()
        self._forking = False
        self._lock = threading.Lock()
        self._operations: deque[Operation] = deque()
        self._wake = threading.Event()
        self._drained = threading.Condition(self._lock)
        self._added = self._done = 0
        self._late = self._stalled = False
        self._stopping = self._ended = self._hurry = False
        self._look_at = 0.0
        self._measures = False
        self._measured: tuple[int, int] | tuple[None, None] = (None, None)
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, config: RagEvalConfig, **parts: Unpack[SpoolParts]) -> Spool | None:
        """The spool that the settings name, or None."""
        if config.spool is None:
            return None
        return cls(
            Path(config.spool),
            max_bytes=config.spool_max_mb * 1_000_000,
            sync=config.durability == "sync",
            wait=config.spool_wait,
            **parts,
        )

    @property
    def undurable(self) -> int:
        """Accepted samples that could not be kept."""
        return self._writer.undurable

    def books(self) -> Mapping[str, int]:
        """Those of all processes, ever; empty where they cannot be read just now."""
        try:
            # A fork must not find this connection open either.
            with self._file_lock:
                return spool_books(self._path)
        except FILE_ERRORS as error:
            self._incidents.report("spool", error)
            return {}

    def measured(self) -> tuple[int, int] | tuple[None, None]:
        """Samples and bytes in the file, some seconds ago. Never waits.

        Two None before the first look at it, which is taken once this has been asked.
        """
        self._measures = True
        return self._measured

    def start(self) -> None:
        """Looks for what others left behind, soon.

        Raises:
            RuntimeError: The system gives no thread.
        """
        self._look_at = time.monotonic() + _START_S
        self.begin_thread()

    def begin_thread(self) -> None:
        """Starts the thread, once.

        Raises:
            RuntimeError: The system gives no thread.
        """
        with self._lock:
            if self._thread is None and not self._stopping:
                thread = threading.Thread(
                    target=self._run, name="rag-eval-hooks-spool", daemon=True
                )
                thread.start()
                self._thread = thread

    def put(self, entry: Entry) -> None:
        """Keeps a sample, soon. O(1), never waits."""
        self._add(Insert(entry))

    def confirmed(self, entry: Entry) -> bool:
        """Whether a sample that was put is on disk; waits for it where it is to be `sync`.

        A disk that is slower than allowed is not waited for again until it has caught up.
        """
        if not self._sync:
            return True
        if not entry.written.wait(0 if self._late else self._wait):
            self._late = True
            self._incidents.report("spool", TimeoutError())
            return False
        return entry.generation != NOWHERE

    async def begin(self, entry: Entry) -> None:
        """Notes that a sample of another process is evaluated now.

        Waits for the note to be on disk: the sample may end this process at once.
        """
        operation = Begin(entry)
        self._add(operation)
        await self._told(operation.mine)

    async def keep(self, entry: Entry, outcomes: Outcomes) -> bool:
        """Keeps outcomes until they are delivered.

        Returns:
            Whether they are ours to deliver: False when another process has taken the sample.
        """
        try:
            operation = Keep(entry, outcomes_to_text(outcomes))
        except Exception as error:  # noqa: BLE001 - a metric of the user's explains by any object
            self._incidents.report("spool", error)
            return True
        self._add(operation)
        return await self._told(operation.mine)

    async def _told(self, mine: Future[bool]) -> bool:
        """What the writing thread tells; True where that takes too long, or did before."""
        if self._stalled:
            return True
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await asyncio.wrap_future(mine)
        except TimeoutError as error:
            self._stalled = True
            self._incidents.report("spool", error)
            return True

    def finish(self, entry: Entry, column: str) -> None:
        """Lets go of a sample that is delivered, or is not to be.

        Args:
            entry: The sample.
            column: Of the books.
        """
        self._add(Finish(entry, column))

    def give_up(self, entry: Entry) -> None:
        """Leaves a sample that was taken over to others."""
        self._add(GiveUp(entry))

    def keep_report(self, kept: Kept) -> None:
        """Keeps a report, soon, before what is noted later."""
        self._add(KeepReport(kept))

    def leave_report(self, kept: Kept, told: Callable[[bool], None]) -> None:
        """Leaves a report to others, and tells whether it is on disk."""
        self._add(LeaveReport(kept, told))

    def drop_report(self, kept: Kept) -> None:
        """Lets go of a report."""
        self._add(DropReport(kept))

    def drain(self, timeout: float | None) -> bool:
        """Waits until all that was noted so far is on disk; whether it is."""
        self._hurry = True
        self._wake.set()
        with self._lock:
            last = self._added
            self._drained.wait_for(lambda: self._ended or self._is_written(last), timeout)
            return self._is_written(last)

    def _is_written(self, last: int) -> bool:
        return self._done >= last and not self._writer.unwritten

    def stop(self, timeout: float) -> None:
        """Writes what is noted, gives up all claims and ends the thread."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def before_fork(self) -> None:
        """Closes the file: a connection must not cross a fork. To be followed by `after_fork`."""
        self._forking = self._file_lock.acquire(timeout=_PATIENCE_S)
        if self._forking:
            self._writer.close(give_up=False)

    def after_fork(self) -> None:
        """In the parent: goes on."""
        if self._forking:
            self._forking = False
            self._file_lock.release()

    def abandon(self) -> None:
        """In the child: everything here is the parent's."""
        self._writer.abandon()

    def _add(self, operation: Operation) -> None:
        with self._lock:
            self._operations.append(operation)
            self._added += 1
        self._wake.set()

    def _run(self) -> None:
        self._open()
        while not self._stopping:
            longest = _RETRY_S if self._writer.unwritten else _LOOK_S
            pause = max(0.0, min(longest, self._look_at - time.monotonic()))
            if self._wake.wait(pause) and not self._sync and not self._hurry:
                time.sleep(_GATHER_S)
            try:
                self._write()
                self._look()
            except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
                self._incidents.report("spool", error)
        try:
            self._hurry = True
            self._write()
            with self._file_lock:
                self._writer.close(give_up=True)
        except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
            self._incidents.report("spool", error)
        finally:
            with self._lock:
                self._ended = True
                self._drained.notify_all()

    def _open(self) -> None:
        try:
            with self._file_lock:
                self._writer.open()
        except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
            self._incidents.report("spool", error)

    def _write(self) -> None:
        if self._hurry:
            self._hurry = False
            self._writer.hurry()
        with self._lock:
            self._wake.clear()
            operations = list(self._operations)
            self._operations.clear()
        for batch in _built(operations):
            try:
                with self._file_lock:
                    self._writer.write(batch)
            finally:
                # Also what failed is done with: who waits for it would wait for ever.
                with self._lock:
                    self._late = self._stalled = False
                    self._done += len(batch)
                    self._drained.notify_all()

    def _look(self) -> None:
        """Takes over samples of processes that have ended, as many as there is room for."""
        if time.monotonic() < self._look_at or self._stopping:
            return
        self._look_at = time.monotonic() + _LOOK_S
        with self._file_lock:
            rows, generation = self._writer.claim(min(_CHUNK, self._room()))
            reports = self._writer.claim_reports()
            if self._measures:
                self._measured = self._writer.measure()
        taken = [self._take(row, generation) for row in rows]
        for kept in reports:
            self._reports.take(kept)
        # What found no room finds none a moment later either.
        if (len(rows) == _CHUNK and all(taken)) or reports:
            self._look_at = 0.0


def _built(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """The operations with their samples built, in batches.

    Building may take long, as where texts are redacted: neither the file, which other processes
    wait for, nor a fork waits for it, and what is built does not wait for the rest.
    """
    batch: list[Operation] = []
    until = time.monotonic() + _BUILD_S
    for operation in operations:
        if isinstance(operation, Insert):
            # What it raises is counted where the sample is written.
            with contextlib.suppress(Exception):
                operation.entry.sample()
        batch.append(operation)
        if time.monotonic() >= until:
            yield batch
            batch, until = [], time.monotonic() + _BUILD_S
    yield batch
