"""A queue of jobs: samples to evaluate and results to deliver.

A process keeps its jobs in memory. If a spool is set, a SQLite file also stores each job. The
process renews a lease on its jobs. If the process dies, the lease expires. Another process then
claims the jobs.

One thread runs all SQL. No method raises. If the disk fails, jobs stay in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.outbox_file import EVALUATE, FEEDBACK, Job, OutboxFile, State
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy, is_damage
from rag_eval_hooks.threads import Loop

T = TypeVar("T")

PATIENCE_S: Final = 2.0  # seconds to wait for a write; then the sample counts as undurable
_GATHER_S: Final = 0.01  # seconds in which changes join one transaction
_MOST_JOBS: Final = 256  # maximum number of jobs per transaction
_POLL_S: Final = 1.0  # seconds between two searches for jobs of dead processes
_FIRST_POLL_S: Final = 2.0  # seconds; longer, so that forked children claim the jobs
_BUSY_PAUSE_S: Final = 0.1
_ERROR_PAUSE_S: Final = 2.0  # seconds to wait after a write fails
_NO_SINK: Final = "spool: results are lost, because their sink is not configured"


class Outbox:
    """A process's jobs, with an optional SQLite file. Thread-safe.

    Args:
        path: Folder of the file, or None to keep jobs only in memory.
        max_bytes: Maximum size of the file. If the file is full, new jobs stay only in memory.
        incidents: Log of caught failures.
    """

    def __init__(self, path: Path | None, *, max_bytes: int, incidents: Incidents) -> None:
        # If the disk fails, this is True, and callers do not wait for writes.
        self.is_stalled = False
        self.max_bytes = max_bytes
        # Number of accepted samples that are only in memory.
        self.undurable = 0
        self._incidents = incidents
        self._file = None if path is None else OutboxFile(path, max_bytes)
        self._consumers: dict[str, tuple[Callable[[], int], Callable[[Job], bool]]] = {}
        self._lock = threading.Lock()
        self._loop = Loop("rag-eval-hooks-outbox", self._step, self._report)
        # Unwritten changes, by job, with the time of the first change.
        self._dirty: dict[Job, float] = {}
        self._stored: set[Job] = set()
        self._is_closing = self._has_ended = self._is_anew = False
        self._retry_at = self._poll_at = 0.0

    @property
    def is_durable(self) -> bool:
        return self._file is not None

    @property
    def has_leftovers(self) -> bool:
        return self._file is not None and self._file.exists

    def consume(self, name: str, capacity: Callable[[], int], take: Callable[[Job], bool]) -> None:
        """Pass jobs of dead processes to `take`, which runs on the outbox's thread.

        If `take` returns False, release the job.
        """
        self._consumers[name] = capacity, take

    def start(self, *, later: bool = False) -> bool:
        """Start the thread. Return False if the system cannot start a thread."""
        if self._file is None or self._loop.is_running or self._is_closing:
            return True
        self._poll_at = time.monotonic() + (_FIRST_POLL_S if later else 0.0)
        return self._loop.start()

    def put(self, job: Job, *, for_any: bool = False) -> None:
        self._change(job, State.FREE if for_any else State.HELD)

    def begin(self, job: Job) -> Future[bool]:
        job.tries += 1
        return self._change(job, State.HELD)

    def done(self, job: Job, count: str = "", then: Sequence[Job] = ()) -> Future[bool]:
        """Finish a job, count its outcome and store its follow-up jobs, in one transaction.

        The future is False if another process claimed the job.
        """
        job.count, job.then = count, then
        return self._change(job, State.DONE)

    def release(self, job: Job) -> bool:
        if job.is_stored:
            self._change(job, State.FREE)
        return job.is_stored

    def counts(self) -> Mapping[str, int]:
        return self._read(outbox_file.read_counts, {})

    def measured(self) -> tuple[int | None, int | None]:
        unknown: tuple[int | None, int | None] = (None, None)
        return self._read(outbox_file.read_size, unknown)

    def drain(self, timeout: float | None) -> bool:
        """Wait until earlier changes are written or have failed. Return False on timeout."""
        if not self._loop.is_running:
            return not self._dirty
        return self._loop.ask(timeout)

    def close(self, timeout: float) -> None:
        self._is_closing = True
        self._loop.wake()
        self._loop.join(timeout)

    def _report(self, error: Exception) -> None:
        self._incidents.report("spool", error)

    def _read(self, read: Callable[[Path], T], default: T) -> T:
        try:
            return default if self._file is None else read(self._file.path)
        except FILE_ERRORS as error:
            self._report(error)
            return default

    def _change(self, job: Job, state: State) -> Future[bool]:
        written: Future[bool] = Future()
        with self._lock:
            job.state, job.written = state, written
            if self._file is not None and not self._has_ended:
                self._dirty.setdefault(job, time.monotonic())
                self._loop.wake()
                return written
        job.resolve()
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
                    job.text = None
                    job.resolve()

    def _commit(self, file: OutboxFile) -> bool:
        with self._lock:
            batch = [(job, job.state, job.written) for job in islice(self._dirty, _MOST_JOBS)]
        changes = [(job, state) for job, state, _ in batch]
        self._encode(changes)
        try:
            are_ours = file.write(changes)
        except Exception as error:  # noqa: BLE001 - any failure must keep the jobs
            for one in (one for job, state in changes for one in job.inserts(state)):
                one.row = one.row if one.is_stored else None
            return self._failed(file, error, changes)
        self.is_stalled, self._retry_at, self._is_anew = False, 0.0, False
        with self._lock:
            for (job, state, written), is_ours in zip(batch, are_ours, strict=True):
                self._note(job, state, is_ours=is_ours)
                if job.written is written:
                    del self._dirty[job]
        for (job, _, written), is_ours in zip(batch, are_ours, strict=True):
            if job.written is written:
                job.resolve(is_ours=is_ours)
        return True

    def _encode(self, changes: Sequence[tuple[Job, State]]) -> None:
        texts: dict[object, str] = {}
        for job in (one for changed, state in changes for one in changed.inserts(state)):
            if job.encode is None or job.is_over or job.is_stored or job.text is not None:
                continue
            try:
                job.text = texts.get(job.encode) or job.encode()
                texts[job.encode] = job.text
            except Exception as error:  # noqa: BLE001 - `encode` reads the application's objects
                job.encode = None
                self._report(error)
                with self._lock:
                    self._count_undurable(job)

    def _note(self, job: Job, state: State, *, is_ours: bool) -> None:
        for one in job.inserts(state):
            one.is_stored = one.row is not None
            if one.is_stored:
                self._stored.add(one)
            elif one.text is not None and not one.is_over and (is_ours or one is job):
                self._incidents.count("spool: Full")
                self._count_undurable(job)
            one.text = None
        if state is not State.HELD:
            job.is_stored = False
            self._stored.discard(job)

    def _failed(
        self, file: OutboxFile, error: Exception, changes: Sequence[tuple[Job, State]] = ()
    ) -> bool:
        """Schedule a retry. If a new file replaced a damaged file, return True to retry now."""
        self._report(error)
        if is_damage(error, is_read=not changes):
            file.replace()
            with self._lock:
                for job in self._stored:
                    job.is_stored, job.row = False, None
                    self._dirty.setdefault(job, time.monotonic())
                self._stored.clear()
            if not self._is_anew:
                self._is_anew = True
                return True
        if changes:
            pause = _BUSY_PAUSE_S if is_busy(error) else _ERROR_PAUSE_S
            self._retry_at = time.monotonic() + pause
            if not is_busy(error):
                # Keep the changes for a retry, but let callers continue, because the disk fails.
                self.is_stalled = True
                for job, _ in changes:
                    job.resolve()
        return False

    def _count_undurable(self, job: Job) -> None:
        # Callers hold the lock.
        if job.is_stored or job.is_undurable:
            return
        job.is_undurable = True
        if job.consumer == EVALUATE:
            self.undurable += 1
        elif job.consumer == FEEDBACK:
            self._incidents.count("feedback is lost")

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
        self._incidents.count(_NO_SINK, lost, detail="Configure the sink again")
        for job in claimed:
            self._stored.add(job)
            if not self._consumers[job.consumer][1](job):
                self.release(job)
        if claimed:
            self._poll_at = 0.0
