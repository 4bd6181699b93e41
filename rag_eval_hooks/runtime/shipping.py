"""Shipping of decided samples to the workers of a fleet, in micro-batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.trace import TracerProvider

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.fleet.broker import BATCH_SAMPLES, Broker
from rag_eval_hooks.fleet.publisher import Outgoing, Publisher
from rag_eval_hooks.fleet.replies import ReplyReader
from rag_eval_hooks.fleet.wire import Batch, Evaluated, Shipped
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.runtime.build import Parts
from rag_eval_hooks.threads import DaemonExecutor

__all__ = ["BROKER_DOWN", "Shipper", "shipper_of"]

BROKER_DOWN: Final = "broker"
"""Reason of samples that the broker did not take."""
_AGE_S: Final = 0.25
"""Seconds that a sample waits for others to travel with."""
_STORED_S: Final = 2.0
"""Seconds after which the spool has stored a sample."""
_UNNAMED: Final = "unknown_service"


@dataclass(slots=True, eq=False)
class _Gathering:
    urgent: bool
    sent: asyncio.Future[str | None]
    items: list[Shipped] = field(default_factory=list)


def shipper_of(parts: Parts) -> Shipper | None:
    """Return the shipper, or None if this process evaluates."""
    if parts.broker is None:
        return None
    return Shipper(
        parts.broker, parts.config, parts.tracer_provider, parts.redactor.mark, parts.incidents
    )


class Shipper:
    """Gathers samples into batches by number and age, and publishes them. In one event loop.

    Args:
        broker: The broker.
        config: Settings of patience.
        provider: Provider of the RAG spans, whose resource names the service.
        redaction: Mark of the redaction of the samples.
        incidents: Counts failures of the broker.
    """

    def __init__(
        self,
        broker: Broker,
        config: RagEvalConfig,
        provider: TracerProvider | None,
        redaction: str,
        incidents: Incidents,
    ) -> None:
        self._broker = broker
        self._publisher = Publisher(
            broker, comes_again=config.spool is not None, incidents=incidents
        )
        self._provider = provider
        self._redaction = redaction
        self._incidents = incidents
        # What is on disk need not wait in memory for the broker; but it may not be there yet.
        self._patience = limits.SINK_RETRY_SECONDS if config.spool is None else _STORED_S
        self._gathering: dict[bool, _Gathering] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._sender = DaemonExecutor("rag-eval-hooks-ship")
        self._waiting: dict[str, asyncio.Future[Evaluated]] = {}
        self._replies: ReplyReader | None = None
        self._returns = config.results == "return"
        self._hold_timeout = config.hold_timeout

    @property
    def is_down(self) -> bool:
        """True if the broker failed, until it is tried again."""
        return self._publisher.wait > 0.0

    async def result(self, item: Shipped, *, urgent: bool) -> Evaluated | str | None:
        """Publish a sample, and wait for its result if results return.

        Returns:
            The result; None if the broker has the sample and no result came within
            `hold_timeout`; or the reason why the broker has it not.
        """
        if not self._returns:
            return await self._ship(item, urgent)
        loop, name = asyncio.get_running_loop(), item.sample.sample_id
        if self._replies is None:

            def take(results: Sequence[Evaluated]) -> None:
                loop.call_soon_threadsafe(self._take, results)

            self._replies = ReplyReader(self._broker, take, self._incidents)
        returned: asyncio.Future[Evaluated] = loop.create_future()
        self._waiting[name] = returned
        try:
            reason = await self._ship(item, urgent)
            if reason is not None:
                return reason
            async with asyncio.timeout(self._hold_timeout):
                return await returned
        except TimeoutError:
            return None
        finally:
            self._waiting.pop(name, None)

    def _take(self, results: Sequence[Evaluated]) -> None:
        for one in results:
            waiting = self._waiting.get(one.sample_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(one)

    async def _ship(self, item: Shipped, urgent: bool) -> str | None:
        """Publish a sample with others.

        Returns:
            None once the broker has it, or the reason why it has it not.
        """
        loop = asyncio.get_running_loop()
        batch = self._gathering.get(urgent)
        if batch is None:
            batch = self._gathering[urgent] = _Gathering(urgent, loop.create_future())
            loop.call_later(_AGE_S, self._send, batch)
        batch.items.append(item)
        if len(batch.items) == BATCH_SAMPLES:
            self._send(batch)
        reason: str | None = await asyncio.shield(batch.sent)
        return reason

    def _send(self, batch: _Gathering) -> None:
        if self._gathering.get(batch.urgent) is not batch:
            return
        del self._gathering[batch.urgent]
        task = asyncio.ensure_future(self._deliver(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _deliver(self, batch: _Gathering) -> None:
        try:
            reason = await self._published(batch)
        except Exception as error:  # noqa: BLE001 - the host's edge: metadata hold its objects
            self._incidents.report("ship", error)
            reason = "capture_failed"
        batch.sent.set_result(reason)

    async def _published(self, batch: _Gathering) -> str | None:
        message = Batch(
            service=self._service(),
            items=batch.items,
            redaction=self._redaction,
            reply_to=None if self._replies is None else self._replies.queue,
        )
        outgoing = Outgoing(message, message.text(), batch.urgent)
        until = time.monotonic() + self._patience
        while True:
            if not self.is_down and await self._by_sender(self._publisher.publish, outgoing):
                return None
            left = until - time.monotonic()
            if left <= 0.0:
                has_it = await self._by_sender(self._publisher.give_up, outgoing)
                return None if has_it else BROKER_DOWN
            await asyncio.sleep(min(left, self._publisher.wait))

    async def _by_sender(self, call: Callable[[Outgoing], bool], outgoing: Outgoing) -> bool:
        return await asyncio.wrap_future(self._sender.submit(call, outgoing))

    def _service(self) -> str:
        provider: Any = self._provider or trace.get_tracer_provider()
        resource = getattr(provider, "resource", None)
        named = None if resource is None else resource.attributes.get("service.name")
        return str(named or _UNNAMED)

    def close(self) -> None:
        """Close the connections."""
        if self._replies is not None:
            self._replies.stop()
        self._sender.shutdown()
        self._publisher.close()
