"""The child's side: what it tells the application besides outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

from rag_eval_hooks.evaluation.process.link import Frame, Kind, Link
from rag_eval_hooks.incidents import Incidents

__all__ = ["Outbox", "RelayedIncidents", "relay_logs"]

_LINES = 1000
"""Log lines that are told in the life of a process."""


class Outbox:
    """Frames for the application, from any thread, in order. Made in the event loop.

    Args:
        link: Where they go.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[Frame] = asyncio.Queue()

    def put(self, frame: Frame) -> None:
        """Queues a frame; after the end of the loop there is nobody to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._frames.put_nowait, frame)

    async def run(self) -> None:
        """Sends what is queued, until the other side is gone."""
        with contextlib.suppress(OSError):
            while True:
                await self._link.send(await self._frames.get())


class RelayedIncidents(Incidents):
    """Incidents that are counted, and logged, by the application.

    Args:
        outbox: The way to it.
    """

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def count(self, kind: str) -> None:
        """Tells the application."""
        self._outbox.put(Frame(Kind.INCIDENT, body=kind.encode(errors="replace")))

    def report(self, place: str, error: BaseException) -> None:
        """Tells the application."""
        self.count(f"{place}: {type(error).__name__}")


def relay_logs(outbox: Outbox) -> None:
    """Lines of our own logger go to the application's; of others, that there was one, once.

    Our own lines never hold content of a sample; nobody knows what those of others hold.

    Args:
        outbox: The way to the application.
    """
    ours = logging.getLogger("rag_eval_hooks")
    ours.propagate = False
    ours.setLevel(logging.INFO)
    ours.addHandler(_OwnLines(outbox))
    logging.getLogger().addHandler(_OtherLines(outbox))


class _OwnLines(logging.Handler):
    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox
        self._left = _LINES

    def emit(self, record: logging.LogRecord) -> None:
        if self._left > 0:
            self._left -= 1
            text = record.getMessage().encode(errors="replace")
            self._outbox.put(Frame(Kind.LOG, record.levelno, text))


class _OtherLines(logging.Handler):
    def __init__(self, outbox: Outbox) -> None:
        super().__init__(logging.WARNING)
        self._outbox = outbox
        self._told: set[str] = set()
        self._told_lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        kind = f"evaluator process: {record.levelname} of logger {record.name}"
        with self._told_lock:
            if kind in self._told or len(self._told) >= _LINES:
                return
            self._told.add(kind)
        self._outbox.put(Frame(Kind.LOG, logging.INFO, kind.encode(errors="replace")))
