"""Samples that no worker survived or could read: looked at, and sent back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rag_eval_hooks.fleet.broker import DEAD, Broker, lane_of
from rag_eval_hooks.fleet.store import FleetStore

__all__ = ["DeadLetter", "dead_letters", "put_dead_letter", "send_back"]


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

    A broker lets nobody read without taking: each letter is taken, and all are put back at the
    end. A second look in between misses them. Those of a process that dies meanwhile come back,
    with RabbitMQ at once, with Redis after its visibility timeout.
    """
    letters: list[DeadLetter] = []

    def keep(letter: DeadLetter) -> bool:
        letters.append(letter)
        return False

    _visit(broker, keep)
    return letters


def send_back(
    broker: Broker, store: FleetStore, chosen: Callable[[DeadLetter], bool]
) -> list[DeadLetter]:
    """Let workers try dead letters again.

    Args:
        broker: The broker.
        store: Its Redis, which forgets the earlier tries.
        chosen: Returns whether to send a letter back.

    Returns:
        Those sent back.
    """
    back: list[DeadLetter] = []

    def visit(letter: DeadLetter) -> bool:
        if not chosen(letter):
            return False
        for sample in letter.samples:
            store.forget_tries(str(sample.get("sample_id")))
        batch_id, entry = uuid.uuid4().hex, f"dead:{letter.reason}"
        count, text = -max(1, len(letter.samples)), letter.text
        if not broker.is_amqp:
            store.keep(batch_id, letter.service, text, {entry: count})
            text = ""
        broker.send(text, lane=lane_of(letter.service), urgent=False, batch_id=batch_id)
        if broker.is_amqp:
            store.count(letter.service, entry, count)
        back.append(letter)
        return True

    _visit(broker, visit)
    return back


def _visit(broker: Broker, visit: Callable[[DeadLetter], bool]) -> None:
    """Show each letter to a function, and remove those for which it returns True."""
    with broker.app.connection_for_read() as connection, connection.channel() as channel:
        queue = broker.queue(DEAD)(channel)
        queue.queue_declare()
        left = []
        while (message := queue.get(no_ack=False, accept=["json"])) is not None:
            if visit(DeadLetter(**message.payload)):
                message.ack()
            else:
                left.append(message)
        for message in reversed(left):
            message.requeue()
