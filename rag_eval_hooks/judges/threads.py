"""Threads for blocking calls, which never delay the exit of the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import TypeVar

from rag_eval_hooks.daemon_executor import DaemonExecutor
from rag_eval_hooks.forks import at_fork

__all__ = ["Threads"]

T = TypeVar("T")


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

    async def run(self, call: Callable[[], T]) -> T:
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
