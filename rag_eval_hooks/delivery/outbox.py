"""Outbox: samples to evaluate and results to deliver, kept in one SQLite file if there is a spool.

A job is one sample for the evaluator or one result for one sink. Its process works on it from
memory; the file mirrors it, under a lease that the process keeps extending. Once the lease of a
process that died runs out, another process claims its jobs.

All SQL runs in one thread. Nothing here blocks or raises: whatever happens to the disk, a job that
cannot be stored stays in memory.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.outbox_file import EVALUATE, FileMovedError, OutboxFile
from rag_eval_hooks.delivery.outbox_reader import read_counts
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sqlite_file import FILE_ERRORS, is_busy, is_damage

__all__ = ["PATIENCE_S", "Consumer", "Job", "Outbox"]

PATIENCE_S: Final = 2.0
"""Seconds after which a sample that could not be stored counts as undurable."""
_GATHER_S: Final = 0.01
"""Seconds in which writes gather for one transaction; an accepted sample has 50 ms."""
_MOST_WRITES: Final = 256
"""Writes in one transaction."""
_POLL_S: Final = 1.0
"""Seconds between two looks for jobs that no living process has."""
_PURGE_S: Final = 60.0
"""Seconds between two removals of old results for sinks of other settings."""
_FIRST_POLL_S: Final = 2.0
"""Seconds before the first look; a process that forks meanwhile leaves them to its children."""
_BUSY_PAUSE_S: Final = 0.1
_ERROR_PAUSE_S: Final = 2.0
"""Seconds between two writes to a file that another process holds, and to one that fails."""


class Job:
    """One sample to evaluate, or one result for one sink.

    Args:
        consumer: `EVALUATE`, or the key of a sink.
        payload: The sample or result; of a claimed job, its text in the file.
        encode: Returns the text to store, called in the outbox's thread; None keeps the job out
            of the file.
        accepted: Acceptance of the sample in seconds since the epoch.
    """

    __slots__ = (
        "accepted",
        "consumer",
        "encode",
        "is_over",
        "is_put",
        "is_stored",
        "is_undurable",
        "payload",
        "row",
        "text",
        "then",
        "tries",
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
        self.row: int | None = None
        self.text: str | None = None
        self.is_stored = self.is_over = self.is_put = self.is_undurable = False
        self.then: Sequence[Job] = ()


@dataclass(frozen=True, slots=True)
class Consumer:
    """Taker of the jobs that no living process has; called in the outbox's thread.

    Attributes:
        capacity: Returns how many jobs it can take now.
        take: Takes a claimed job; False leaves it in the file.
    """

    capacity: Callable[[], int]
    take: Callable[[Job], bool]


@dataclass(slots=True, eq=False)
class _Write:
    """A change of the file: jobs to insert, and what else to run."""

    number: int
    job: Job
    run: Callable[[OutboxFile], bool]
    inserts: Sequence[Job]
    ends: bool
    done: Future[bool]
    since: float
    is_ours: bool = True

    @property
    def is_put(self) -> bool:
        return bool(self.inserts) and self.inserts[0] is self.job

    def resolve(self) -> None:
        # The caller may have run out of patience and cancelled the future.
        with suppress(InvalidStateError):
            self.done.set_result(self.is_ours)


class Outbox:
    """Jobs of one process, and those that other processes left. Thread-safe.

    Args:
        path: Folder of the spool, or None to keep jobs in memory alone.
        max_bytes: Size of the file above which no new sample is stored.
        incidents: Counts failures.
    """

    def __init__(self, path: Path | None, *, max_bytes: int, incidents: Incidents) -> None:
        self.path = path
        self.is_stalled = False
        self._incidents = incidents
        self._file = None if path is None else OutboxFile(path, max_bytes)
        self._consumers: dict[str, Consumer] = {}
        self._lock = threading.Lock()
        self._writes: deque[_Write] = deque()
        self._stored: set[Job] = set()
        self._wake = threading.Event()
        self._written = threading.Condition(self._lock)
        self._added = self._tried = self._undurable = 0
        self._hurry = self._is_closing = self._has_ended = False
        self._retry_at = self._poll_at = self._purge_at = 0.0
        self._is_measured = False
        self._measured: tuple[int, int] | tuple[None, None] = (None, None)
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
            waiting = [one for one in self._writes if one.is_put and one.since < late]
            return self._undurable + sum(not one.job.is_undurable for one in waiting)

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
        self._write(job, lambda file: _insert(file, job), inserts=(job,))

    def begin(self, job: Job) -> Future[bool]:
        """Count a try of a claimed job before it is worked on, as that may end this process."""
        job.tries += 1
        return self._write(job, lambda file: file.begin(job.row))

    def done(self, job: Job, count: str = "", then: Sequence[Job] = ()) -> Future[bool]:
        """Remove a job, count its end and store the jobs that follow, in one transaction.

        Returns:
            Future that resolves after the commit: False if another process has claimed the job,
            so that nothing was written.
        """

        def run(file: OutboxFile) -> bool:
            if job.row is not None and not file.remove(job.row):
                return False
            if count:
                file.count(count)
            origin = job.row
            for following in then:
                _insert(file, following, origin)
                origin = origin or following.row
            return True

        job.is_over = True
        return self._write(job, run, inserts=then, ends=True)

    def retry(self, job: Job, delay: float = 0.0) -> bool:
        """Give a job back to the file, for any process to claim after `delay` seconds.

        Returns:
            Whether the file has it.
        """
        if not job.is_stored:
            return False
        due = time.time() + delay
        self._write(job, lambda file: file.release(job.row, due), ends=True)
        return True

    def counts(self) -> Mapping[str, int]:
        """Return how the samples of all processes ended and how many wait; empty if unreadable."""
        if self._file is None:
            return {}
        try:
            return read_counts(self._file.path)
        except FILE_ERRORS as error:
            self._incidents.report("spool", error)
            return {}

    def measured(self) -> tuple[int, int] | tuple[None, None]:
        """Return samples and bytes in the file, of all processes, at most seconds old."""
        self._is_measured = True
        return self._measured

    def drain(self, timeout: float | None) -> bool:
        """Wait until all writes so far are on disk or given up; return whether they are."""
        if self._file is None:
            return True
        with self._lock:
            last = self._added
            if self._thread is None:
                return last == 0
            self._hurry = True
            self._wake.set()
            self._written.wait_for(lambda: self._has_ended or self._tried >= last, timeout)
            return self._tried >= last

    def close(self, timeout: float) -> None:
        """Write what waits, give all jobs back and end the thread."""
        self._is_closing = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _write(
        self,
        job: Job,
        run: Callable[[OutboxFile], bool],
        *,
        inserts: Sequence[Job] = (),
        ends: bool = False,
    ) -> Future[bool]:
        with self._lock:
            write = _Write(self._added + 1, job, run, inserts, ends, Future(), time.monotonic())
            if self._file is not None and not self._has_ended:
                self._added += 1
                self._writes.append(write)
                self._wake.set()
                return write.done
        write.resolve()
        return write.done

    def _run(self) -> None:
        while not self._is_closing:
            due = min(self._poll_at, self._retry_at) if self._writes else self._poll_at
            if self._wake.wait(max(0.0, due - time.monotonic())) and not self._hurry:
                time.sleep(_GATHER_S)
            self._wake.clear()
            self._guarded(self._write_all)
            self._guarded(self._poll)
        self._hurry = True
        self._guarded(self._write_all)
        self._guarded(self._leave)
        with self._lock:
            self._has_ended = True
            self._written.notify_all()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread's edge: nobody else would know
            self._incidents.report("spool", error)

    def _write_all(self) -> None:
        hurry, self._hurry = self._hurry, False
        is_written = hurry or time.monotonic() >= self._retry_at
        while is_written and (batch := self._next_batch()):
            is_written = self._commit(batch)
        with self._lock:
            if not is_written:
                self._give_up(at_once=hurry)
            self.is_stalled = self.is_stalled and not is_written
            first = self._writes[0].number - 1 if self._writes else self._added
            self._tried = self._added if hurry else first
            self._written.notify_all()

    def _next_batch(self) -> list[_Write]:
        with self._lock:
            most = min(_MOST_WRITES, len(self._writes))
            batch = [self._writes.popleft() for _ in range(most)]
        texts: dict[int, str] = {}
        for write in batch:
            for job in write.inserts:
                self._encode(job, texts)
        return batch

    def _encode(self, job: Job, texts: dict[int, str]) -> None:
        """Build the text before the file is locked, once for all sinks of a result."""
        if job.encode is None or job.is_over or job.text is not None:
            return
        try:
            job.text = texts.get(id(job.payload)) or job.encode()
            texts[id(job.payload)] = job.text
        except Exception as error:  # noqa: BLE001 - it builds of the host's objects
            job.encode = None
            self._incidents.report("spool", error)

    def _commit(self, batch: list[_Write]) -> bool:
        """Write a batch; what fails is tried again later. Returns whether it is on disk."""
        assert self._file is not None
        try:
            with self._file.transaction():
                for write in batch:
                    write.is_ours = write.run(self._file)
        except (FileMovedError, *FILE_ERRORS) as error:
            self._failed(batch, error)
            return False
        self._retry_at = 0.0
        for write in batch:
            self._note(write)
            write.resolve()
        return True

    def _note(self, write: _Write) -> None:
        """Note what is on disk now."""
        for job in write.inserts:
            job.is_stored, job.text = job.row is not None, None
            if job.is_stored:
                self._stored.add(job)
            elif job.encode is not None and not job.is_over:
                self._lacks(write.job)
                self._incidents.count("spool: Full")
        if write.ends:
            write.job.is_stored = False
            self._stored.discard(write.job)

    def _failed(self, batch: list[_Write], error: Exception) -> None:
        self._incidents.report("spool", error)
        is_moved = isinstance(error, FileMovedError)
        for write in batch:
            for job in write.inserts:
                job.row = job.row if job.is_stored else None
        with self._lock:
            self._writes.extendleft(reversed(batch))
        if not (is_moved or is_busy(error)):
            # Nobody waits for a disk that fails; what must be on disk stays queued.
            self.is_stalled = True
            for write in batch:
                write.resolve()
        pause = 0.0 if is_moved else _BUSY_PAUSE_S if is_busy(error) else _ERROR_PAUSE_S
        self._retry_at = time.monotonic() + pause
        if is_moved or is_damage(error):
            self._begin_anew(is_damaged=not is_moved)

    def _begin_anew(self, *, is_damaged: bool) -> None:
        """Store what is in memory in a new file."""
        assert self._file is not None
        self._file.replace(is_damaged=is_damaged)
        self._retry_at = 0.0
        stored, self._stored = self._stored, set()
        for job in stored:
            job.is_stored, job.row = False, None
            if not job.is_over:
                self.put(job)

    def _give_up(self, *, at_once: bool) -> None:
        """Drop the writes about jobs that are not on disk, after their time. Holds the lock."""
        late = time.monotonic() - PATIENCE_S
        kept: deque[_Write] = deque()
        for write in self._writes:
            if write.job.is_stored or not (at_once or write.since < late):
                kept.append(write)
                continue
            self._lacks(write.job)
            write.resolve()
        self._writes = kept

    def _lacks(self, job: Job) -> None:
        """Count a sample once, whichever of its writes failed: that of its text or of its end."""
        if job.is_put and job.consumer == EVALUATE and not (job.is_stored or job.is_undurable):
            job.is_undurable = True
            self._undurable += 1

    def _poll(self) -> None:
        """Claim what no living process has, as far as the consumers have capacity."""
        if time.monotonic() < self._poll_at or self._is_closing or self._file is None:
            return
        self._poll_at = time.monotonic() + _POLL_S
        claimed = self._looked(self._file) if self._file.exists else []
        for job in claimed:
            self._stored.add(job)
            if not self._consumers[job.consumer].take(job):
                self.retry(job)
        if claimed:
            self._poll_at = 0.0

    def _looked(self, file: OutboxFile) -> list[Job]:
        try:
            claimed = self._claim(file)
            if self._is_measured:
                self._measured = file.measure()
        except FileMovedError as error:
            self._incidents.report("spool", error)
            self._begin_anew(is_damaged=False)
        except FILE_ERRORS as error:
            if is_damage(error):
                self._begin_anew(is_damaged=True)
            raise
        else:
            return claimed
        return []

    def _claim(self, file: OutboxFile) -> list[Job]:
        room = {name: one.capacity() for name, one in self._consumers.items()}
        open_to = [name for name, most in room.items() if most > 0]
        beats = bool(self._stored) and file.beats_late
        purges = time.monotonic() >= self._purge_at
        if not beats and not purges and not file.claimable(open_to):
            return []
        found = []
        with file.transaction():
            file.release_dead()
            if purges:
                oldest = time.time() - limits.SINK_KEEP_SECONDS
                lost = file.purge(list(self._consumers), oldest)
                self._incidents.count("spool, sink of other settings: Lost", lost)
                self._purge_at = time.monotonic() + _PURGE_S
            for name in open_to:
                found += [(name, row) for row in file.claim(name, min(room[name], _MOST_WRITES))]
        return [_claimed(name, *row) for name, row in found]

    def _leave(self) -> None:
        if self._file is None or not self._file.exists:
            return
        with self._file.transaction():
            self._file.release_all()
        self._file.close()


def _insert(file: OutboxFile, job: Job, origin: int | None = None) -> bool:
    # A job that was done before it could be stored needs no row.
    if job.text is not None and not job.is_over:
        job.row = file.insert(job.consumer, job.text, job.accepted, origin)
    return True


def _claimed(consumer: str, row: int, tries: Any, accepted: Any, text: Any) -> Job:
    # Anything may have changed the file: a row of other types is an unreadable one.
    if not (isinstance(tries, int) and isinstance(accepted, float) and isinstance(text, str)):
        tries, accepted, text = 0, 0.0, ""
    job = Job(consumer, text, lambda: text, accepted)
    job.row, job.tries, job.is_stored = row, tries, True
    return job
