"""Worker of a fleet: evaluates batches by the evaluator that applications have."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, ParamSpec, TypeVar

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

from rag_eval_hooks import semconv
from rag_eval_hooks._version import __version__
from rag_eval_hooks.backoff import Backoff
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.distributed.heartbeat import Heartbeat
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.fleet.broker import LANES, Broker, visibility_timeout
from rag_eval_hooks.fleet.dead_letters import DeadLetter, put_dead_letter
from rag_eval_hooks.fleet.replies import REPLY_SECONDS
from rag_eval_hooks.fleet.store import Claim, FleetStore
from rag_eval_hooks.fleet.wire import (
    Batch,
    Evaluated,
    Shipped,
    UnknownSchemaError,
    reply_text,
)
from rag_eval_hooks.redaction import choose_redactor
from rag_eval_hooks.request import Request
from rag_eval_hooks.telemetry.tracing import flush_providers

__all__ = ["StoppedError", "Worker", "worker_settings"]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_DEATHS: Final = 3
"""Workers that may die with a single sample in evaluation; it may be the cause."""
_BUSY_S: Final = 0.5
"""Seconds between two looks at a batch that another worker has."""
_REMEMBER_S: Final = 3600.0
"""Seconds for which finished batches are remembered beyond the time of their last delivery."""
_LEFT: Final = ("shutdown", "spooled")


class StoppedError(Exception):
    """The worker ends: the broker must deliver the batch again."""


class Worker:
    """Evaluates batches, each once. Thread-safe; each thread that calls `process` has a batch.

    Args:
        evals: The evaluator.
        broker: The broker, for samples that are given up.
    """

    def __init__(self, evals: RagEval, broker: Broker) -> None:
        self._evals = evals
        self._broker = broker
        longest = visibility_timeout(evals.config)
        self._store = FleetStore(broker.redis_url, keep=_REMEMBER_S + 2 * longest)
        self._heart = Heartbeat(self._store, broker, evals.incidents)
        self._numbers = itertools.count(1)
        self._one_suspect = threading.Lock()
        self._redactor = choose_redactor(evals.config, None)
        self._longest = longest
        self._is_stopped = False
        self._latest_wait = 0.0
        meter = metrics.get_meter(semconv.TRACER_NAME, __version__, None, semconv.SCHEMA_URL)
        meter.create_observable_gauge(
            semconv.METRIC_FLEET_SIZE, [self._size], "{batch}", "Batches that wait in the broker."
        )
        meter.create_observable_gauge(
            semconv.METRIC_FLEET_AGE, [self._age], "s", "Time that the latest batch waited."
        )

    def process(self, batch_id: str, text: str) -> None:
        """Evaluate the samples of a message, unless that is done; returns once sinks have all.

        Args:
            batch_id: Id of the batch.
            text: Its text; if empty, the store has it.

        Raises:
            StoppedError: The worker ends.
        """
        holder = f"{self._heart.worker}#{next(self._numbers)}"
        claim = self._claim(batch_id, holder)
        if claim is Claim.DONE:
            return
        with self._held(batch_id, holder):
            text = text or self._tried(self._store.text, batch_id) or ""
            if not text:
                # It came again after its end was forgotten.
                self._tried(self._store.finish, batch_id, holder, "", {})
                return
            try:
                batch = Batch.of(text)
            except Exception as error:  # noqa: BLE001 - anything may have written it
                known = isinstance(error, UnknownSchemaError)
                reason = "newer_schema" if known else "unreadable"
                self._give_up(batch_id, holder, text, reason)
                return
            try:
                self._latest_wait = max(0.0, time.time() - batch.sent_at)
                if claim is Claim.SUSPECT:
                    self._evaluate_singly(batch_id, holder, batch)
                else:
                    self._evaluate(batch_id, holder, batch)
            except Exception as error:
                if isinstance(error, StoppedError):
                    raise
                # A fault of ours: given up, it is seen; tried again, it would fail for ever.
                self._evals.incidents.report("fleet batch", error)
                self._give_up(batch_id, holder, text, f"raised:{type(error).__name__}", batch)

    def stop(self, timeout: float) -> None:
        """End: finish what is in flight within `timeout` seconds, and say that it has ended."""
        self._is_stopped = True
        self._evals.shutdown(timeout)
        self._heart.stop()
        self._broker.close()
        self._store.close()

    def _size(self, _: CallbackOptions) -> Iterable[Observation]:
        waiting = self._waiting()
        return () if waiting is None else [Observation(waiting)]

    def _age(self, _: CallbackOptions) -> Iterable[Observation]:
        waiting = self._waiting()
        return () if waiting is None else [Observation(self._latest_wait if waiting else 0.0)]

    def _waiting(self) -> int | None:
        """Return the batches in the broker, or None if it does not answer."""
        if self._is_stopped:
            return None
        try:
            return sum(n for name, n in self._broker.depths().items() if name in LANES)
        except Exception as error:  # noqa: BLE001 - the sink's edge: the broker may be away
            self._evals.incidents.report("fleet", error)
            return None

    def _claim(self, batch_id: str, holder: str) -> Claim:
        """Claim a batch; wait as long as a worker that lives has it."""
        while True:
            claim = self._tried(self._store.claim, batch_id, holder)
            if claim is not Claim.BUSY:
                return claim
            self._sleep(_BUSY_S)

    @contextmanager
    def _held(self, batch_id: str, holder: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._tried(self._store.release, batch_id, holder)
            raise

    def _evaluate_singly(self, batch_id: str, holder: str, batch: Batch) -> None:
        """Evaluate the samples of a batch that a dead worker had: one of them may have killed it.

        One at a time in this process, so that a sample in evaluation here is alone suspected.
        """
        for item in batch.items:
            own, name = f"{batch_id}:{item.sample.sample_id}", item.sample.sample_id
            with self._one_suspect:
                if self._tried(self._store.is_finished, own):
                    continue
                if self._tried(self._store.tried, name) >= _MOST_DEATHS:
                    self._give_up(
                        own, holder, replace(batch, items=[item]).text(), "worker_lost", batch
                    )
                    continue
                self._evaluate(own, holder, replace(batch, items=[item]), is_repeated=True)
                self._tried(self._store.forget_tries, name)
        self._tried(self._store.finish, batch_id, holder, batch.service, {})

    def _evaluate(
        self, batch_id: str, holder: str, batch: Batch, *, is_repeated: bool = False
    ) -> None:
        works = [self._work(batch, item, is_repeated) for item in batch.items]
        for work in works:
            if not self._evals.take(work):
                raise StoppedError
        until = time.monotonic() + self._longest
        while not self._evals.flush(max(1.0, until - time.monotonic())):
            if time.monotonic() >= until and all(work.ending for work in works):
                # A sink hangs; its losses are counted by itself.
                break
        endings = [work.ending for work in works if work.ending is not None]
        if len(endings) < len(works) or any(one.reason in _LEFT for one in endings):
            raise StoppedError
        flush_providers(5.0)
        self._reply(batch, works)
        counts = Counter(ending.entry for ending in endings)
        self._tried(self._store.finish, batch_id, holder, batch.service, counts)

    def _reply(self, batch: Batch, works: Sequence[Request]) -> None:
        """Send results to an application that may wait for them; it may have ended."""
        if batch.reply_to is None:
            return
        results = [
            Evaluated(
                sample_id=made.sample.sample_id,
                outcomes=made.outcomes,
                start=made.start,
                end=made.end,
            )
            for work in works
            if work.ending is not None and (made := work.ending.evaluation) is not None
        ]
        try:
            self._broker.put(batch.reply_to, reply_text(results), expires=REPLY_SECONDS)
        except Exception as error:  # noqa: BLE001 - the sink's edge: the sinks have them anyhow
            self._evals.incidents.report("fleet results", error)

    def _work(self, batch: Batch, item: Shipped, is_repeated: bool) -> Request:
        sample = item.sample
        if self._redactor.active and batch.redaction != self._redactor.mark:
            sample = self._redactor.again(sample)
        work = Request.of(sample)
        work.decision = item.decision
        work.is_final = True
        work.accepted_at = item.accepted_at
        if is_repeated:
            work.probability, work.reason = item.decision.probability, item.decision.reason
        return work

    def _give_up(
        self, batch_id: str, holder: str, text: str, reason: str, batch: Batch | None = None
    ) -> None:
        """Put a message among the dead letters, and count its samples."""
        service = "" if batch is None else batch.service
        letter = DeadLetter(key=batch_id, reason=reason, service=service, at=time.time(), text=text)
        self._tried(put_dead_letter, self._broker, letter)
        samples = max(1, len(letter.samples))
        self._tried(self._store.finish, batch_id, holder, service, {f"dead:{reason}": samples})

    def _tried(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call until it does not fail: without Redis or broker no batch can be finished."""
        backoff = Backoff()
        while True:
            try:
                return call(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the sink's edge: clients raise anything
                self._evals.incidents.report("fleet", error)
            self._sleep(backoff.failed())

    def _sleep(self, seconds: float) -> None:
        if self._is_stopped:
            raise StoppedError
        time.sleep(seconds)


def worker_settings() -> RagEvalConfig:
    """Return the settings of this process as a worker has them.

    It evaluates, has no spool, as the broker holds the samples, and shares the budget by Redis.
    """
    config = RagEvalConfig(evaluator="thread", spool=None)
    if not config.budget or config.budget_path is not None:
        return config
    return config.model_copy(
        update={"budget": {**config.budget, "path": Broker.of(config).redis_url}}
    )
