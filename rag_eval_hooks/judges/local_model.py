"""Local model that runs off the event loop: in a child process, or in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.judges.model_child import Load, ModelLoadError, Run, load_model, run_model
from rag_eval_hooks.judges.model_process import ModelProcess, obstacle
from rag_eval_hooks.threads import DaemonExecutor

__all__ = ["InProcess", "LocalModel"]

I = TypeVar("I")  # noqa: E741 - item
R = TypeVar("R")
InProcess: TypeAlias = Literal["auto"] | bool
"""Run a model in a child process: `auto` wherever one can be started, else in a thread."""

_logger = logging.getLogger("rag_eval_hooks")

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds that closing waits for the batch in hand."""


class LocalModel(Generic[I, R]):
    """Loads a model on first use, once, and runs one batch at a time.

    A failure to load is remembered: each later call fails at once with the same message.

    Args:
        source: The model's name or path, for errors.
        thread: Name of the thread that runs the model, or waits for its process.
        load: Loads the model.
        process: Where the model runs.

    Raises:
        ConfigError: A process is asked for and cannot be started here.
    """

    def __init__(self, source: str, thread: str, load: Load[I, R], process: InProcess) -> None:
        self._source = source
        self._load = load
        self._model: Run[I, R] | None = None
        self._failure: str | None = None
        self._closed = False
        self._warm = False
        self._worker = DaemonExecutor(thread)
        self._process = ModelProcess(source, load) if _wants_process(process) else None

    async def run(self, items: Sequence[I]) -> list[R | JudgeError]:
        """Return one result per item, in order, or the error that this item alone causes.

        Raises:
            JudgeError: The model cannot be loaded, is not available, or was closed.
        """
        if self._closed:
            raise JudgeError(f"{self._source}: the model is closed")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, self._run, items)

    async def warm_up(self) -> None:
        """Load the model, if that was not tried yet.

        Raises:
            JudgeError: It cannot be loaded.
        """
        if not self._warm:
            self._warm = True
            await self.run([])

    async def aclose(self) -> None:
        """End process and thread, after the batch in hand where it ends soon."""
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            self._process.close()
        released = asyncio.wrap_future(self._worker.submit(self._release))
        self._worker.shutdown()
        await asyncio.wait([released], timeout=_CLOSE_TIMEOUT)

    def _release(self) -> None:
        self._model = None
        if self._process is not None:
            self._process.reap()

    def _run(self, items: Sequence[I]) -> list[R | JudgeError]:
        if self._failure is not None:
            raise JudgeError(self._failure)
        try:
            if self._process is not None:
                return self._process.run(items)
            if self._model is None:
                self._model = load_model(self._source, self._load)
            return run_model(self._source, self._model, items)
        except ModelLoadError as error:
            self._failure = str(error)
            raise


def _wants_process(process: InProcess) -> bool:
    hindrance = obstacle() if process else None
    if hindrance is None:
        return bool(process)
    if process == "auto":
        _logger.warning("local models run in a thread of this process: %s", hindrance)
        return False
    wants = f"'auto' or false, as no child process can be started here: {hindrance}"
    raise ConfigError("process", process, wants)
