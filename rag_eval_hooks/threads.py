"""Daemon threads and fork hooks."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from types import MethodType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

_Methods: TypeAlias = dict[int, tuple[weakref.ref[Any], Callable[[Any], None]]]
_ERROR_PAUSE_S: Final = 0.25
_FULL_PAUSE_S: Final = 0.05
P = ParamSpec("P")
R = TypeVar("R")

# Python cannot unregister fork hooks, so all objects share one hook.
_BEFORE: Final[_Methods] = {}
_IN_PARENT: Final[_Methods] = {}
_IN_CHILD: Final[_Methods] = {}
_NUMBERS: Final = itertools.count()


def at_fork(
    *,
    before: Callable[[], None] | None = None,
    in_parent: Callable[[], None] | None = None,
    in_child: Callable[[], None] | None = None,
) -> None:
    """Register bound methods that run at every fork, without keeping their object alive."""
    for methods, method in ((_BEFORE, before), (_IN_PARENT, in_parent), (_IN_CHILD, in_child)):
        if isinstance(method, MethodType):
            # Remove collected objects here, because a weak-reference callback would swallow a
            # signal handler's exception.
            for number in [number for number, (owner, _) in [*methods.items()] if owner() is None]:
                methods.pop(number, None)
            methods[next(_NUMBERS)] = weakref.ref(method.__self__), method.__func__


def _call(methods: _Methods, *, last_first: bool = False) -> None:
    # Copy the values, because other threads may add objects. Use no lock, because a forked child
    # could inherit a held lock.
    current = tuple(methods.values())
    # `ExitStack` calls all hooks in reverse order, even if a hook raises.
    with contextlib.ExitStack() as calls:
        for reference, function in current if last_first else reversed(current):
            if (owner := reference()) is not None:
                calls.callback(function, owner)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=partial(_call, _BEFORE, last_first=True),
        after_in_parent=partial(_call, _IN_PARENT),
        after_in_child=partial(_call, _IN_CHILD),
    )


class _Crew:
    def __init__(self, lock: threading.Lock) -> None:
        self.calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.lock = lock
        self.threads = self.unfinished = 0

    def work(self) -> None:
        while (call := self.calls.get()) is not None:
            call()
            # Release the call's objects before the next call.
            del call
            with self.lock:
                self.unfinished -= 1


class DaemonExecutor:
    """Runs calls on daemon threads. Python's own thread pools wait at exit for a hanging call."""

    def __init__(self, name: str, limit: int = 1) -> None:
        self._name, self._limit = name, limit
        self._is_shut_down = False
        self._renew()
        at_fork(in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        # gevent may replace the queue's class after the import.
        self._crew: _Crew | None = None

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: Future[R] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - the caller gets the exception
                    future.set_exception(error)

        with self._lock:
            if self._is_shut_down:
                raise RuntimeError(f"The executor {self._name!r} was shut down.")
            crew = self._crew = self._crew or _Crew(self._lock)
            crew.unfinished += 1
            crew.calls.put(call)
            is_short = crew.threads < min(crew.unfinished, self._limit)
            crew.threads += is_short
        if is_short:
            try:
                threading.Thread(target=crew.work, name=self._name, daemon=True).start()
            except BaseException:
                # The caller gets an exception, so the queued call must not run.
                future.cancel()
                with self._lock:
                    crew.threads -= 1
                raise
        return future

    async def run(self, call: Callable[[], R]) -> R:
        # Hanging calls keep their threads. The caller's timeout limits the wait.
        while self._crew is not None and self._crew.unfinished >= 2 * self._limit:
            await asyncio.sleep(_FULL_PAUSE_S)
        return await asyncio.wrap_future(self.submit(copy_context().run, call))

    def release(self) -> None:
        with self._lock:
            crew, self._crew = self._crew, None
            if crew is not None:
                for _ in range(crew.threads):
                    crew.calls.put(None)

    def shutdown(self) -> None:
        self._is_shut_down = True
        self.release()


class Loop:
    """Repeats `step` on a daemon thread. `step` returns the pause in seconds, or None to end."""

    def __init__(
        self, name: str, step: Callable[[], float | None], on_error: Callable[[Exception], None]
    ) -> None:
        self._name, self._step, self._on_error = name, step, on_error
        # A signal handler that raises inside `threading.Event` could leave its inner lock held.
        # The thread holds `_owned`. `wake` releases `_sleep`, and the loop's end releases `_over`.
        self._owned, self._sleep, self._over = (threading.Lock() for _ in range(3))
        self._sleep.acquire()
        self._over.acquire()
        # One lock per waiting caller of `ask`.
        self._asking: deque[threading.Lock] = deque()
        self._thread_id = 0
        self._is_started = self.is_asked = self._is_over = False

    @property
    def is_running(self) -> bool:
        return self._is_started and not self._is_over

    @property
    def is_current(self) -> bool:
        return self._thread_id == threading.get_ident()

    def start(self) -> bool:
        if not self._is_started:
            self._is_started = True
            try:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            except BaseException as error:
                self._is_started = False
                self._answer(len(self._asking))
                if not isinstance(error, RuntimeError):
                    raise
                self._on_error(error)
        return self._is_started

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._sleep.release()

    def ask(self, timeout: float) -> bool:
        """Run the next step now and wait for its end. Return False on timeout."""
        turn = threading.Lock()
        turn.acquire()
        self._asking.append(turn)
        self.wake()
        if self._is_over:
            self._answer(len(self._asking))
        return turn.acquire(timeout=max(0.0, timeout))

    def join(self, timeout: float) -> None:
        if self._is_started and not self.is_current and self._over.acquire(timeout=max(0, timeout)):
            self._over.release()

    def _run(self) -> None:
        if not self._owned.acquire(blocking=False):
            # Two callers have started a thread at the same time.
            return
        self._thread_id = threading.get_ident()
        pause: float | None = 0.0
        while pause is not None:
            self._sleep.acquire(timeout=max(0.0, pause))
            asking = len(self._asking)
            self.is_asked = asking > 0
            try:
                pause = self._step()
            except Exception as error:  # noqa: BLE001 - no caller would see the error
                pause = _ERROR_PAUSE_S
                self._on_error(error)
            if asking:
                self._answer(asking)
        self._is_over = True
        self._answer(len(self._asking))
        self._over.release()

    def _answer(self, count: int) -> None:
        for _ in range(count):
            with contextlib.suppress(IndexError):
                self._asking.popleft().release()
