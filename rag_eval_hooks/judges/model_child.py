"""Load and run a local model, and the loop of the child process that does so."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Final, TypeAlias, TypeVar

from rag_eval_hooks.errors import JudgeError

I = TypeVar("I")  # noqa: E741 - item
R = TypeVar("R")
Run: TypeAlias = Callable[[Sequence[I]], Sequence[R]]
"""A loaded model: one result per item, in order."""
Load: TypeAlias = Callable[[], Run[I, R]]
"""Load a model. A child process needs a picklable function that imports its libraries inside."""

_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1


class ModelLoadError(JudgeError):
    """A model cannot be loaded, and a retry will not help."""


def load_model(source: str, load: Load[I, R]) -> Run[I, R]:
    """Return the loaded model, or raise `ModelLoadError`."""
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
    """Load a model and process batches until the parent closes the socket. Runs in the child."""
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
    """Ask the Linux kernel to end this process with its parent. Elsewhere the socket's end does."""
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
