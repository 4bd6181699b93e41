"""Outbox: samples to evaluate and results to deliver, kept in one SQLite file if there is a spool.

A process works on its jobs from memory. The file mirrors them under a lease, which the process
keeps extending. When the lease of a dead process runs out, another process claims its jobs.

One thread runs all SQL. No method blocks or raises: a job that the disk refuses stays in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.outbox_file import FileMovedError, OutboxFile
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy, is_damage

__all__ = ["PATIENCE_S", "Consumer", "Job", "Outbox"]

T = TypeVar("T")

PATIENCE_S: Final = 2.0
"""Seconds after which a sample that the disk refuses counts as undurable."""
_GATHER_S: Final = 0.01
"""Seconds in which writes gather for one transaction; an accepted sample has 50 ms."""
_MOST_JOBS: Final = 256
"""Jobs in one transaction."""
_POLL_S: Final = 1.0
"""Seconds between two looks for jobs that no living process has."""
_FIRST_POLL_S: Final = 2.0
"""Seconds before the first look; a process that forks meanwhile leaves the jobs to its children."""
_PURGE_S: Final = 60.0
"""Seconds between two removals of old results for sinks of other settings."""
_BUSY_PAUSE_S: Final = 0.1
_ERROR_PAUSE_S: Final = 2.0
"""Seconds between two writes to a file that another process holds, and to one that fails."""


class _End(NamedTuple):
    """How a job leaves this process: released at a time, or done with a count and further jobs."""

    released_at: float | None = None
    counted_as: str = ""
    then: Sequence[Job] = ()


class Job:
    """One sample to evaluate, or one result for one sink.

    Args:
        consumer: `EVALUATE`, or the key of a sink.
        payload: The sample or result; of a claimed job, its text in the file.
        encode: Returns the text to store, called in the outbox's thread; None keeps the job out
            of the file. Jobs with the same function share the text.
        accepted: Acceptance of the sample in seconds since the epoch.
    """

    __slots__ = (
        *("accepted", "consumer", "encode", "end", "is_put", "is_stored", "is_undurable"),
        *("payload", "row", "text", "then", "tries", "written"),
    )

    def __init__(
        self,
        consumer: str,
        payload: Any = None,
        encode: Callable[[], str] | None = None,
        accepted: float | None = None,
    ) -> None:
        self.consumer = consumer
        self.payload = payload
        self.encode = encode
        self.accepted = time.time() if accepted is None else accepted
        self.tries = 0
        self.then: Sequence[Job] = ()
        # Of the file: `row` is provisional until the commit, `is_stored` follows it.
        self.row: int | None = None
        self.text: str | None = None
        self.is_stored = self.is_put = self.is_undurable = False
        self.end: _End | None = None
        self.written: Future[bool] | None = None

    @property
    def is_over(self) -> bool:
        """True once the job is done."""
        return self.end is not None and self.end.released_at is None

    def resolve(self, *, is_ours: bool = True) -> None:
        """Tell whoever waits for the last change that it is on disk or given up."""
        # The caller may have run out of patience and cancelled the future.
        with suppress(InvalidStateError):
            if self.written is not None:
                self.written.set_result(is_ours)


class Consumer(NamedTuple):
    """Taker of the jobs that no living process has; called in the outbox's thread.

    Attributes:
        capacity: Returns how many jobs it can take now.
        take: Takes a claimed job; False leaves it in the file.
    """

    capacity: Callable[[], int]
    take: Callable[[Job], bool]


class Outbox:
    """Jobs of one process, and those that other processes left. Thread-safe.

    Args:
        path: Folder of the spool, or None to keep jobs in memory alone.
        max_bytes: Size of the file above which no new job is stored.
        incidents: Counts failures.

    Attributes:
        is_stalled: Whether the disk fails, so that nobody should wait for it.
    """

    def __init__(self, path: Path | None, *, max_bytes: int, incidents: Incidents) -> None:
        self.is_stalled = False
        self._incidents = incidents
        self._file = None if path is None else OutboxFile(path, max_bytes)
        self._consumers: dict[str, Consumer] = {}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wake = threading.Event()
        # Jobs that differ from the file, with the time of their first change.
        self._dirty: dict[Job, float] = {}
        self._stored: set[Job] = set()
        self._undurable = self._asked = self._answered = 0
        self._is_closing = self._has_ended = self._is_anew = False
        self._retry_at = self._poll_at = self._purge_at = 0.0
        self._thread: threading.Thread | None = None

    @property
    def is_durable(self) -> bool:
        """True if jobs are kept in a file."""
        return self._file is not None

    @property
    def undurable(self) -> int:
        """Accepted samples of which neither the text nor the result could be stored."""
        late = time.monotonic() - PATIENCE_S
        with self._lock:
            for job, since in self._dirty.items():
                if since < late:
                    self._count_undurable(job)
            return self._undurable

    def consume(self, name: str, consumer: Consumer) -> None:
        """Register the taker of a consumer's jobs, before `start`."""
        self._consumers[name] = consumer

    def start(self, *, later: bool = False) -> None:
        """Start the thread, once; `later` delays the first look for jobs of other processes.

        Raises:
            RuntimeError: The system has no thread left.
        """
        with self._lock:
            if self._file is None or self._thread is not None or self._is_closing:
                return
            self._poll_at = time.monotonic() + (_FIRST_POLL_S if later else 0.0)
            thread = threading.Thread(target=self._run, name="rag-eval-hooks-outbox", daemon=True)
            thread.start()
            self._thread = thread

    def put(self, job: Job) -> None:
        """Store a job soon, claimed by this process."""
        job.is_put = True
        self._change(job)

    def begin(self, job: Job) -> Future[bool]:
        """Count a try of a claimed job before it is worked on, as that may end this process."""
        job.tries += 1
        return self._awaited(job)

    def done(self, job: Job, count: str = "", then: Sequence[Job] = ()) -> Future[bool]:
        """Remove a job, count its end and store the jobs that follow, in one transaction.

        Returns:
            Future that resolves after the commit: False if another process has claimed the job,
            so that nothing was written.
        """
        return self._awaited(job, _End(None, count, then))

    def retry(self, job: Job, delay: float = 0.0) -> bool:
        """Give a job back to the file, for any process to claim after `delay` seconds.

        Returns:
            Whether the file has it.
        """
        if job.is_stored:
            self._change(job, _End(released_at=time.time() + delay))
        return job.is_stored

    def counts(self) -> Mapping[str, int]:
        """Return how the samples of all processes ended and how many wait; empty if unreadable."""
        return self._read(outbox_file.read_counts, {})

    def measured(self) -> tuple[int | None, int | None]:
        """Return samples and bytes in the file, of all processes; None if unreadable."""
        nothing: tuple[int | None, int | None] = (None, None)
        return self._read(outbox_file.read_size, nothing)

    def drain(self, timeout: float | None) -> bool:
        """Wait until all changes so far are on disk or given up; return whether they are."""
        with self._lock:
            if self._file is None or (self._thread is None and not self._dirty):
                return True
            if self._thread is None:
                return False
            self._asked = asked = self._asked + 1
            self._wake.set()
            self._changed.wait_for(lambda: self._has_ended or self._answered >= asked, timeout)
            return self._answered >= asked or (self._has_ended and not self._dirty)

    def close(self, timeout: float) -> None:
        """Write waiting changes, give all jobs back and end the thread."""
        self._is_closing = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _read(self, read: Callable[[Path], T], default: T) -> T:
        if self._file is None:
            return default
        try:
            return read(self._file.path)
        except FILE_ERRORS as error:
            self._incidents.report("spool", error)
            return default

    def _awaited(self, job: Job, end: _End | None = None) -> Future[bool]:
        written: Future[bool] = Future()
        self._change(job, end, written)
        return written

    def _change(
        self, job: Job, end: _End | None = None, written: Future[bool] | None = None
    ) -> None:
        """Note that a job differs from the file."""
        with self._lock:
            job.end, job.written = end or job.end, written or job.written
            if self._file is not None and not self._has_ended:
                self._dirty.setdefault(job, time.monotonic())
                self._wake.set()
                return
        job.resolve()

    def _run(self) -> None:
        while not self._is_closing:
            due = min(self._poll_at, self._retry_at) if self._dirty else self._poll_at
            is_woken = self._wake.wait(max(0.0, due - time.monotonic()))
            if is_woken and self._asked == self._answered:
                time.sleep(_GATHER_S)
            self._wake.clear()
            self._guarded(self._write_all)
            self._guarded(self._poll)
        self._asked += 1
        self._guarded(self._write_all)
        self._guarded(self._leave)
        with self._lock:
            self._has_ended = True
            self._changed.notify_all()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
            self._incidents.report("spool", error)

    def _write_all(self) -> None:
        asked = self._asked
        is_urgent = asked > self._answered
        if is_urgent or time.monotonic() >= self._retry_at:
            while self._dirty and self._commit():
                pass
        with self._lock:
            self._give_up(at_once=is_urgent)
            self._answered = asked
            self._changed.notify_all()

    def _commit(self) -> bool:
        """Write the oldest changes; return whether the next ones can follow."""
        assert self._file is not None
        with self._lock:
            batch = [(job, job.end, job.written) for job in islice(self._dirty, _MOST_JOBS)]
        inserts = [one for job, end, _ in batch for one in _inserts(job, end)]
        self._encode(inserts)
        try:
            with self._file.transaction():
                are_ours = [_sync(self._file, job, end) for job, end, _ in batch]
        except Exception as error:  # noqa: BLE001 - the file's edge: no job may be lost
            for job in inserts:
                job.row = job.row if job.is_stored else None
            return self._failed([job for job, _, _ in batch], error)
        self.is_stalled, self._retry_at, self._is_anew = False, 0.0, False
        with self._lock:
            for job, end, written in batch:
                self._note(job, end)
                if job.end is end and job.written is written:
                    del self._dirty[job]
        for (job, _, written), is_ours in zip(batch, are_ours, strict=True):
            if job.written is written:
                job.resolve(is_ours=is_ours)
        return True

    def _encode(self, jobs: Iterable[Job]) -> None:
        """Build the texts before the file is locked, once for all sinks of a result."""
        texts: dict[object, str] = {}
        for job in jobs:
            if job.encode is None or job.is_over or job.is_stored or job.text is not None:
                continue
            try:
                job.text = texts.get(job.encode) or job.encode()
                texts[job.encode] = job.text
            except Exception as error:  # noqa: BLE001 - it builds of the host's objects
                job.encode = None
                self._incidents.report("spool", error)
                with self._lock:
                    self._count_undurable(job)

    def _note(self, job: Job, end: _End | None) -> None:
        """Note that a change is on disk. Holds the lock."""
        for one in _inserts(job, end):
            one.is_stored = one.row is not None
            if one.is_stored:
                self._stored.add(one)
            elif one.text is not None and not one.is_over:
                self._incidents.count("spool: Full")
                self._count_undurable(job)
            one.text = None
        if end is not None:
            job.is_stored = False
            self._stored.discard(job)

    def _failed(self, jobs: Iterable[Job], error: Exception) -> bool:
        """Decide when to write again; return whether at once, into a new file."""
        self._incidents.report("spool", error)
        self._retry_at = time.monotonic() + (_BUSY_PAUSE_S if is_busy(error) else _ERROR_PAUSE_S)
        is_moved = isinstance(error, FileMovedError)
        if not (is_moved or is_busy(error)):
            # Nobody waits for a disk that fails; changes stay queued.
            self.is_stalled = True
            for job in jobs:
                job.resolve()
        if not (is_moved or is_damage(error)):
            return False
        is_first, self._is_anew = not self._is_anew, True
        self._begin_anew(is_damaged=not is_moved)
        return is_first

    def _begin_anew(self, *, is_damaged: bool) -> None:
        """Store the jobs that are in memory in a new file."""
        assert self._file is not None
        self._file.replace(is_damaged=is_damaged)
        stored, self._stored = self._stored, set()
        for job in stored:
            job.is_stored, job.row = False, None
            self._change(job)

    def _give_up(self, *, at_once: bool) -> None:
        """Keep overdue jobs in memory alone. Holds the lock."""
        late = time.monotonic() - PATIENCE_S
        for job, since in list(self._dirty.items()):
            if not job.is_stored and (at_once or since < late) and self._retry_at:
                del self._dirty[job]
                self._count_undurable(job)
                job.text = None
                job.resolve()

    def _count_undurable(self, job: Job) -> None:
        """Count a sample once, whichever of its writes failed. Holds the lock.

        A sample that ends before its first write needs no row; the write of its end may fail.
        """
        if job.is_put and not (job.is_stored or job.is_undurable):
            job.is_undurable = True
            self._undurable += 1

    def _poll(self) -> None:
        """Extend the lease, and claim jobs of dead processes up to the consumers' capacity."""
        if time.monotonic() < self._poll_at or self._is_closing or self._file is None:
            return
        self._poll_at = time.monotonic() + _POLL_S
        claimed = self._claimed(self._file) if self._file.exists else []
        for job in claimed:
            self._stored.add(job)
            if not self._consumers[job.consumer].take(job):
                self.retry(job)
        if claimed:
            self._poll_at = 0.0

    def _claimed(self, file: OutboxFile) -> list[Job]:
        rooms = {name: min(one.capacity(), _MOST_JOBS) for name, one in self._consumers.items()}
        try:
            with file.transaction():
                file.release_dead()
                found = [
                    _claimed_job(name, *row)
                    for name, most in rooms.items()
                    if most > 0
                    for row in file.claim(name, most)
                ]
                self._purge(file)
        except FileMovedError as error:
            self._incidents.report("spool", error)
            self._begin_anew(is_damaged=False)
            return []
        except FILE_ERRORS as error:
            if is_damage(error):
                self._begin_anew(is_damaged=True)
            raise
        return found

    def _purge(self, file: OutboxFile) -> None:
        if time.monotonic() < self._purge_at:
            return
        self._purge_at = time.monotonic() + _PURGE_S
        lost = file.purge(list(self._consumers), time.time() - limits.SINK_KEEP_SECONDS)
        self._incidents.count("spool, sink of other settings: Lost", lost)

    def _leave(self) -> None:
        if self._file is None or not self._file.exists:
            return
        with self._file.transaction():
            self._file.release_all()
        self._file.close()


