"""Runs a local model outside the event loop, in a child process or on a thread."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.judges.calls.call_context import observed_call
from rag_eval_hooks.judges.model_process import (
    Load,
    ModelLoadError,
    ModelProcess,
    Run,
    load_model,
    obstacle,
    run_model,
)
from rag_eval_hooks.threads import DaemonExecutor, at_fork

I = TypeVar("I", bound=Hashable)  # noqa: E741 - item
R = TypeVar("R")
InProcess: TypeAlias = Literal["auto"] | bool

_logger = logging.getLogger("rag_eval_hooks")
_CLOSE_TIMEOUT: Final = 1.0  # seconds for which close waits for the running batch


def short_name(source: str) -> str:
    return "/".join(source.rstrip("/\\").replace("\\", "/").split("/")[-2:])


class LocalModel(Generic[I, R]):
    """Loads a model on first use, and runs one batch at a time.

    Items that arrive during a batch form the next batch, without duplicates. If loading fails,
    every later call fails immediately with the same message.
    """

    def __init__(
        self, source: str, caller: Caller, load: Load[I, R], process: InProcess, *, size: int = 32
    ) -> None:
        self.name = caller.name
        self._source = source
        self._caller = caller
        self._load = load
        self._size = size
        self._model: Run[I, R] | None = None
        self._failure: str | None = None
        self._closed = self._is_warm = False
        self._waiting: deque[tuple[Sequence[I], Future[list[R | JudgeError]]]] = deque()
        self._worker = DaemonExecutor("rag-eval-hooks-model")
        self._process = ModelProcess(source, load) if _wants_process(process) else None
        at_fork(in_child=self._forget)

    async def run(self, items: Sequence[I]) -> list[R | JudgeError]:
        if self._closed:
            raise JudgeError(f"{self._source}: the model is already closed")
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
        if self._closed:
            return
        self._closed = True
        if self._process is not None:
            self._process.close()
        released = asyncio.wrap_future(self._worker.submit(self._release))
        self._worker.shutdown()
        await asyncio.wait([released], timeout=_CLOSE_TIMEOUT)

    def _forget(self) -> None:
        # After a fork, the callers of these items wait in the parent process.
        self._waiting.clear()

    def _release(self) -> None:
        self._model = None
        if self._process is not None:
            self._process.reap()

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
            # If a library raised SystemExit here, the caller's loop would stop.
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
    wants = f"'auto' or false, because no child process can start here: {hindrance}"
    raise ConfigError("process", process, wants)
