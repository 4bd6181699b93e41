"""One child process, from its start to its end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import socket
import subprocess
import threading
from collections.abc import Callable

from rag_eval_hooks.evaluation.process.launch import Launch
from rag_eval_hooks.evaluation.process.link import Frame, Kind, Link

__all__ = ["EvaluatorDied", "EvaluatorProcess", "EvaluatorRaised", "EvaluatorRefused"]

_START_TIMEOUT = 60.0
"""Seconds from the start of the interpreter until it takes samples; models load later."""
_LOOK = 1.0
"""Seconds between looks whether the process still is there."""
_NO_REPLY = "no reply in time"


class EvaluatorDied(Exception):
    """The process ended; the text says how."""


class EvaluatorRefused(Exception):
    """The process runs, but cannot evaluate here; the text says why."""


class EvaluatorRaised(Exception):
    """An evaluation ended by an exception; the text is its type."""


class EvaluatorProcess:
    """A child process that evaluates many samples at once. Belongs to one event loop.

    It ends with this process in any case: it reads the end of the socket, asks the system to be
    killed with its parent where that can be asked, and looks for its parent.

    Args:
        launch: What it is started from.
        tell: Takes what it tells besides outcomes: incidents and log lines.
        on_end: Called once when it ended and was not told to, with how.
    """

    def __init__(
        self, launch: Launch, tell: Callable[[Frame], None], on_end: Callable[[str], None]
    ) -> None:
        self._launch = launch
        self._tell = tell
        self._on_end = on_end
        self._ours, self._theirs = socket.socketpair()
        self._link = Link(self._ours, launch.message_bytes)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._outbox: asyncio.Queue[Frame] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._why: str | None = None

    @property
    def ended(self) -> bool:
        """Whether it takes no samples any more."""
        return self._why is not None

    @property
    def pid(self) -> int | None:
        """Its process id, once it was started."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Starts it, and waits until it takes samples.

        Raises:
            EvaluatorDied: The system starts none, or it ended or hung before.
            EvaluatorRefused: It cannot be made from this recipe.
        """
        try:
            await self._begin()
        except EvaluatorDied as error:
            self._kill(str(error))
            raise
        except BaseException:
            self._why = "not needed"
            self._kill(self._why)
            raise
        self._tasks = [
            asyncio.create_task(work()) for work in (self._read, self._write, self._watch)
        ]

    async def evaluate(self, sample: bytes) -> bytes:
        """The pickled outcomes of a pickled sample.

        Raises:
            EvaluatorDied: The process ended before the reply.
            EvaluatorRaised: The evaluation raised.
        """
        if self._why is not None:
            raise EvaluatorDied(self._why)
        number = next(self._numbers)
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            self._outbox.put_nowait(Frame(Kind.SAMPLE, number, sample))
            return await reply
        finally:
            del self._waiting[number]

    async def stop(self, timeout: float) -> None:
        """Lets it end by itself, for so many seconds; then kills it."""
        self._why = self._why or "shutdown"
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._process is not None and self._process.poll() is None:
                    await asyncio.sleep(0.01)
        self._kill(self._why)

    def hangs(self) -> None:
        """Ends it at once, as it does not reply; whoever waits for it gets `EvaluatorDied`."""
        self._kill(_NO_REPLY)

    def abandon(self) -> None:
        """Ends it at once when its event loop is gone."""
        self._why = self._why or "abandoned"
        self._ours.close()
        if self._process is not None:
            self._process.kill()
            _reap(self._process)

    def forget(self) -> None:
        """What a forked child does with the process of its parent: nothing, but for its copies.

        A copy of the socket that stays open would hide the parent's end from the process.
        """
        self._why = "fork"
        self._ours.close()
        self._theirs.close()
        if self._process is not None:
            # Not a child of this process: never to be waited for or missed.
            self._process.returncode = 0

    async def _begin(self) -> None:
        try:
            self._process = self._launch.start(self._theirs)
        except OSError as error:
            raise EvaluatorDied(f"not started ({type(error).__name__})") from None
        finally:
            self._theirs.close()
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await self._greet()
        except TimeoutError:
            raise EvaluatorDied("not ready in time") from None

    async def _greet(self) -> None:
        # Where it is gone already, reading says so.
        with contextlib.suppress(OSError):
            await self._link.send(Frame(Kind.START, body=self._launch.recipe))
        while (frame := await self._link.receive()) is not None:
            if frame.kind is Kind.READY:
                return
            if frame.kind is Kind.REFUSED:
                raise EvaluatorRefused(frame.body.decode(errors="replace"))
            self._tell(frame)
        raise EvaluatorDied(await self._exit_cause())

    def _kill(self, why: str) -> None:
        if self._process is not None:
            self._process.kill()
            # Not longer: it may be stuck in the system for as long as a disk is, and an idle
            # process needs a moment of a core to end.
            try:
                self._process.wait(1.0)
            except subprocess.TimeoutExpired:
                _reap(self._process)
        self._end(why)

    def _end(self, why: str) -> None:
        told, self._why = self._why is not None, self._why or why
        # Before the socket is closed: the loop must not watch a number that is given out again.
        for task in self._tasks:
            task.cancel()
        self._ours.close()
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(EvaluatorDied(self._why))
        if not told:
            self._on_end(why)

    async def _read(self) -> None:
        while (frame := await self._link.receive()) is not None:
            reply = self._waiting.get(frame.number)
            if frame.kind not in (Kind.OUTCOMES, Kind.RAISED):
                self._tell(frame)
            elif reply is not None and not reply.done():
                _answer(reply, frame)
        self._kill(await self._exit_cause())

    async def _write(self) -> None:
        # Where it is gone, the reader says so.
        with contextlib.suppress(OSError):
            while True:
                await self._link.send(await self._outbox.get())

    async def _watch(self) -> None:
        """Sees its end even where another process holds a copy of its socket."""
        while self._process is not None and self._process.poll() is None:
            await asyncio.sleep(_LOOK)
        self._kill(await self._exit_cause())

    async def _exit_cause(self) -> str:
        """How it ended, in a word; it may be a moment from the last byte to the end."""
        for _ in range(100):
            if self._process is None or self._process.poll() is not None:
                break
            await asyncio.sleep(0.01)
        code = None if self._process is None else self._process.returncode
        if code is None:
            return "closed its socket"
        if code >= 0:
            return f"exit status {code}"
        return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Takes note of its end whenever that is: it must not stay as a zombie."""
    # At the interpreter's end no thread starts any more, and the system takes note.
    with contextlib.suppress(RuntimeError):
        threading.Thread(target=process.wait, name="rag-eval-hooks-reaper", daemon=True).start()


def _answer(reply: asyncio.Future[bytes], frame: Frame) -> None:
    if frame.kind is Kind.RAISED:
        reply.set_exception(EvaluatorRaised(frame.body.decode(errors="replace")))
    else:
        reply.set_result(frame.body)