def _inserts(job: Job, end: _End | None) -> Sequence[Job]:
    """Return the jobs that a change may insert."""
    is_done = end is not None and end.released_at is None
    return end.then if end is not None and is_done else (job,)


def _sync(file: OutboxFile, job: Job, end: _End | None) -> bool:
    """Write the state of a job; return whether the job was of this process."""
    if end is None:
        return _insert(file, job) if job.row is None else file.begin(job.row, job.tries)
    if end.released_at is not None:
        _insert(file, job)
        return file.release(job.row, end.released_at)
    if job.row is not None and not file.remove(job.row):
        return False
    if end.counted_as:
        file.count(end.counted_as)
    origin = job.row
    for following in end.then:
        _insert(file, following, origin)
        origin = origin or following.row
    return True


def _insert(file: OutboxFile, job: Job, origin: int | None = None) -> bool:
    # A job that was done before it could be stored needs no row.
    if job.row is None and job.text is not None and not job.is_over:
        job.row = file.insert(job.consumer, job.text, job.accepted, origin)
    return True


def _claimed_job(consumer: str, row: int, tries: Any, accepted: Any, text: Any) -> Job:
    # Anything may have changed the file: a row of other types is an unreadable one.
    if not (isinstance(tries, int) and isinstance(accepted, float) and isinstance(text, str)):
        tries, accepted, text = 0, 0.0, ""
    job = Job(consumer, text, lambda: text, accepted)
    job.row, job.tries, job.is_stored = row, tries, True
    return job
