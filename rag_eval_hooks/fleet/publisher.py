"""Publishing of batches by an application: each once, though answers of the broker get lost."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from functools import partial

from rag_eval_hooks.backoff import Backoff
from rag_eval_hooks.fleet.broker import Broker, lane_of
from rag_eval_hooks.fleet.store import FleetStore
from rag_eval_hooks.fleet.wire import Batch
from rag_eval_hooks.incidents import Incidents

__all__ = ["Outgoing", "Publisher"]


@dataclass(slots=True, eq=False)
class Outgoing:
    """A batch on its way to the broker.

    Attributes:
        message: The samples.
        text: The message as it is sent.
        urgent: Whether it goes before batches that are not.
        batch_id: Unique id, equal for each try.
        is_unsure: True if a try failed: the broker may have it all the same.
    """

    message: Batch
    text: str
    urgent: bool
    batch_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    is_unsure: bool = False


class Publisher:
    """Hands batches to the broker, and takes back those of which it cannot know.

    In one thread, but for `is_down`.

    Args:
        broker: The broker.
        comes_again: Whether samples that the broker did not take are published later, in other
            batches: those that had arrived must not be.
        incidents: Counts failures of the broker.
    """

    def __init__(self, broker: Broker, *, comes_again: bool, incidents: Incidents) -> None:
        self._broker = broker
        self._store = FleetStore(broker.redis_url, keep=0)
        self._comes_again = comes_again
        self._incidents = incidents
        self._backoff = Backoff()
        self._down_until = 0.0
        self._uncounted = 0
        self._unsure: list[Outgoing] = []
        self._arrived: set[str] = set()

    @property
    def wait(self) -> float:
        """Seconds until a broker that failed is tried again; 0 if it did not."""
        return max(0.0, self._down_until - time.monotonic())

    def publish(self, batch: Outgoing) -> bool:
        """Publish a batch; return whether the broker has it."""
        if self.wait:
            return False
        try:
            self._settle()
            self._leave_out_arrived(batch)
            if batch.message.items:
                self._hand_over(batch)
        except Exception as error:  # noqa: BLE001 - the sink's edge: clients raise anything
            self._incidents.report("broker", error)
            self._down_until = time.monotonic() + self._backoff.failed()
            return False
        self._backoff.succeeded()
        return True

    def give_up(self, batch: Outgoing) -> bool:
        """Take back a batch that could not be published; return whether the broker has it.

        Without its Redis that is not known: the batch is taken back once it can be.
        """
        if not batch.is_unsure:
            return False
        try:
            if self._broker.is_amqp or not self.wait:
                return not self._withdrawn(batch)
        except Exception as error:  # noqa: BLE001 - the sink's edge: clients raise anything
            self._incidents.report("fleet", error)
        self._unsure.append(batch)
        return False

    def _settle(self) -> None:
        """Take back what is unsure, before anything of it is published again."""
        while self._unsure:
            if not self._withdrawn(self._unsure[-1]) and self._comes_again:
                self._arrived.update(i.sample.sample_id for i in self._unsure[-1].message.items)
            self._unsure.pop()

    def _withdrawn(self, batch: Outgoing) -> bool:
        service, samples = batch.message.service, len(batch.message.items)
        if self._store.withdraw(batch.batch_id, service, samples):
            return True
        if self._broker.is_amqp:
            self._count(service, samples)
        return False

    def _leave_out_arrived(self, batch: Outgoing) -> None:
        if self._arrived:
            items = batch.message.items
            left = [item for item in items if item.sample.sample_id not in self._arrived]
            self._arrived.difference_update(item.sample.sample_id for item in items)
            batch.message = replace(batch.message, items=left)
            batch.text = batch.message.text()

    def _hand_over(self, batch: Outgoing) -> None:
        service, samples = batch.message.service, len(batch.message.items)
        batch.is_unsure = True
        send = partial(
            self._broker.send, lane=lane_of(service), urgent=batch.urgent, batch_id=batch.batch_id
        )
        if self._broker.is_amqp:
            send(batch.text)
        else:
            self._store.keep(batch.batch_id, service, batch.text, {"shipped": samples})
        try:
            if self._broker.is_amqp:
                self._count(service, samples)
            else:
                # If it fails, workers find the batch among the open ones.
                send("")
        except Exception as error:  # noqa: BLE001 - the sink's edge: clients raise anything
            self._incidents.report("fleet", error)

    def _count(self, service: str, samples: int) -> None:
        self._uncounted += samples
        self._store.count(service, "shipped", self._uncounted)
        self._uncounted = 0

    def close(self) -> None:
        """Close the connections."""
        self._broker.close()
        self._store.close()
