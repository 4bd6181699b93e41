"""Background thread with an event loop that works off a bounded queue."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from rag_eval_hooks.incidents import without_exit

__all__ = ["CLOSED", "QUEUE_FULL", "Evaluator"]

W = TypeVar("W")
R = TypeVar("R")

CLOSED = "rag_eval_hooks was shut down"
QUEUE_FULL = "queue_full"
_LONGEST_TURN = 0.005
"""Seconds for which a worker may keep the event loop busy with items that never suspend."""


class Evaluator(Generic[W]):
    """Runs an async function over submitted items, several at once, in a thread of its own.

    The thread starts with the first item and is a daemon, so it never keeps a process alive.

    Args:
        work: Called once per item in the evaluator's loop; handles its own exceptions.
        on_end: Called once per item when its work is over, also when it was cancelled before it
            began.
        on_close: Awaited in the loop before it ends.
        queue_size: Items that may wait.
        queue_chars: Sum of their sizes that may wait.
        concurrency: Items worked on at once.
    """

    def __init__(
        self,
        work: Callable[[W], Coroutine[Any, Any, None]],
        *,
        on_end: Callable[[W], None],
        on_close: Callable[[], Awaitable[None]],
        queue_size: int,
        queue_chars: int,
        concurrency: int,
    ) -> None:
        self._work = work
        self._on_end = on_end
        self._on_close = on_close
        self._queue_size = queue_size
        self._queue_chars = queue_chars
        self._concurrency = concurrency
        self._queue: deque[tuple[W, int]] = deque()
        self._reserved = 0
        self._waiting_chars = 0
        self._lock = threading.Lock()
        self._closed = False
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._forget_loop()

    def _forget_loop(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._wake_event = asyncio.Event()
        self._woken = False
        self._calls: set[_LoopCall[Any]] = set()

    def capacity(self) -> int:
        """Return how many more items may wait of those that can wait elsewhere.

        They get half of the queue, by number and by text: the rest is for what has no other place.
        """
        if self._closed or 2 * self._waiting_chars > self._queue_chars:
            return 0
        return max(0, (self._queue_size + 1) // 2 - len(self._queue) - self._reserved)

    def reserve(self, size: int) -> str | None:
        """Reserve a slot for an item. O(1), never waits for the evaluator.

        Args:
            size: Characters that the item keeps in memory.

        Returns:
            None if `put` may follow, else the reason of the refusal: `shutdown`, `queue_full` or
            `no_thread`.
        """
        with self._lock:
            if self._closed:
                return "shutdown"
            if self._is_full(size):
                return QUEUE_FULL
            try:
                self._start()
            except RuntimeError:
                # The system has no thread left for us, or the interpreter is ending.
                return "no_thread"
            self._reserved += 1
            self._waiting_chars += size
        return None

    def put(self, item: W, size: int, *, reserved: bool = True) -> str | None:
        """Queue an item.

        Args:
            item: The item to work on.
            size: Characters that it keeps in memory, as reserved.
            reserved: Whether it has a slot. An item without one was promised before: it is queued
                even if the queue is full, and after `close`.

        Returns:
            None if it is queued, else `shutdown` or `no_thread`.
        """
        with self._lock:
            if reserved:
                self._reserved -= 1
                self._waiting_chars -= size
            if self._stopping:
                return "shutdown"
            try:
                self._start()
            except RuntimeError:
                return "no_thread"
            self._queue.append((item, size))
            self._waiting_chars += size
            self._wake()
        return None

    def _is_full(self, size: int) -> bool:
        count = len(self._queue) + self._reserved
        too_large = count and self._waiting_chars + size > self._queue_chars
        return count >= self._queue_size or bool(too_large)

    def __len__(self) -> int:
        """Return the number of waiting items."""
        return len(self._queue)

    @property
    def waiting_chars(self) -> int:
        """Sum of the sizes of items that wait."""
        return self._waiting_chars

    def run(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Run a coroutine in the evaluator's loop, beside the queue.

        Returns:
            Its future; it gets a RuntimeError when the evaluator ends before it is done.

        Raises:
            RuntimeError: The evaluator has stopped.
        """
        with self._lock:
            if not self._closed:
                self._start()
        self._ready.wait(None if not self._closed else 0)
        with self._lock:
            if self._closed or self._loop is None:
                coroutine.close()
                raise RuntimeError(CLOSED)
            call = _LoopCall(coroutine)
            self._calls.add(call)
            call.future.add_done_callback(lambda _: self._calls.discard(call))
            self._loop.call_soon_threadsafe(call.start)
        return call.future

    def close(self) -> None:
        """Refuse further items; those accepted are still worked on."""
        with self._lock:
            self._closed = True

    def stop(self, timeout: float) -> None:
        """End the thread: cancel work in flight and end what was never started.

        Args:
            timeout: Seconds to wait for the thread.
        """
        with self._lock:
            self._closed = self._stopping = True
            left = [item for item, _ in self._queue]
            self._queue.clear()
            thread = self._thread
            self._wake()
        for item in left:
            self._on_end(item)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._forget_loop()
            thread = threading.Thread(target=self._run_loop, name="rag-eval-hooks", daemon=True)
            thread.start()
            self._thread = thread

    def _wake(self) -> None:
        """Wake the loop, once for all items that are queued before it looks again."""
        if self._loop is not None and not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._wake_event.set)

    def _run_loop(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._wake_event.set()
        with self._lock:
            self._loop = asyncio.get_running_loop()
        self._ready.set()
        workers: set[asyncio.Task[None]] = set()
        try:
            while not self._stopping:
                await self._wake_event.wait()
                self._start_workers(workers)
        finally:
            await self._finish(workers)

    async def _finish(self, workers: set[asyncio.Task[None]]) -> None:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await self._on_close()
        with self._lock:
            self._loop = None
            calls = list(self._calls)
        for call in calls:
            call.give_up()

    def _start_workers(self, workers: set[asyncio.Task[None]]) -> None:
        """Start as many workers as there are items, up to the concurrency."""
        with self._lock:
            self._woken = False
            self._wake_event.clear()
            missing = min(self._concurrency - len(workers), len(self._queue))
        for _ in range(missing):
            task = asyncio.create_task(self._work_off())
            workers.add(task)
            task.add_done_callback(workers.discard)
            # An item may have come after the worker's last look at the queue.
            task.add_done_callback(lambda _: self._wake_event.set())

    async def _work_off(self) -> None:
        """Work on items until none waits.

        One task for many items: a task for each costs more than a small metric.
        """
        loop = asyncio.get_running_loop()
        yield_at = loop.time() + _LONGEST_TURN
        while (item := self._next()) is not None:
            try:
                await self._work(item)
            finally:
                self._on_end(item)
            if loop.time() >= yield_at:
                # An item may never suspend; timers and inline evaluations must not starve.
                await asyncio.sleep(0)
                yield_at = loop.time() + _LONGEST_TURN

    def _next(self) -> W | None:
        with self._lock:
            if self._stopping or not self._queue:
                return None
            item, size = self._queue.popleft()
            self._waiting_chars -= size
            return item


class _LoopCall(Generic[R]):
    """A coroutine to be run in the loop for a caller in another thread."""

    def __init__(self, coroutine: Coroutine[Any, Any, R]) -> None:
        self.future: Future[R] = Future()
        self._coroutine = coroutine
        self._task: asyncio.Task[R] | None = None

    def start(self) -> None:
        self._task = asyncio.ensure_future(without_exit(self._coroutine))
        self._task.add_done_callback(self._pass_on)

    def give_up(self) -> None:
        """Fail a call that the loop will not get to."""
        if self._task is None:
            self._coroutine.close()
        else:
            self._task.cancel()
        if not self.future.done():
            self.future.set_exception(RuntimeError(CLOSED))

    def _pass_on(self, task: asyncio.Task[R]) -> None:
        if self.future.done():
            return
        if task.cancelled():
            self.future.set_exception(RuntimeError(CLOSED))
        elif (error := task.exception()) is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())
