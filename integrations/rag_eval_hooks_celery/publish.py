"""Sends samples to workers and receives the results."""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import suppress
from typing import Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.decision import Decision
from rag_eval_hooks.delivery.codec import sample_to_text
from rag_eval_hooks.delivery.sink import pause_after
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.request import BROKER_DOWN, Ending
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.threads import DaemonExecutor
from rag_eval_hooks_celery.app import (
    QUEUE,
    SCHEMA,
    TASK,
    Fleet,
    result_from_text,
    visibility_timeout,
)

_POLL_S: Final = 0.1
_PAUSE_S: Final = 1.0
_STORED_S: Final = 2.0  # seconds to retry sending; by then, the spool has stored the sample
_NAMESPACE: Final = uuid.UUID("5a1e8a3c-54d7-4f0b-9c55-5d1f3a0f7e21")


class Publisher:
    """Sends samples of this process to workers. Call all coroutines in the same event loop."""

    def __init__(self, fleet: Fleet, incidents: Incidents, mark: str) -> None:
        self._fleet = fleet
        self._incidents = incidents
        self._mark = mark
        self._resend_after = visibility_timeout(fleet.config)
        has_spool = fleet.config.spool is not None
        self._patience = _STORED_S if has_spool else limits.SINK_RETRY_SECONDS
        self._app = fleet.app(with_backend=False)
        self._sender = DaemonExecutor("rag-eval-hooks-ship")
        self._reader = DaemonExecutor("rag-eval-hooks-results")
        self._backend: Any = None
        self._is_closed = False
        self._failures = 0
        self._retry_at = 0.0
        self._waiting: dict[str, asyncio.Future[dict[str, Any] | Ending]] = {}
        self._polling: asyncio.Task[None] | None = None

    @property
    def is_down(self) -> bool:
        return time.monotonic() < self._retry_at

    async def evaluate(
        self, sample: Sample, decision: Decision, accepted: float
    ) -> dict[str, Any] | Ending:
        """Send a sample to a worker, and wait for the result without a time limit.

        Return an `Ending` if the broker does not accept the sample, or if the worker fails.
        """
        task_id = str(uuid.uuid5(_NAMESPACE, f"{sample.sample_id}:{accepted}"))
        urgent = decision.top.reason.startswith("tail:")
        result = self._waiting[task_id] = asyncio.get_running_loop().create_future()
        try:
            text = sample_to_text(sample, decision, self._mark, schema=SCHEMA, accepted=accepted)
            while True:
                # Send the task again if no result arrives within the visibility timeout. The task
                # id is the same, so a worker that finds a result does not evaluate again.
                if not await self._sent(task_id, text, urgent=urgent):
                    return Ending.dropped(BROKER_DOWN)
                if self._polling is None or self._polling.done():
                    self._polling = asyncio.create_task(self._poll())
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._resend_after):
                        return await asyncio.shield(result)
        finally:
            del self._waiting[task_id]

    async def _sent(self, task_id: str, text: str, *, urgent: bool) -> bool:
        until = time.monotonic() + self._patience
        while True:
            if not self.is_down:
                sent = self._sender.submit(self._send, task_id, text, urgent)
                if await asyncio.wrap_future(sent):
                    return True
            left = until - time.monotonic()
            if left <= 0.0:
                return False
            await asyncio.sleep(min(left, max(0.0, self._retry_at - time.monotonic())))

    def _send(self, task_id: str, text: str, urgent: bool) -> bool:
        if self.is_down:
            return False
        try:
            self._app.send_task(
                TASK,
                args=(text,),
                task_id=task_id,
                queue=QUEUE,
                compression="zlib",
                priority=self._fleet.priority(urgent=urgent),
                retry=False,
                # By default, Celery copies the text to message headers.
                argsrepr="",
                kwargsrepr="",
            )
        except Exception as error:  # noqa: BLE001 - clients raise any exception
            self._incidents.report("fleet", error)
            self._failures += 1
            self._retry_at = time.monotonic() + pause_after(self._failures)
            return False
        self._failures = 0
        return True

    async def _poll(self) -> None:
        while self._waiting:
            try:
                found = self._reader.submit(self._read, frozenset(self._waiting))
                for task_id, meta in await asyncio.wrap_future(found):
                    self._finish(task_id, meta)
            except Exception as error:  # noqa: BLE001 - clients raise any exception
                self._incidents.report("fleet results", error)
                await asyncio.sleep(_PAUSE_S)

    def _read(self, task_ids: frozenset[str]) -> list[tuple[str, dict[str, Any]]]:
        if self._backend is None:
            self._backend = self._fleet.app().backend
        get_many = self._backend.get_many
        found = list(get_many(set(task_ids), interval=_POLL_S, max_iterations=1))
        for task_id, _ in found:
            # Do not delete the result yet, because a resent task must find the result.
            key = self._backend.get_key_for_task(task_id)
            self._backend.expire(key, round(self._resend_after))
        return found

    def _finish(self, task_id: str, meta: dict[str, Any]) -> None:
        result = self._waiting.get(task_id)
        if result is None or result.done():
            return
        try:
            result.set_result(result_from_text(meta["result"]))
        except Exception as error:  # noqa: BLE001 - the task failed, or has another version
            self._incidents.report("fleet results", error)
            result.set_result(Ending.dropped("worker_failed"))

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._sender.submit(self._app.close)
        self._sender.shutdown()
        self._reader.shutdown()
