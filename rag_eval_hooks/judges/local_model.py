"""Runs a local model outside the event loop, in a child process or on a thread."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.config.sources import model_environment
from rag_eval_hooks.errors import JudgeError, JudgeUnavailable
from rag_eval_hooks.judges.model_calls import observed_call
from rag_eval_hooks.threads import DaemonExecutor, at_fork

I = TypeVar("I", bound=Hashable)  # noqa: E741 - item
R = TypeVar("R")
Run: TypeAlias = Callable[[Sequence[I]], Sequence[R]]  # returns one result per item, in order
Load: TypeAlias = Callable[[], Run[I, R]]  # must be picklable for a child process

_logger = logging.getLogger("rag_eval_hooks")
LOAD_TIMEOUT_S: Final = 600.0  # maximum seconds to start the interpreter and load the model
REPLY_TIMEOUT_S = 300.0
_CLOSE_TIMEOUT_S: Final = 1.0  # seconds for which close waits for the running batch
_MOST_ENDS: Final = 5  # this many exits within `_ENDS_WITHIN_S` seconds stop the restarts
_ENDS_WITHIN_S: Final = 60.0
# A `multiprocessing` child would run a script without a main guard again. A daemonic process, such
# as a Celery worker, cannot start a `multiprocessing` child.
_CODE: Final = """
import os, sys
from multiprocessing.connection import Connection
sys.path[:], sys.argv[:] = sys.argv[1:], ["rag-eval-hooks-model"]
connection = Connection(os.dup(0))
# Grandchild processes must not inherit the socket.
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
try:
    from rag_eval_hooks.judges.local_model import serve
except Exception as error:
    connection.send(f"{type(error).__name__}: {error}"[:300])
    os._exit(1)
