"""Runs one local model in a child process.

With `multiprocessing`, the child would import the application's main module, and a script without a
main guard would run twice. Daemonic processes, such as Celery workers, could start no child. So
`python -c` starts the child, with a socket pair.
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
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from rag_eval_hooks.config.sources import model_environment
from rag_eval_hooks.errors import JudgeError, JudgeUnavailable
from rag_eval_hooks.threads import at_fork

I = TypeVar("I")  # noqa: E741 - item
R = TypeVar("R")
Run: TypeAlias = Callable[[Sequence[I]], Sequence[R]]
"""Returns one result per item, in order."""
Load: TypeAlias = Callable[[], Run[I, R]]
"""Loads a model. For a child process, the function must be picklable and import its libraries."""

_logger = logging.getLogger("rag_eval_hooks")
_LOAD_TIMEOUT: Final = 600.0
"""Maximum seconds to start the interpreter and load the model."""
_MOST_ENDS: Final = 5
"""Maximum number of exits within `_ENDS_WITHIN` seconds before batches fail immediately."""
_ENDS_WITHIN: Final = 60.0
_CODE: Final = """
import os, sys
from multiprocessing.connection import Connection
sys.path[:], sys.argv[:] = sys.argv[1:], ["rag-eval-hooks-model"]
connection = Connection(os.dup(0))
# No process that is started from here may hold the socket.
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
try:
    from rag_eval_hooks.judges.model_process import serve
except Exception as error:
    connection.send(f"{type(error).__name__}: {error}"[:300])
    os._exit(1)
serve(connection)
# Without exit hooks of model libraries, whose threads may still be at work.
os._exit(0)
"""
_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


class ModelLoadError(JudgeError):
    """Loading failed, and a retry will not help."""


def load_model(source: str, load: Load[I, R]) -> Run[I, R]:
    try:
        return load()
    except JudgeError as error:
        raise ModelLoadError(str(error)) from None
    except Exception as error:
        raise ModelLoadError(f"{source}: cannot load the model ({type(error).__name__})") from error


def run_model(source: str, model: Run[I, R], items: Sequence[I]) -> list[R | JudgeError]:
    """Return one result per item. After a failed batch, each item runs alone."""
    try:
        return list(model(items)) if items else []
    except Exception as error:  # noqa: BLE001 - the same
        if len(items) > 1:
            return [result for item in items for result in run_model(source, model, [item])]
        # The library's message may quote content.
        return [JudgeError(f"{source}: {type(error).__name__} in the model")]


def serve(connection: Connection) -> None:
    _end_with_parent()
    # Ctrl-C signals the whole process group, but the application still finishes its samples.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    _lower_priority()
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


def _end_with_parent() -> None:
    """Make Linux kill this process when the parent dies.

    Elsewhere, the closed socket ends this process.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _lower_priority() -> None:
    # Before loading, which takes seconds, because later threads inherit the priority.
    os.nice(_NICE)
    if sys.platform == "linux":
        # Some sandboxes forbid changing the scheduler.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class _ProcessEndedError(JudgeError):
    pass


def obstacle() -> str | None:
    """Return why no child process can start here, or None."""
    if os.name != "posix":
        return "child processes need a POSIX system"
    if getattr(sys, "frozen", False) or _interpreter() is None:
        return "the application is frozen or embeds Python: there is no interpreter to start"
    return None


def _interpreter() -> str | None:
    # Where Python is embedded, `sys.executable` is the host program.
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for path in map(Path, (sys.executable or "", f"{sys.exec_prefix}/bin/python{version}")):
        is_python = any(word in path.name.lower() for word in ("python", "pypy"))
        if is_python and os.access(path, os.X_OK):
            return str(path)
    return None


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    connection: Connection
    finalizer: weakref.finalize[..., ModelProcess[Any, Any]]


