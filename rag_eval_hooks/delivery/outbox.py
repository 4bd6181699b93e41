"""A queue of jobs: samples to evaluate, results to deliver, and feedback.

If a process dies, its lease on the spool's jobs expires. Another process then claims the jobs.
No method raises. If the disk fails, jobs stay in memory.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.outbox_file import EVALUATE, FEEDBACK, LOST, Job, OutboxFile
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy, is_damage
from rag_eval_hooks.threads import Loop

PATIENCE_S: Final = 2.0  # seconds to wait for a write; then the sample counts as unstored
_GATHER_S: Final = 0.01  # seconds in which changes join one transaction
_MOST_JOBS: Final = 256  # maximum number of jobs per transaction
_POLL_S: Final = 1.0  # seconds between two searches for jobs of dead processes
_FIRST_POLL_S: Final = 2.0  # seconds before the first search, so that forked children search first
_BUSY_PAUSE_S: Final = 0.1
_ERROR_PAUSE_S: Final = 2.0  # seconds to wait after a write fails
_NO_SINK: Final = "spool: results are lost, because their sink is not configured"


class Outbox:
    """Stores jobs in a SQLite file in the folder `path`, or in memory if `path` is None.

    Thread-safe.
    """

    def __init__(self, path: Path | None, *, max_bytes: int, incidents: Incidents) -> None:
        self.is_durable = path is not None
        # Without a file, or while the disk fails, callers do not wait for writes.
        self.is_stalled = path is None
        # Number of accepted samples that are only in memory.
        self.undurable = 0
        self._incidents, self._report = incidents, partial(incidents.report, "spool")
        self._file = None if path is None else OutboxFile(path, max_bytes)
        self._consumers: dict[str, tuple[Callable[[], int], Callable[[Job], bool]]] = {}
        self._lock = threading.Lock()
        self._loop = Loop("rag-eval-hooks-outbox", self._step, self._report)
        # Jobs with unwritten changes, and the time of each job's first unwritten change.
        self._dirty: dict[Job, float] = {}
        self._stored: set[Job] = set()
        self._is_closing = self._has_ended = False
        self._retry_at = self._poll_at = 0.0

    def consume(self, name: str, capacity: Callable[[], int], take: Callable[[Job], bool]) -> None:
        """Register a consumer. The outbox's thread calls `take` with each claimed job.

        If `take` returns False, the outbox leaves the job to another process.
        """
        self._consumers[name] = capacity, take

    def recover(self) -> None:
        if self._file is not None and self._file.exists:
            self._poll_at = time.monotonic() + _FIRST_POLL_S
            self.start()

    def start(self) -> bool:
        return self._file is None or self._is_closing or self._loop.start()

    def put(self, job: Job) -> Future[bool]:
        with self._lock:
            return self._mark(job)

    def end(
        self,
        job: Job,
        consumer: str,
        then: Iterable[str] = (),
        encode: Callable[[], str] | None = None,
    ) -> Future[bool]:
        """Finish the job for a consumer.

        The future's result is False if another process has claimed the job.
        """
        with self._lock:
            job.consumers = {*then, *job.consumers} - {consumer}
            job.encode = encode or job.encode
            return self._mark(job)

    async def within_patience(self, written: Future[bool]) -> bool:
        if self.is_stalled:
            return True
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.wrap_future(written)
        except TimeoutError as error:
            self.is_stalled = True
            self._report(error)
            return True

    def leave(self, job: Job, *consumers: str) -> bool:
        with self._lock:
            if job.is_stored:
                job.left = job.left | {*consumers}
                if job.consumers <= job.left:
                    self._mark(job)
            return job.is_stored

    def counts(self) -> Mapping[str, int]:
        try:
            return {} if self._file is None else outbox_file.read_counts(self._file.path)
        except FILE_ERRORS as error:
            self._report(error)
            return {}

    def drain(self, timeout: float) -> bool:
        """Write the changes of all jobs to disk. Return False on timeout."""
        if not self._loop.is_running:
            return not self._dirty
        return self._loop.ask(timeout)

    def close(self, timeout: float) -> None:
        self._is_closing = True
        self._loop.wake()
        self._loop.join(timeout)

    def _mark(self, job: Job) -> Future[bool]:
        # Callers hold the lock.
        written: Future[bool] = Future()
        job.written = written
        if self._file is None or self._has_ended:
            written.set_result(True)
        else:
            self._dirty.setdefault(job, time.monotonic())
            self._loop.wake()
        return written

    # The methods below run in the outbox's thread.

    def _step(self) -> float | None:
        file = self._file
        if file is None or self._has_ended:
            return None
        if not (self._loop.is_asked or self._is_closing):
            time.sleep(_GATHER_S)
        # The last step starts after `close`, so that it writes all changes.
        is_closing = self._is_closing
        is_urgent = is_closing or self._loop.is_asked
        if is_urgent or time.monotonic() >= self._retry_at:
            while self._dirty and self._commit(file):
                pass
        if self._retry_at:
            self._give_up(time.monotonic() - (0.0 if is_urgent else PATIENCE_S))
        if is_closing:
            self._leave(file)
            return None
        if time.monotonic() >= self._poll_at:
            self._poll(file)
        due = min(self._poll_at, self._retry_at) if self._dirty else self._poll_at
        return due - time.monotonic()

    def _leave(self, file: OutboxFile) -> None:
        with self._lock:
            self._has_ended = True
        if file.exists:
            file.leave()

    def _give_up(self, before: float) -> None:
        with self._lock:
            for job, since in list(self._dirty.items()):
                if not job.is_stored and since <= before:
                    del self._dirty[job]
                    self._count_undurable(job)
                    _resolve(job.written)

    def _commit(self, file: OutboxFile) -> bool:
        with self._lock:
            # Other threads may change the jobs during the transaction, so write copies.
            states = {job: copy(job) for job in islice(self._dirty, _MOST_JOBS)}
        changes = [(state, self._text(job, state)) for job, state in states.items()]
        try:
            rows = file.write(changes)
        except Exception as error:  # noqa: BLE001 - any failure must keep the jobs
            return self._failed(file, error, states.values())
        self.is_stalled, self._retry_at = False, 0.0
        with self._lock:
            for (job, state), row in zip(states.items(), rows, strict=True):
                self._note(job, state, row)
        for job, state in states.items():
            # Outside the lock, because this call may run callbacks.
            _resolve(state.written, is_ours=job.is_ours or state.is_claimable)
        return True

    def _text(self, job: Job, state: Job) -> str | None:
        if not state.consumers or not state.is_ours or state.stored is state.encode:
            return None
        try:
            return state.encode()
        except Exception as error:  # noqa: BLE001 - `encode` reads the application's objects
            self._report(error)
            with self._lock:
                self._count_undurable(job)
            state.consumers = set()
            return None

    def _note(self, job: Job, state: Job, row: int | None) -> None:
        if state.consumers and row is None:
            self._incidents.count("spool: the file is full")
            self._count_undurable(job)
        job.is_ours = row is not LOST and not state.is_claimable
        job.row = row if job.is_ours else None
        job.stored = None if job.row is None else state.encode
        (self._stored.add if job.is_stored else self._stored.discard)(job)
        if job.written is state.written:
            del self._dirty[job]

    def _failed(self, file: OutboxFile, error: Exception, states: Collection[Job] = ()) -> bool:
        self._report(error)
        is_brief, can_retry_now = is_busy(error), False
        if is_damage(error, is_read=not states):
            file.replace()
            is_brief, can_retry_now = True, not self._retry_at
            with self._lock:
                for job in self._stored:
                    job.stored = job.row = None
                    self._dirty.setdefault(job, time.monotonic())
                self._stored.clear()
        if states:
            self._retry_at = time.monotonic() + (_BUSY_PAUSE_S if is_brief else _ERROR_PAUSE_S)
        if states and not is_brief:
            # Keep the changes for a retry, but let callers continue, because the disk fails.
            self.is_stalled = True
            for state in states:
                _resolve(state.written)
        return can_retry_now

    def _count_undurable(self, job: Job) -> None:
        # Callers hold the lock.
        if job.is_stored or job.is_undurable:
            return
        job.is_undurable = True
        if FEEDBACK in job.consumers:
            self._incidents.count("feedback is lost")
        else:
            self.undurable += 1

    def _poll(self, file: OutboxFile) -> None:
        self._poll_at = time.monotonic() + _POLL_S
        if not file.exists:
            return
        rooms = {name: min(one[0](), _MOST_JOBS) for name, one in self._consumers.items()}
        try:
            claimed, lost = file.claim({EVALUATE: 0, **rooms})
        except FILE_ERRORS as error:
            self._failed(file, error)
            return
        self._incidents.count(_NO_SINK, lost, detail="Configure the removed sink again")
        for job in claimed:
            self._stored.add(job)
            name = next(name for name in self._consumers if name in job.consumers)
            if not self._consumers[name][1](job):
                self.leave(job, *job.consumers)
        if claimed:
            self._poll_at = 0.0


def _resolve(written: Future[bool] | None, *, is_ours: bool = True) -> None:
    # The caller cancels the future after a timeout.
    with suppress(InvalidStateError):
        if written is not None:
            written.set_result(is_ours)