serve(connection)
# Skip the exit hooks of model libraries, because their threads may still run.
os._exit(0)
"""
_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


def short_name(source: str) -> str:
    return "/".join(source.rstrip("/\\").replace("\\", "/").split("/")[-2:])


class _LoadError(JudgeError):
    pass


class _ProcessEndedError(JudgeError):
    pass


def _loaded(source: str, load: Load[I, R]) -> Run[I, R]:
    try:
        return load()
    except JudgeError as error:
        raise _LoadError(str(error)) from None
    except Exception as error:
        raise _LoadError(f"{source}: cannot load the model ({type(error).__name__})") from error


def _results(source: str, model: Run[I, R], items: Sequence[I]) -> list[R | JudgeError]:
    try:
        return list(model(items)) if items else []
    except Exception as error:  # noqa: BLE001 - a model library may raise anything
        if len(items) > 1:
            return [result for item in items for result in _results(source, model, [item])]
        # The library's message may quote content, so the error names only the type.
        return [JudgeError(f"{source}: the model raised {type(error).__name__}")]


def serve(connection: Connection) -> None:
    # Ctrl-C signals the whole process group. The application still needs this process, to finish
    # its samples.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # Lower the priority before loading, because later threads inherit the priority.
    os.nice(_NICE)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            # On other systems, the child exits when the parent's socket closes.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # Some sandboxes forbid changing the scheduler.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(EOFError, OSError):
        source, load = connection.recv()
        try:
            model = _loaded(source, load)
        except _LoadError as error:
            connection.send(str(error))
            return
        connection.send(None)
        while True:
            connection.send(_results(source, model, connection.recv()))


class LocalModel(Generic[I, R]):
    """Runs a model on one batch of items at a time. Items that arrive meanwhile wait."""

    def __init__(self, source: str, caller: Caller, load: Load[I, R], *, size: int = 32) -> None:
        self.name = caller.name
        self._source, self._caller, self._load, self._size = source, caller, load, size
        self._in_process = _can_start_process()
        self._model: Run[I, R] | None = None
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._ends: deque[float] = deque(maxlen=_MOST_ENDS)
        self._failure: str | None = None
        self._closed = self._is_warm = False
        self._waiting: deque[tuple[Sequence[I], Future[list[R | JudgeError]]]] = deque()
        self._worker = DaemonExecutor("rag-eval-hooks-model")
        at_fork(in_child=self._forget)

    async def run(self, items: Sequence[I]) -> list[R | JudgeError]:
        """Return one result per item. If an item crashes the process, its result is an error."""
        if self._closed:
            raise self._ended("")
        future: Future[list[R | JudgeError]] = Future()
        with observed_call(self._caller):
            self._waiting.append((items, future))
            self._worker.submit(self._run_waiting)
            return await asyncio.wrap_future(future)

    async def run_all(self, items: Sequence[I]) -> list[R]:
        results: list[R] = []
        for result in await self.run(items) if items else ():
            if isinstance(result, JudgeError):
                raise result
            results.append(result)
        return results

    async def warm_up(self) -> None:
        if not self._is_warm:
            await self.run([])
            self._is_warm = True

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            if (child := self._child) is not None:
                child[0].kill()
            released = asyncio.wrap_future(self._worker.submit(self._release))
            self._worker.shutdown()
            await asyncio.wait([released], timeout=_CLOSE_TIMEOUT_S)

    def _forget(self) -> None:
        self._waiting.clear()
        self._ends.clear()
        if self._child is not None:
            process, connection = self._child
            # An open copy of the socket would hide the parent's exit from the model process.
            connection.close()
            # The process is not our child, so we cannot wait for the process.
            process.returncode = 0
            self._child = None

    # All methods below run on the worker's thread.

    def _release(self) -> None:
        self._model = None
        if self._child is not None:
            self._end()

    def _run_waiting(self) -> None:
        taken: list[tuple[Sequence[I], Future[list[R | JudgeError]]]] = []
        while self._waiting and sum(len(items) for items, _ in taken) < self._size:
            items, future = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                taken.append((items, future))
        distinct = list(dict.fromkeys(item for items, _ in taken for item in items))
        try:
            results = dict(zip(distinct, self._run(distinct), strict=True)) if taken else {}
        except BaseException as error:  # noqa: BLE001 - the callers get the exception
            # A library's SystemExit would stop the caller's event loop.
            ended = JudgeError(f"{self._source}: the model raised {type(error).__name__}")
            for _, future in taken:
                future.set_exception(error if isinstance(error, Exception) else ended)
        else:
            for items, future in taken:
                future.set_result([results[item] for item in items])

    def _run(self, items: Sequence[I]) -> list[R | JudgeError]:
        if self._failure is not None:
            raise JudgeError(self._failure)
        try:
            if self._in_process:
                return self._run_in_child(items)
            if self._model is None:
                self._model = _loaded(self._source, self._load)
            return _results(self._source, self._model, items)
        except _LoadError as error:
            self._failure = str(error)
            raise

    def _run_in_child(self, items: Sequence[I]) -> list[R | JudgeError]:
        with contextlib.suppress(_ProcessEndedError):
            return self._request(items)
        # Any item may have crashed the process. Run each item alone to find the item.
        results: list[R | JudgeError] = []
        for item in items:
            try:
                results += self._request([item])
            except (_ProcessEndedError, JudgeUnavailable) as error:
                results.append(error)
        return results

    def _request(self, items: Sequence[I]) -> list[R | JudgeError]:
        if self._child is None:
            self._start()
        found: list[R | JudgeError] = self._exchange(list(items), REPLY_TIMEOUT_S)
        return found

    def _exchange(self, message: object, timeout: float) -> Any:
        assert self._child is not None
        _, connection = self._child
        how = None
        try:
            connection.send(message)
            if connection.poll(timeout):
                return connection.recv()
            how = "no reply in time"
        except (OSError, EOFError):
            pass
        raise self._ended(self._end(how))

    def _start(self) -> None:
        if len(self._ends) == _MOST_ENDS and time.monotonic() - self._ends[0] < _ENDS_WITHIN_S:
            raise JudgeUnavailable(f"{self._source}: the model process keeps crashing")
        ours, theirs = socket.socketpair()
        flags = ["-P", "-s"] if sys.flags.no_user_site else ["-P"]
        try:
            process = subprocess.Popen(
                [_interpreter() or "", *flags, "-c", _CODE, *map(str, sys.path)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=model_environment(),
            )
        except OSError as error:
            ours.close()
            raise self._ended(f"not started, {type(error).__name__}") from None
        finally:
            theirs.close()
        self._child = process, Connection(ours.detach())
        if self._closed:
            process.kill()
        failure = self._exchange((self._source, self._load), LOAD_TIMEOUT_S)
        if failure is not None:
            self._end()
            raise _LoadError(failure)

    def _end(self, how: str | None = None) -> str:
        assert self._child is not None
        process, connection = self._child
        if how is None:
            # The child may exit shortly after its socket closes.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        process.kill()
        code = process.wait()
        connection.close()
        self._child = None
        if how is not None or code >= 0:
            return how or f"exit status {code}"
        return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"

    def _ended(self, how: str) -> JudgeError:
        if self._closed:
            return JudgeUnavailable(f"{self._source}: the model is already closed")
        self._ends.append(time.monotonic())
        _logger.warning("The process of the model %s exited (%s).", self._source, how)
        return _ProcessEndedError(f"{self._source}: the model process exited ({how})")


def _can_start_process() -> bool:
    if os.name != "posix":
        obstacle = "child processes need a POSIX system"
    elif getattr(sys, "frozen", False) or _interpreter() is None:
        obstacle = "a frozen or embedded Python has no interpreter to start"
    else:
        return True
    _logger.warning("Local models run on a thread of this process, because %s.", obstacle)
    return False


def _interpreter() -> str | None:
    # Where Python is embedded, `sys.executable` is the host program.
    path = Path(sys.executable or "")
    is_python = any(word in path.name.lower() for word in ("python", "pypy"))
    return str(path) if is_python and os.access(path, os.X_OK) else None
