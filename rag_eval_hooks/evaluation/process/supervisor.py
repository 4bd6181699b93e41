"""Keeps one child process running, and asks again where it ended."""

from __future__ import annotations

import asyncio
import logging

from rag_eval_hooks.calls import CallWatch
from rag_eval_hooks.evaluation.process.handle import EvaluatorDied, EvaluatorProcess
from rag_eval_hooks.evaluation.process.launch import Launch
from rag_eval_hooks.evaluation.process.link import Frame, Kind
from rag_eval_hooks.evaluation.process.restarts import Restarts
from rag_eval_hooks.evaluation.process.watch import FarWatch
from rag_eval_hooks.incidents import Incidents

__all__ = ["Supervisor"]

_logger = logging.getLogger("rag_eval_hooks")

_STOP = 1.0
"""Seconds for the process to close its judge and to end by itself."""


class Supervisor:
    """Has at most one process at a time. Belongs to one event loop.

    Args:
        launch: What processes are started from.
        loop: That event loop.
        incidents: Where ends, and what a process counts, are counted.
        concurrency: Samples in the process at once.
        reply_timeout: Seconds after which a process that has not replied is killed; nor does a
            sample wait longer where a process that ended often is not to be started again yet.
        watch: Who listens to calls that are made in the process.
    """

    def __init__(
        self,
        launch: Launch,
        loop: asyncio.AbstractEventLoop,
        incidents: Incidents,
        *,
        concurrency: int,
        reply_timeout: float,
        watch: CallWatch | None = None,
    ) -> None:
        self._watch = FarWatch(watch)
        self.loop = loop
        self._launch = launch
        self._incidents = incidents
        self._reply_timeout = reply_timeout
        self._slots = asyncio.Semaphore(concurrency)
        self._suspects = asyncio.Lock()
        self._restarts = Restarts()
        self._process: EvaluatorProcess | None = None
        self._starting: asyncio.Task[EvaluatorProcess] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process, or None."""
        process = self._current()
        return None if process is None else process.pid

    async def evaluate(self, sample: bytes) -> bytes:
        """The pickled outcomes of a pickled sample.

        Raises:
            EvaluatorDied: The process ended twice meanwhile, or cannot be started.
            EvaluatorRefused: It cannot be made here.
            EvaluatorRaised: The evaluation raised.
            TimeoutError: It did not reply in time twice, and was killed.
        """
        async with self._slots:
            try:
                return await self._ask(sample, await self._there())
            except _LateError:
                raise
            except (EvaluatorDied, TimeoutError) as error:
                return await self._ask_alone(sample, error)

    async def aclose(self) -> None:
        """Ends the process."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._process is not None:
            await self._process.stop(_STOP)
        self._watch.gone()

    def abandon(self) -> None:
        """Ends the process at once when the event loop is gone."""
        self._watch.gone()
        if self._process is not None:
            self._process.abandon()

    def forget(self) -> None:
        """What a forked child does with the process of its parent."""
        self._watch.gone()
        if self._process is not None:
            self._process.forget()

    async def _ask_alone(self, sample: bytes, error: Exception) -> bytes:
        """Asks again: any sample in a process may have ended it, one by one they show which.

        Raises:
            Exception: The given one, where no process is to be there in time.
        """
        async with self._suspects:
            try:
                process = await self._there()
            except _LateError:
                raise error from None
            return await self._ask(sample, process)

    async def _ask(self, sample: bytes, process: EvaluatorProcess) -> bytes:
        try:
            async with asyncio.timeout(self._reply_timeout):
                return await process.evaluate(sample)
        except TimeoutError:
            process.hangs()
            raise

    async def _there(self) -> EvaluatorProcess:
        """The process, once it runs; where it ended too often to be waited for, an error."""
        if self._current() is None and self._restarts.wait() > self._reply_timeout:
            raise _LateError("too often to be started again in time")
        return await self._running()

    async def _running(self) -> EvaluatorProcess:
        if self._starting is None:
            if (process := self._current()) is not None:
                return process
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._started)
        # One who gives up must not end the start that others wait for.
        return await asyncio.shield(self._starting)

    def _current(self) -> EvaluatorProcess | None:
        """The process, unless it has ended."""
        return None if self._process is None or self._process.ended else self._process

    async def _start(self) -> EvaluatorProcess:
        await asyncio.sleep(self._restarts.wait())
        self._restarts.started()
        self._process = EvaluatorProcess(self._launch, self._tell, self._ended)
        await self._process.start()
        return self._process

    def _started(self, task: asyncio.Task[EvaluatorProcess]) -> None:
        self._starting = None
        if not task.cancelled():
            # Whoever waited has it; where nobody did, it is not to be complained about.
            task.exception()

    def _ended(self, how: str) -> None:
        self._restarts.ended()
        self._watch.gone()
        self._incidents.count(f"evaluator process: {how}")

    def _tell(self, frame: Frame) -> None:
        if frame.kind in (Kind.CALL, Kind.GATE):
            self._watch.take(frame)
            return
        text = frame.body.decode(errors="replace")
        if frame.kind is Kind.INCIDENT:
            self._incidents.count(text)
        elif frame.kind is Kind.LOG:
            _logger.log(frame.number, "%s", text)


class _LateError(EvaluatorDied):
    """No process is to be there in time."""
