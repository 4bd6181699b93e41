"""Samples that no worker survived or could read."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.fleet.broker import DEAD, Broker

__all__ = ["DeadLetter", "dead_letters", "put_dead_letter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Message that was given up.

    Attributes:
        key: Its id.
        reason: `worker_lost`, `unreadable`, `newer_schema`, or `raised:<class>`.
        service: Service of the application; empty if it could not be read.
        at: Seconds since the epoch at which it was given up.
        text: The message as it was.
    """

    key: str
    reason: str
    service: str
    at: float
    text: str

    @property
    def samples(self) -> list[dict[str, Any]]:
        """Samples in it as plain types; empty if it cannot be read."""
        with suppress(ValueError, KeyError, TypeError):
            return [item["sample"] for item in json.loads(self.text)["items"]]
        return []


def put_dead_letter(broker: Broker, letter: DeadLetter) -> None:
    """Put a message into the queue of dead letters."""
    plain = {name: getattr(letter, name) for name in DeadLetter.__slots__}
    broker.put(DEAD, plain)


def dead_letters(broker: Broker) -> list[DeadLetter]:
    """Return all dead letters, which stay in the queue.

    Brokers have no peek: messages are fetched and requeued, so a concurrent listing misses them.
    """
    with broker.app.connection_for_read() as connection, connection.channel() as channel:
        queue = broker.queue(DEAD)(channel)
        queue.queue_declare()
        messages = list(iter(lambda: queue.get(no_ack=False, accept=["json"]), None))
        for message in reversed(messages):
            message.requeue()
        return [DeadLetter(**message.payload) for message in messages]
