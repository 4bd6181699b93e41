"""Batching of items that several callers submit at nearly the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from rag_eval_hooks.errors import JudgeError

__all__ = ["Batcher"]

I = TypeVar("I", bound=Hashable)  # noqa: E741 - item
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Job(Generic[I, R]):
    """Items of one caller, the future of their results, and the caller's context."""

    items: Sequence[I]
    results: asyncio.Future[list[R]]
    context: Context = field(default_factory=copy_context)


class Batcher(Generic[I, R]):
    """Collects the items of concurrent callers and runs them together, equal ones once.

    The first item waits for others at most `window` seconds; while as many batches as allowed
    are running, what comes in waits for the next one. A caller who is cancelled leaves the
    others' results alone. Each event loop has batches of its own, so that another loop, or a
    forked child with a loop of its own, can use the same object.

    Args:
        name: What errors call it.
        run: Gives one result per item, in order, or the error that this item alone causes.
        size: Items in a batch, more only when one caller has more.
        window: Seconds to wait for further items.
        concurrency: Batches that run at once.
        divisible: Whether an error may be the fault of a single item: then each caller's items
            are run again alone. Any other error goes to all callers of the batch.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Sequence[I]], Coroutine[Any, Any, Sequence[R | JudgeError]]],
        *,
        size: int,
        window: float = 0.003,
        concurrency: int = 1,
        divisible: Callable[[BaseException], bool] = lambda _: False,
    ) -> None:
        self.name = name
        self.run = run
        self.size = size
        self.window = window
        self.concurrency = concurrency
        self.divisible = divisible
        self._jobs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Jobs[I, R]] = WeakKeyDictionary()

    async def submit(self, items: Sequence[I]) -> list[R]:
        """Return one result per item, in order.

        Raises:
            JudgeError: The batcher was closed meanwhile.
            Exception: Whatever `run` raised for these items.
        """
        if not items:
            return []
        loop = asyncio.get_running_loop()
        queue = self._jobs.get(loop)
        if queue is None:
            queue = self._jobs[loop] = _Jobs(self)
        return await queue.submit(_Job(items, loop.create_future()))

    async def aclose(self) -> None:
        """Cancel what this event loop has running; its callers get a `JudgeError`."""
        queue = self._jobs.pop(asyncio.get_running_loop(), None)
        if queue is not None:
            await queue.aclose()


class _Jobs(Generic[I, R]):
    """The jobs of one event loop."""

    def __init__(self, batcher: Batcher[I, R]) -> None:
        self._batcher = batcher
        self._waiting: list[_Job[I, R]] = []
        self._running: set[asyncio.Task[Sequence[R | JudgeError]]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def submit(self, job: _Job[I, R]) -> list[R]:
        self._waiting.append(job)
        if sum(len(waiting.items) for waiting in self._waiting) >= self._batcher.size:
            self._next()
        elif self._timer is None and self._is_free():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._batcher.window, self._next)
        try:
            return await job.results
        finally:
            if job in self._waiting:
                self._waiting.remove(job)

    async def aclose(self) -> None:
        self._stop_timer()
        waiting, self._waiting = self._waiting, []
        self._fail(waiting, self._closed())
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _is_free(self) -> bool:
        return len(self._running) < self._batcher.concurrency

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _next(self) -> None:
        """Start waiting jobs, as far as the concurrency allows."""
        self._stop_timer()
        while self._waiting and self._is_free():
            jobs: list[_Job[I, R]] = []
            size = 0
            while self._waiting and size < self._batcher.size:
                jobs.append(self._waiting.pop(0))
                size += len(jobs[-1].items)
            self._start(jobs)

    def _start(self, jobs: Sequence[_Job[I, R]]) -> None:
        items = list(dict.fromkeys(item for job in jobs for item in job.items))
        # In the context of who came first, not of whose batch happened to end before.
        task = asyncio.get_running_loop().create_task(self._run(items), context=jobs[0].context)
        self._running.add(task)
        task.add_done_callback(partial(self._ended, jobs, items))

    async def _run(self, items: Sequence[I]) -> Sequence[R | JudgeError]:
        results = await self._batcher.run(items)
        if len(results) != len(items):
            raise JudgeError(f"{self._batcher.name}: {len(results)} results of {len(items)}")
        return results

    def _ended(
        self,
        jobs: Sequence[_Job[I, R]],
        items: Sequence[I],
        task: asyncio.Task[Sequence[R | JudgeError]],
    ) -> None:
        self._running.discard(task)
        error = self._closed() if task.cancelled() else task.exception()
        if error is None:
            self._deliver(jobs, dict(zip(items, task.result(), strict=True)))
        elif len(jobs) > 1 and self._batcher.divisible(error):
            for job in jobs:
                self._start([job])
        else:
            self._fail(jobs, error)
        if self._timer is None:
            self._next()

    def _deliver(self, jobs: Sequence[_Job[I, R]], results: dict[I, R | JudgeError]) -> None:
        for job in jobs:
            mine = [results[item] for item in job.items]
            errors = [result for result in mine if isinstance(result, JudgeError)]
            if errors:
                self._fail([job], errors[0])
            elif not job.results.done():
                job.results.set_result([one for one in mine if not isinstance(one, JudgeError)])

    def _fail(self, jobs: Sequence[_Job[I, R]], error: BaseException) -> None:
        for job in jobs:
            if not job.results.done():
                job.results.set_exception(error)

    def _closed(self) -> JudgeError:
        return JudgeError(f"{self._batcher.name}: closed before there was a result")