class ModelProcess(Generic[I, R]):
    """A model in a child process that starts on first use and restarts after a crash.

    `run` blocks, and only one thread may call it. The child exits with this process: the child's
    socket closes and, on Linux, the kernel kills the child.
    """

    def __init__(self, source: str, load: Load[I, R], *, reply_timeout: float = 300.0) -> None:
        self._source = source
        self._load = load
        self._reply_timeout = reply_timeout
        self._folder: Path | None = None
        with contextlib.suppress(OSError):  # another process deleted the file
            self._folder = Path.cwd()
        self._path = tuple(str(Path(self._folder or "/", entry)) for entry in sys.path)
        self._closed = False
        self._child: _Child | None = None
        self._ends: deque[float] = deque(maxlen=_MOST_ENDS)
        at_fork(in_child=self._forget)

    def run(self, items: Sequence[I]) -> list[R | JudgeError]:
        """Return one result per item. An item that crashes the process gets an error."""
        try:
            return self._request(items)
        except _ProcessEndedError:
            # Any item, or none, may have crashed the process. Running each alone shows which.
            return [self._run_alone(item) for item in items]

    def close(self) -> None:
        """Kill the child immediately. Safe from any thread."""
        self._closed = True
        if (child := self._child) is not None:
            child.process.kill()

    def reap(self) -> None:
        """Wait until a killed child has exited. Must run on the thread of `run`."""
        if self._child is not None:
            self._end(self._child)

    def _forget(self) -> None:
        """Drop the inherited handles in a forked child. The model belongs to the parent."""
        if (child := self._child) is not None:
            # An open copy would hide the parent's exit from the model process.
            child.connection.close()
            # Not a child of this process, so it cannot be waited for.
            child.process.returncode = 0
            child.finalizer.detach()
        self._child = None
        self._ends.clear()

    def _run_alone(self, item: I) -> R | JudgeError:
        try:
            return self._request([item])[0]
        except (_ProcessEndedError, JudgeUnavailable) as error:
            return error

    def _request(self, items: Sequence[I]) -> list[R | JudgeError]:
        found: list[R | JudgeError] = self._exchange(
            self._child or self._start(), list(items), self._reply_timeout
        )
        return found

    def _exchange(self, child: _Child, message: object, timeout: float) -> Any:
        try:
            child.connection.send(message)
            if child.connection.poll(timeout):
                return child.connection.recv()
            how: str | None = "no reply in time"
        except (OSError, EOFError):
            how = None
        raise self._ended(self._end(child, how))

    def _start(self) -> _Child:
        if len(self._ends) == _MOST_ENDS and time.monotonic() - self._ends[0] < _ENDS_WITHIN:
            raise JudgeUnavailable(f"{self._source}: the model process keeps crashing")
        ours, theirs = socket.socketpair()
        try:
            process = self._launch(theirs)
        except OSError as error:
            ours.close()
            raise self._ended(f"not started, {type(error).__name__}") from None
        finally:
            theirs.close()
        finalizer = weakref.finalize(self, _kill, process)
        finalizer.atexit = False
        child = self._child = _Child(process, Connection(ours.detach()), finalizer)
        if self._closed:
            process.kill()
        failure = self._exchange(child, (self._source, self._load), _LOAD_TIMEOUT)
        if failure is not None:
            self._end(child)
            raise ModelLoadError(failure)
        return child

    def _launch(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        flags = ["-P", "-s"] if sys.flags.no_user_site else ["-P"]
        return subprocess.Popen(
            [_interpreter() or "", *flags, "-c", _CODE, *self._path],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder if self._folder and self._folder.is_dir() else None,
            env=model_environment(),
        )

    def _end(self, child: _Child, how: str | None = None) -> str:
        """Kill the child if needed, and return how the child exited."""
        if how is None:
            # The child may exit shortly after its socket closes.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(1.0)
        child.process.kill()
        code = child.process.wait()
        child.connection.close()
        child.finalizer.detach()
        self._child = None
        if how is not None:
            return how
        if code >= 0:
            return f"exit status {code}"
        return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"

    def _ended(self, how: str) -> JudgeError:
        if self._closed:
            return JudgeUnavailable(f"{self._source}: the model is closed")
        self._ends.append(time.monotonic())
        _logger.warning("The process of the model %s exited (%s).", self._source, how)
        return _ProcessEndedError(f"{self._source}: the model process ended ({how})")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    # In a thread, because an idle-priority process may exit slowly. At exit no thread can start.
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=process.wait, name="rag-eval-hooks-reaper", daemon=True).start()
