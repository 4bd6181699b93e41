"""Hands outcomes to the user's sinks; a sink that fails or hangs harms nothing but itself."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rag_eval_hooks.daemon_executor import DaemonExecutor
from rag_eval_hooks.delivery.sink import FeedbackSink, Resumable, Sink
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.ids import result_id
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes

__all__ = ["Delivery", "Line", "Missed"]

R = TypeVar("R")


class Delivery:
    """Calls every sink for every sample, each in a thread of its own, so that none needs a lock.

    Args:
        sinks: Where outcomes go.
        incidents: Where exceptions of sinks are counted.
        timeout: Seconds that one delivery may take, and may wait for those before it. A sink that
            takes longer misses what comes until it returns, counted.
    """

    def __init__(self, sinks: Sequence[Sink], incidents: Incidents, timeout: float) -> None:
        self._lines = [Line(sink, incidents, timeout) for sink in sinks]

    async def deliver(
        self,
        sample: Sample,
        outcomes: Outcomes,
        positions: Mapping[str, int] | None = None,
        *,
        can_wait: bool = False,
    ) -> Sequence[Missed]:
        """Delivers to all sinks at once; returns when all have taken over or failed.

        Args:
            sample: What was evaluated.
            outcomes: The result.
            positions: Where sinks stood when the sample was accepted, if its result may have been
                delivered before: a sink that can tell whether it has the result is asked first.
            can_wait: Whether the result is delivered again to whom it lacks. Then a sink that was
                too slow, and has taken nothing since, is not waited for.

        Returns:
            Whom it still lacks.
        """
        resting = [line for line in self._lines if can_wait and line.is_slow]
        called = [line for line in self._lines if line not in resting]
        missed = await asyncio.gather(
            *(line.deliver(sample, outcomes, positions) for line in called)
        )
        return [*map(Missed, resting), *(one for one in missed if one is not None)]

    def positions(self) -> Mapping[str, int]:
        """Where the sinks stand that can tell what they hold, by their place."""
        found: dict[str, int] = {}
        for line in self._lines:
            found |= line.position()
        return found

    async def deliver_feedback(self, feedback: Feedback) -> None:
        """Delivers to all sinks that take feedback, in the same way."""
        lines = [line for line in self._lines if line.takes_feedback]
        await asyncio.gather(*(line.deliver_feedback(feedback) for line in lines))

    async def close(self) -> None:
        """Closes the sinks, after what was delivered before."""
        await asyncio.gather(*(line.close() for line in self._lines))


@dataclass(frozen=True, slots=True)
class Missed:
    """A result that a sink did not take, or not in time.

    Attributes:
        line: The way to the sink.
        call: One that took too long, and may return yet.
    """

    line: Line
    call: Future[Awaitable[None] | None] | None = None

    async def again(
        self, sample: Sample, outcomes: Outcomes, positions: Mapping[str, int] | None
    ) -> Missed | None:
        """Hands the result over once more, unless the sink has taken it after all."""
        if self.call is not None:
            if not self.call.done():
                return self
            # An async one has only begun when its function returns.
            if self.call.exception() is None and not inspect.isawaitable(self.call.result()):
                return None
        return await self.line.deliver(sample, outcomes, positions)


class Line:
    """The way to one sink. For what its arguments are, see `Delivery`.

    Attributes:
        name: Of the sink, as in counts and logs.
        is_slow: Whether it took too long, or kept others waiting for that, and nothing since.
    """

    def __init__(self, sink: Sink, incidents: Incidents, timeout: float) -> None:
        self.name = f"sink {type(sink).__name__}"
        self.is_slow = False
        self._sink = sink
        self._incidents = incidents
        self._timeout = timeout
        self._executor = DaemonExecutor("rag-eval-hooks-sink")
        self._stuck = False
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def position(self) -> dict[str, int]:
        """Where the sink stands, by its place; nothing where it cannot tell."""
        if not isinstance(self._sink, Resumable):
            return {}
        try:
            # Positions are written down: one that cannot be must not reach the spool.
            return {str(self._sink.place): int(self._sink.position())}
        except Exception as error:  # noqa: BLE001 - the sink's edge
            self._incidents.report(self.name, error)
            return {}

    @property
    def takes_feedback(self) -> bool:
        """Whether it is called with feedback too."""
        return isinstance(self._sink, FeedbackSink)

    async def deliver(
        self, sample: Sample, outcomes: Outcomes, positions: Mapping[str, int] | None
    ) -> Missed | None:
        """Hands a result over; None once the sink has taken it."""
        return await self._call(partial(self._hand_over, sample, outcomes, positions))

    async def deliver_feedback(self, feedback: Feedback) -> None:
        """Hands over one feedback, where the sink takes it."""
        if isinstance(self._sink, FeedbackSink):
            await self._call(partial(self._sink.feedback, feedback))

    async def _call(self, method: Callable[[], Awaitable[None] | None]) -> Missed | None:
        try:
            pending = await self._in_turn(method)
            if inspect.isawaitable(pending):
                async with asyncio.timeout(self._timeout):
                    await pending
        except _OverdueError as overdue:
            self.is_slow = True
            self._incidents.report(self.name, TimeoutError())
            return Missed(self, overdue.call)
        except BaseException as error:  # the sink's edge: even an exit ends here
            if _is_our_own(error):
                raise
            self.is_slow |= isinstance(error, TimeoutError)
            self._incidents.report(self.name, error)
            return Missed(self)
        self.is_slow = False
        return None

    def _hand_over(
        self, sample: Sample, outcomes: Outcomes, positions: Mapping[str, int] | None
    ) -> Awaitable[None] | None:
        sink = self._sink
        if positions is not None and isinstance(sink, Resumable):
            since = positions.get(sink.place, 0)
            if sink.holds(result_id(sample.sample_id, outcomes), since):
                return None
        return sink.deliver(sample, outcomes)

    async def _in_turn(
        self, method: Callable[[], Awaitable[None] | None]
    ) -> Awaitable[None] | None:
        """Calls the method when those before it have returned: each has all of its time.

        Raises:
            TimeoutError: Its turn never came: it was not called.
            _OverdueError: It took too long.
        """
        turn = self._lock()
        async with asyncio.timeout(self._timeout):
            await turn.acquire()
        try:
            if self._stuck:
                raise TimeoutError
            # In our context: what a sink runs is no more captured than what a judge runs.
            call = self._executor.submit(copy_context().run, method)
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._returned(call)
            except TimeoutError:
                if call.done():
                    return call.result()
                raise _OverdueError(call) from None
        finally:
            turn.release()

    async def _returned(self, call: Future[R]) -> R:
        waiting = asyncio.wrap_future(call)
        try:
            # Shielded: a call that runs cannot be taken back, only waited for no longer.
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if call.done():
                raise
            self._stuck = True
            call.add_done_callback(lambda _: setattr(self, "_stuck", False))
            # What it raises later is nobody's any more: asyncio would log it, content included.
            waiting.add_done_callback(lambda late: late.cancelled() or late.exception())
            raise

    def _lock(self) -> asyncio.Lock:
        """Of this loop: an evaluator that was started again has another one."""
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = loop, asyncio.Lock()
        return self._turn[1]

    async def close(self) -> None:
        """Closes the sink, and ends its thread."""
        call = self._executor.submit(self._sink.close)
        try:
            async with asyncio.timeout(self._timeout):
                await self._returned(call)
        except BaseException as error:  # the sink's edge
            if _is_our_own(error):
                raise
            self._incidents.report(f"{self.name} close", error)
        self._executor.shutdown()


class _OverdueError(Exception):
    def __init__(self, call: Future[Awaitable[None] | None]) -> None:
        super().__init__()
        self.call = call


def _is_our_own(error: BaseException) -> bool:
    """Whether we are cancelled ourselves: a sink may raise the same."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
