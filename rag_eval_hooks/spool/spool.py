"""Accepted samples on disk until their results are delivered, written by a thread of its own."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.spool.codec import evaluation_to_text
from rag_eval_hooks.spool.inspect import spool_books
from rag_eval_hooks.spool.recovered import (
    BEGIN,
    DELIVERED,
    DISCARD,
    KEEP,
    SETTLE,
    Entry,
    Receiver,
    Write,
)
from rag_eval_hooks.spool.writer import SpoolWriter
from rag_eval_hooks.sqlite_file import FILE_ERRORS

__all__ = ["Spool"]

_GATHER_S: Final = 0.01
"""Seconds in which samples gather to be written together; well under the 50 ms at risk."""
_LOOK_S: Final = 1.0
"""Seconds between two looks for files of processes that have ended."""
_START_S: Final = 2.0
"""Seconds before the first look: a process that forks meanwhile leaves it to its children."""
_PATIENCE_S: Final = 2.0
"""Seconds that a result waits for the disk before it is delivered without being stored."""


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
        self._path = path
        self._incidents = incidents
        self._writer = SpoolWriter(
            path,
            max_bytes=max_bytes,
            incidents=incidents,
            redactor=redactor,
            receiver=receiver,
        )
        self._lock = threading.Lock()
        self._writes: deque[Write] = deque()
        self._wake = threading.Event()
        self._drained = threading.Condition(self._lock)
        self._added = self._done = 0
        self._is_stalled = self._is_stopping = self._has_ended = self._hurry = False
        self._look_at = 0.0
        self._is_measured = False
        self._measured: tuple[int, int] | tuple[None, None] = (None, None)
        self._thread: threading.Thread | None = None

    @property
    def undurable(self) -> int:
        """Number of accepted samples that were not stored."""
        return self._writer.undurable

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
        self._add(Write(entry))
        return entry

    async def begin(self, entry: Entry) -> None:
        """Note that the evaluation of a recovered sample begins.

        Returns when the note is on disk, as the evaluation may end this process at once.
        """
        await self._written(Write(entry, BEGIN))

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
        entry.is_kept = await self._written(Write(entry, KEEP, (text, json.dumps(positions))))
        return entry.is_kept

    def delivered(self, entry: Entry, sink: str) -> None:
        """Note that a sink has the evaluation, or will never have it. Never waits."""
        self._add(Write(entry, DELIVERED, (sink,)))

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
        self._add(Write(entry, SETTLE if entry.is_kept else DISCARD, (column,)))

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
        return self._done >= last and not self._writer.has_samples

    def stop(self, timeout: float) -> None:
        """Write what is noted, leave the files to other processes and end the thread."""
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _add(self, write: Write) -> None:
        with self._lock:
            self._writes.append(write)
            self._added += 1
        self._wake.set()

    async def _written(self, write: Write) -> bool:
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
            pause = min(pause, self._writer.retry_in)
            if self._wake.wait(max(0.0, pause)) and not self._hurry:
                time.sleep(_GATHER_S)
            self._guarded(self._write)
            self._guarded(self._look)
        self._hurry = True
        self._guarded(self._write)
        self._guarded(self._writer.close)
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
            self._hurry = False
            self._writer.hurry()
        with self._lock:
            self._wake.clear()
            writes = list(self._writes)
            self._writes.clear()
        try:
            self._writer.write(writes)
        finally:
            with self._lock:
                self._is_stalled = False
                self._done += len(writes)
                self._drained.notify_all()

    def _look(self) -> None:
        """Hand back what waits on disk, as far as there is room for it."""
        if time.monotonic() < self._look_at or self._is_stopping:
            return
        self._look_at = time.monotonic() + _LOOK_S
        if self._writer.look():
            self._look_at = 0.0
        if self._is_measured:
            self._measured = self._writer.measure()
