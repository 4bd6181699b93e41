"""A worker's sign of life, and its look for batches that got lost on their way."""

from __future__ import annotations

import os
import socket
import threading
from typing import Final

from rag_eval_hooks.fleet.broker import LANES, Broker
from rag_eval_hooks.fleet.store import FleetStore
from rag_eval_hooks.incidents import Incidents

__all__ = ["Heartbeat", "send_lost"]

_BEAT_S: Final = 5.0


class Heartbeat:
    """Says every few seconds that this worker lives, from a thread of its own.

    Args:
        store: The Redis.
        broker: The broker, for batches that got lost.
        incidents: Counts its failures.

    Attributes:
        worker: Unique name of this process.
    """

    def __init__(self, store: FleetStore, broker: Broker, incidents: Incidents) -> None:
        self.worker = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._store = store
        self._broker = broker
        self._incidents = incidents
        self._ended = threading.Event()
        store.beat(self.worker)
        threading.Thread(target=self._run, name="rag-eval-hooks-beat", daemon=True).start()

    def _run(self) -> None:
        while not self._ended.wait(_BEAT_S):
            try:
                self._store.beat(self.worker)
                if not self._broker.is_amqp and self._store.may_look():
                    send_lost(self._store, self._broker)
            except Exception as error:  # noqa: BLE001 - the sink's edge: Redis may be away
                self._incidents.report("fleet heartbeat", error)

    def stop(self) -> None:
        """End the thread, and say that the worker has ended."""
        self._ended.set()
        try:
            self._store.bury(self.worker)
        except Exception as error:  # noqa: BLE001 - the sink's edge: Redis may be away
            self._incidents.report("fleet heartbeat", error)


def send_lost(store: FleetStore, broker: Broker, **age: int) -> int:
    """Send lost batches again, before all others, and return their number; see `FleetStore.lost`.

    A batch that was not lost after all is evaluated once all the same, as workers claim it.
    """
    depths, sent = broker.depths(), 0
    for lane in LANES:
        for batch_id in store.lost(lane, is_empty=not depths.get(lane), **age):
            broker.send("", lane=lane, urgent=True, batch_id=batch_id)
            sent += 1
    return sent
