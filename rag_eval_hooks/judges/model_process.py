"""Runs one local model in a child process.

`python -c` starts the child, with a socket pair. With `multiprocessing`, the child would import the
application's main module, so a script without a main guard would run twice. A daemonic process,
such as a Celery worker, could not start a `multiprocessing` child.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from rag_eval_hooks.config.sources import model_environment
from rag_eval_hooks.errors import JudgeError, JudgeUnavailable
from rag_eval_hooks.threads import at_fork

I = TypeVar("I")  # noqa: E741 - item
R = TypeVar("R")
Run: TypeAlias = Callable[[Sequence[I]], Sequence[R]]  # returns one result per item, in order
Load: TypeAlias = Callable[[], Run[I, R]]  # must be picklable for a child process

_logger = logging.getLogger("rag_eval_hooks")
_LOAD_TIMEOUT: Final = 600.0  # maximum seconds to start the interpreter and load the model
_MOST_ENDS: Final = 5  # this many exits within `_ENDS_WITHIN` seconds stop the restarts
_ENDS_WITHIN: Final = 60.0
_CODE: Final = """
import os, sys
from multiprocessing.connection import Connection
sys.path[:], sys.argv[:] = sys.argv[1:], ["rag-eval-hooks-model"]
connection = Connection(os.dup(0))
# No process that this process starts may inherit the socket.
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
try:
    from rag_eval_hooks.judges.model_process import serve
except Exception as error:
    connection.send(f"{type(error).__name__}: {error}"[:300])
    os._exit(1)
serve(connection)
# Skip the exit hooks of model libraries, because their threads may still run.
os._exit(0)
"""
_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


class ModelLoadError(JudgeError):
    pass


def load_model(source: str, load: Load[I, R]) -> Run[I, R]:
    try:
        return load()
    except JudgeError as error:
        raise ModelLoadError(str(error)) from None
    except Exception as error:
        raise ModelLoadError(f"{source}: cannot load the model ({type(error).__name__})") from error


def run_model(source: str, model: Run[I, R], items: Sequence[I]) -> list[R | JudgeError]:
    """Return one result per item. After a failed batch, run each item alone."""
    try:
        return list(model(items)) if items else []
    except Exception as error:  # noqa: BLE001 - the same
        if len(items) > 1:
            return [result for item in items for result in run_model(source, model, [item])]
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
            model = load_model(source, load)
        except ModelLoadError as error:
            connection.send(str(error))
            return
        connection.send(None)
        while True:
            connection.send(run_model(source, model, connection.recv()))


class _ProcessEndedError(JudgeError):
    pass


def obstacle() -> str | None:
    if os.name != "posix":
        return "child processes need a POSIX system"
    if getattr(sys, "frozen", False) or _interpreter() is None:
        return "the application is frozen or embeds Python, so there is no interpreter to start"
    return None


def _interpreter() -> str | None:
    # Where Python is embedded, `sys.executable` is the host program.
    path = Path(sys.executable or "")
    is_python = any(word in path.name.lower() for word in ("python", "pypy"))
    return str(path) if is_python and os.access(path, os.X_OK) else None


class ModelProcess(Generic[I, R]):
    """A model in a child process, which starts on first use and restarts after a crash.

    `run` blocks, and only one thread may call `run`. The child exits with this process.
    """

    def __init__(self, source: str, load: Load[I, R], *, reply_timeout: float = 300.0) -> None:
        self._source = source
        self._load = load
        self._reply_timeout = reply_timeout
        self._folder: Path | None = None
        with contextlib.suppress(OSError):  # Another process deleted the folder.
            self._folder = Path.cwd()
        self._path = tuple(str(Path(self._folder or "/", entry)) for entry in sys.path)
        self._closed = False
        self._child: tuple[subprocess.Popen[bytes], Connection] | None = None
        self._ends: deque[float] = deque(maxlen=_MOST_ENDS)
        at_fork(in_child=self._forget)

    def run(self, items: Sequence[I]) -> list[R | JudgeError]:
        """Return one result per item. An item that crashes the process gets an error."""
        results: list[R | JudgeError] = []
        with contextlib.suppress(_ProcessEndedError):
            return self._request(items)
        # Any item may have crashed the process. Run each item alone to find the item.
        for item in items:
            try:
                results += self._request([item])
            except (_ProcessEndedError, JudgeUnavailable) as error:
                results.append(error)
        return results

    def close(self) -> None:
        """Kill the child immediately. Thread-safe."""
        self._closed = True
        if (child := self._child) is not None:
            child[0].kill()

    def reap(self) -> None:
        """Wait until a killed child has exited. Must run on the thread of `run`."""
        if self._child is not None:
            self._end()

    def _forget(self) -> None:
        """Drop the inherited handles in a forked child. The model belongs to the parent."""
        if (child := self._child) is not None:
            process, connection = child
            # An open copy would hide the parent's exit from the model process.
            connection.close()
            # The process is not our child, so we cannot wait for the process.
            process.returncode = 0
        self._child = None
        self._ends.clear()

    def __del__(self, is_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter exit, a started thread never runs, and `start` would wait forever.
        if (child := getattr(self, "_child", None)) is not None and not is_exit():
            child[0].kill()
            # Use a thread, because an idle-priority process may exit slowly.
            with contextlib.suppress(RuntimeError):
                threading.Thread(target=child[0].wait, daemon=True).start()

    def _request(self, items: Sequence[I]) -> list[R | JudgeError]:
        if self._child is None:
            self._start()
        found: list[R | JudgeError] = self._exchange(list(items), self._reply_timeout)
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
        if len(self._ends) == _MOST_ENDS and time.monotonic() - self._ends[0] < _ENDS_WITHIN:
            raise JudgeUnavailable(f"{self._source}: the model process keeps crashing")
        ours, theirs = socket.socketpair()
        flags = ["-P", "-s"] if sys.flags.no_user_site else ["-P"]
        try:
            process = subprocess.Popen(
                [_interpreter() or "", *flags, "-c", _CODE, *self._path],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._folder if self._folder and self._folder.is_dir() else None,
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
        failure = self._exchange((self._source, self._load), _LOAD_TIMEOUT)
        if failure is not None:
            self._end()
            raise ModelLoadError(failure)

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
