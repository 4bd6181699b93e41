"""The background thread with its event loop: takes work from a bounded queue, never blocks it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

__all__ = ["Evaluator"]

W = TypeVar("W")
R = TypeVar("R")

_TICK = 0.25


class Evaluator(Generic[W]):
    """Runs an async function over submitted items, several at once, in a thread of its own.

    The thread starts with the first item and is a daemon, so it never keeps a process alive.

    Args:
        work: Called once per item in the evaluator's loop; handles its own exceptions.
        on_tick: Called every quarter of a second in the loop, for time limits.
        on_close: Awaited in the loop before it ends.
        queue_size: Items that may wait.
        concurrency: Items worked on at once.
    """

    def __init__(
        self,
        work: Callable[[W], Awaitable[None]],
        *,
        on_tick: Callable[[], None],
        on_close: Callable[[], Awaitable[None]],
        queue_size: int,
        concurrency: int,
    ) -> None:
        self._work = work
        self._on_tick = on_tick
        self._on_close = on_close
        self._queue_size = queue_size
        self._concurrency = concurrency
        self._queue: deque[W] = deque()
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

    def submit(self, item: W) -> str | None:
        """Queues an item. O(1), never waits for the evaluator.

        Returns:
            None when the item is taken, else why not: `shutdown`, `queue_full` or `no_thread`.
        """
        with self._lock:
            if self._closed:
                return "shutdown"
            if len(self._queue) >= self._queue_size:
                return "queue_full"
            try:
                self._start()
            except RuntimeError:
                # The system has no thread left for us, or the interpreter is ending.
                return "no_thread"
            self._queue.append(item)
            self._wake()
        return None

    def run(self, coroutine: Coroutine[Any, Any, R]) -> Future[R]:
        """Runs a coroutine in the evaluator's loop, beside the queue.

        Raises:
            RuntimeError: The evaluator has stopped.
        """
        with self._lock:
            if self._closed:
                coroutine.close()
                raise RuntimeError("rag_eval_hooks was shut down")
            self._start()
        self._ready.wait()
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Takes no more items; those taken are still worked on."""
        with self._lock:
            self._closed = True

    def stop(self, timeout: float) -> list[W]:
        """Ends the thread; work in flight is cancelled.

        Args:
            timeout: Seconds to wait for the thread.

        Returns:
            The items that were never begun.
        """
        with self._lock:
            self._closed = self._stopping = True
            left = list(self._queue)
            self._queue.clear()
            thread = self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return left

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._forget_loop()
            thread = threading.Thread(target=self._run_loop, name="rag-eval-hooks", daemon=True)
            thread.start()
            self._thread = thread

    def _wake(self) -> None:
        """One wake-up covers all items queued before the loop looks again."""
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
        ticker = asyncio.create_task(self._tick())
        running: set[asyncio.Task[None]] = set()
        try:
            while not self._stopping:
                await self._wake_event.wait()
                self._take(running)
        finally:
            for task in (ticker, *running):
                task.cancel()
            await asyncio.gather(ticker, *running, return_exceptions=True)
            await self._on_close()
            with self._lock:
                self._loop = None

    def _take(self, running: set[asyncio.Task[None]]) -> None:
        """Starts as many items as there is room for."""
        with self._lock:
            self._woken = False
            self._wake_event.clear()
            room = self._concurrency - len(running)
            items = [self._queue.popleft() for _ in range(min(room, len(self._queue)))]
        for item in items:
            task = asyncio.ensure_future(self._one(item))
            running.add(task)
            task.add_done_callback(lambda done: self._done(done, running))

    async def _one(self, item: W) -> None:
        await self._work(item)

    def _done(self, task: asyncio.Task[None], running: set[asyncio.Task[None]]) -> None:
        running.discard(task)
        self._wake_event.set()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            self._on_tick()
