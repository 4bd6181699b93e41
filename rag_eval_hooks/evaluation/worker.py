"""A background thread that takes jobs from a bounded queue and runs the jobs in an event loop."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rag_eval_hooks.incidents import Incidents, without_exit

R = TypeVar("R")

CLOSED: Final = "This RagEval was shut down. Call shutdown() only when the process ends."
QUEUE_FULL: Final = "queue_full"


class Work(NamedTuple):
    run: Callable[[], Coroutine[Any, Any, None]]  # runs once in the event loop, and never raises
    end: Callable[[Exception], None]  # runs once, even if the work was cancelled before its start
    size: int | None = None  # number of characters, or None outside the queue


class _InlineCall(Generic[R]):
    def __init__(self, function: Callable[[], Awaitable[R]]) -> None:
        self._function = function
        self._is_over = False
        self.future: Future[R] = Future()

    async def run(self) -> None:
        try:
            result = await without_exit(self._function())
        except Exception as error:  # noqa: BLE001 - handed to the caller
            self.end(error)
        else:
            self._is_over = True
            self.future.set_result(result)

    def end(self, error: Exception) -> None:
        # Do not ask the future, because an interrupted caller may hold the future's lock.
        if not self._is_over:
            self._is_over = True
            self.future.set_exception(error)


class Worker:
    def __init__(
        self,
        *,
        on_close: Callable[[], Awaitable[None]],
        queue_size: int,
        queue_chars: int,
        concurrency: int,
        incidents: Incidents,
    ) -> None:
        self._on_close = on_close
        self._queue_size = queue_size
        self._queue_chars = queue_chars
        self._concurrency = concurrency
        self._incidents = incidents
        # While a thread starts, gevent runs other threads. Never hold the lock then.
        self._lock = threading.Lock()
        self._queue: deque[Work] = deque()
        self._calls: list[Work] = []
        self._reserved = self.waiting_chars = 0
        self._closed = self._stopping = self._woken = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._queue)

    def capacity(self) -> int:
        # Requests that come from the spool may fill half of the queue. New requests need the rest.
        if self._closed or 2 * self.waiting_chars > self._queue_chars:
            return 0
        return max(0, (self._queue_size + 1) // 2 - len(self._queue) - self._reserved)

    def reserve(self, size: int) -> str | None:
        """Reserve a place in the queue for one job, or return the reason for the refusal.

        If the result is None, the caller has the place, and must call `put` or `release`.
        """
        if self._thread is None and not (self._closed or self._start()):
            return "no_thread"
        with self._lock:
            if self._closed:
                return "shutdown"
            count = len(self._queue) + self._reserved
            is_too_large = count and self.waiting_chars + size > self._queue_chars
            if count >= self._queue_size or is_too_large:
                return QUEUE_FULL
            self._reserved += 1
            self.waiting_chars += size
        return None

    def release(self, size: int) -> None:
        with self._lock:
            self._reserved -= 1
            self.waiting_chars -= size

    def put(self, job: Work, *, reserved: bool = True) -> str | None:
        # Without a reservation, the job enters even if the queue is full or closed.
        with self._lock:
            self._reserved -= reserved
            if self._stopping:
                return "shutdown"
            self._queue.append(job)
            self.waiting_chars += 0 if reserved else job.size or 0
            self._wake()
        self._start()
        return None

    def run(self, function: Callable[[], Awaitable[R]]) -> R:
        # Wait with a plain lock, not with a future. If a signal handler raises while this thread
        # holds a future's lock, the loop waits for that lock forever.
        done = threading.Lock()
        done.acquire()
        future = self._call(function, done.release)
        done.acquire()
        return future.result()

    async def run_async(self, function: Callable[[], Awaitable[R]]) -> R:
        done, loop = asyncio.Event(), asyncio.get_running_loop()

        def on_done() -> None:
            # The caller's loop may be closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        future = self._call(function, on_done)
        await done.wait()
        return future.result()

    def _call(
        self, function: Callable[[], Awaitable[R]], on_done: Callable[[], object]
    ) -> Future[R]:
        call = _InlineCall(function)
        call.future.add_done_callback(lambda _: on_done())
        with self._lock:
            is_closed = self._closed
            if not is_closed:
                self._calls.append(Work(call.run, call.end))
                self._wake()
        if is_closed:
            call.end(RuntimeError(CLOSED))
        elif not self._start():
            self._give_up(RuntimeError("The system cannot start another thread."))
        return call.future

    def close(self) -> None:
        self._closed = True

    def stop(self, timeout: float) -> None:
        with self._lock:
            self._closed = self._stopping = True
            left = list(self._queue)
            self._queue.clear()
            thread = self._thread
            self._wake()
        for job in left:
            job.end(RuntimeError(CLOSED))
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def revive(self) -> None:
        # A timer calls this method, to start a thread if jobs wait and no thread runs.
        if not (self._queue or self._calls):
            return
        self._start()
        with self._lock:
            # The application's signal handler may have interrupted the last `_wake`.
            self._woken = False
            self._wake()

    def _start(self) -> bool:
        if self._thread is not None:
            return True
        try:
            threading.Thread(target=self._run, name="rag-eval-hooks", daemon=True).start()
        except RuntimeError as error:
            self._incidents.report("worker", error)
            return False
        return True

    def _wake(self) -> None:
        if self._loop is not None and not self._woken:
            self._woken = True
            # Jobs must not run in the context of an application's request.
            self._loop.call_soon_threadsafe(self._start_tasks, context=Context())

    def _run(self) -> None:
        with self._lock:
            if self._thread is not None:
                # Two callers started the thread at the same time.
                return
            self._thread = threading.current_thread()
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._main())
        except Exception as error:  # noqa: BLE001 - no caller would see the exception
            # Without file descriptors no loop can start. A timer retries.
            self._incidents.report("worker", error)
            self._give_up(error)
        finally:
            self._thread = None

    async def _main(self) -> None:
        self._stopped = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
        self._start_tasks()
        try:
            await self._stopped.wait()
        finally:
            for task in (tasks := list(self._tasks)):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._on_close()
            with self._lock:
                self._loop = None
            self._give_up(RuntimeError(CLOSED))

    def _give_up(self, error: Exception) -> None:
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            call.end(error)

    def _start_tasks(self) -> None:
        with self._lock:
            self._woken = False
            if self._stopping:
                self._stopped.set()
            started, self._calls = self._calls, []
            while self._queue and self._running < self._concurrency:
                started.append(job := self._queue.popleft())
                self.waiting_chars -= job.size or 0
                self._running += 1
        for one in started:
            self._tasks.add(task := asyncio.create_task(one.run()))
            task.add_done_callback(partial(self._finish, one))

    def _finish(self, job: Work, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._running -= job.size is not None
        self._start_tasks()
        job.end(RuntimeError(CLOSED))


def _new_loop() -> asyncio.AbstractEventLoop:
    # Raise here without free descriptors. asyncio would print a traceback of an incomplete loop.
    with selectors.DefaultSelector():
        for end in socket.socketpair():
            end.close()
    return asyncio.new_event_loop()
