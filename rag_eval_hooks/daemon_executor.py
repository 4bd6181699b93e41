"""Worker threads that never delay the exit of the process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import ParamSpec, TypeAlias, TypeVar

from rag_eval_hooks.forks import at_fork

__all__ = ["DaemonExecutor", "Threads"]

_Calls: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"
P = ParamSpec("P")
R = TypeVar("R")


class DaemonExecutor(Executor):
    """Daemon thread that runs calls in order; a forked child gets one of its own.

    The standard pools join their threads when the interpreter exits, so a sink that hangs or a
    model that is being loaded would keep the host application from ending. A daemon does not.

    Args:
        name: Name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._calls: _Calls = queue.SimpleQueue()
        self._renew_lock()
        at_fork(in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Queue a call; the future gets its result or exception."""
        future: Future[R] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                future.set_exception(error)

        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._calls.put(call)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after the calls queued so far, without waiting for them."""
        self._calls.put(None)

    def _start(self) -> None:
        self._calls = queue.SimpleQueue()
        thread = threading.Thread(target=_work, args=(self._calls,), name=self._name, daemon=True)
        thread.start()
        self._thread = thread


def _work(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        call()
        # What the call refers to must not live until the next one.
        del call


class Threads:
    """Daemon threads, started when they are needed.

    Args:
        name: Name of the threads.
        limit: Most threads. A call that outlives its time-out keeps its thread until it ends;
            a forked child has threads of its own.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._forget()
        # Threads do not survive a fork: busy ones would never become idle in the child.
        at_fork(in_child=self._forget)

    async def run(self, call: Callable[[], R]) -> R:
        """Make a call in a thread, in the caller's context.

        Raises:
            TimeoutError: Calls that hang hold every thread.
        """
        worker = self._idle.pop() if self._idle else self._start()
        idle = self._idle
        future = worker.submit(copy_context().run, call)
        future.add_done_callback(lambda _future: idle.append(worker))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """End the threads after their present calls; a later call starts new ones."""
        for worker in self._all:
            worker.shutdown()
        self._forget()

    def _forget(self) -> None:
        self._all: list[DaemonExecutor] = []
        self._idle: list[DaemonExecutor] = []

    def _start(self) -> DaemonExecutor:
        if len(self._all) >= self._limit:
            raise TimeoutError("every thread is held by a call that hangs")
        worker = DaemonExecutor(self._name)
        self._all.append(worker)
        return worker
