"""Results that come back to the application that shipped the samples."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from rag_eval_hooks.fleet.broker import Broker
from rag_eval_hooks.fleet.wire import Evaluated, replies
from rag_eval_hooks.incidents import Incidents

__all__ = ["REPLY_SECONDS", "ReplyReader"]

REPLY_SECONDS: Final = 3600.0
"""Seconds after which the queue of an application that has ended ends, too."""
_PAUSE_S: Final = 1.0


class ReplyReader:
    """Reads results from a queue of its own, in a thread that never delays the process's exit.

    Args:
        broker: The broker.
        take: Called with the results of each message, in that thread.
        incidents: Counts failures.

    Attributes:
        queue: Name of the queue.
    """

    def __init__(
        self, broker: Broker, take: Callable[[Sequence[Evaluated]], object], incidents: Incidents
    ) -> None:
        self.queue = f"rag_eval.results.{uuid.uuid4().hex}"
        self._broker = broker
        self._take = take
        self._incidents = incidents
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="rag-eval-hooks-replies", daemon=True).start()

    def stop(self) -> None:
        """End the thread, after what it reads."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._read()
            except Exception as error:  # noqa: BLE001 - the sink's edge: the broker may be away
                self._incidents.report("fleet results", error)
                self._ended.wait(_PAUSE_S)

    def _read(self) -> None:
        with (
            self._broker.app.connection_for_read() as connection,
            connection.Consumer(
                [self._broker.queue(self.queue, expires=REPLY_SECONDS)],
                callbacks=[self._received],
                accept=["json"],
            ),
        ):
            while not self._ended.is_set():
                try:
                    connection.drain_events(timeout=_PAUSE_S)
                except TimeoutError:
                    connection.heartbeat_check()

    def _received(self, text: Any, message: Any) -> None:
        try:
            self._take(replies(text))
        except Exception as error:  # noqa: BLE001 - anything may have written it
            self._incidents.report("fleet results", error)
        message.ack()
