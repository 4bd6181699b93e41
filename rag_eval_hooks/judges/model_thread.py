"""A local model in a thread of its own."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from typing import Generic, TypeVar

from rag_eval_hooks.daemon_executor import DaemonExecutor
from rag_eval_hooks.errors import JudgeError

__all__ = ["ModelThread"]

M = TypeVar("M")
R = TypeVar("R")

_WORK_ERRORS = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError)


class ModelThread(Generic[M]):
    """Loads a model on first use, once, and runs all its work in one daemon thread.

    A failure to load is remembered: each later call fails at once with the same words.

    Args:
        source: The model's name or path, for errors.
        thread: The thread's name.
        load: Loads the model; libraries are imported here, not before.
    """

    def __init__(self, source: str, thread: str, load: Callable[[], M]) -> None:
        self._source = source
        self._load = load
        self._model: M | None = None
        self._failure: str | None = None
        self._closed = False
        self._worker = DaemonExecutor(thread)

    async def run(self, work: Callable[[M], R]) -> R:
        """What `work` makes of the model.

        Raises:
            JudgeError: The model cannot be loaded, the work failed, or `aclose` was called.
        """
        if self._closed:
            raise JudgeError(f"{self._source}: the model is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self._run, work)

    async def aclose(self) -> None:
        """Ends the thread after the work in hand, and lets go of the model."""
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._worker, self._forget)
        self._worker.shutdown()

    def can_run(self) -> bool:
        """Whether the model has not failed to load, nor been closed."""
        return self._failure is None and not self._closed

    def _forget(self) -> None:
        self._model = None

    def _run(self, work: Callable[[M], R]) -> R:
        model = self._loaded()
        try:
            return work(model)
        except _WORK_ERRORS as error:
            # The library's words, and a chain to them, may hold a part of the texts.
            raise JudgeError(f"{self._source}: {type(error).__name__} in the model") from None

    def _loaded(self) -> M:
        if self._failure is not None:
            raise JudgeError(self._failure)
        if self._model is None:
            self._model = self._load_once()
        return self._model

    def _load_once(self) -> M:
        try:
            return self._load()
        except JudgeError as error:
            self._failure = str(error)
            raise
        except _load_errors() as error:
            self._failure = f"{self._source}: cannot load the model ({type(error).__name__})"
            raise JudgeError(self._failure) from error


def _load_errors() -> tuple[type[Exception], ...]:
    """What the libraries raise for a missing, unreachable, incomplete or damaged model."""
    from safetensors import SafetensorError

    return (
        *_WORK_ERRORS,
        ImportError,
        OSError,
        LookupError,
        AttributeError,
        AssertionError,
        EOFError,
        pickle.UnpicklingError,
        SafetensorError,
    )
