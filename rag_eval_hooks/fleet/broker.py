"""Celery's side of the fleet: its queues, the application that names them, and publishing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import BROKER, RagEvalConfig
from rag_eval_hooks.errors import ConfigError

if TYPE_CHECKING:
    from celery import Celery

__all__ = [
    "BATCH_SAMPLES",
    "DEAD",
    "LANES",
    "TASK",
    "Broker",
    "celery_app",
    "lane_of",
    "visibility_timeout",
]

TASK: Final = "rag_eval_hooks.evaluate"
DEAD: Final = "rag_eval.dead"
"""Queue of the samples that no worker survived or could read."""
LANES: Final = tuple(f"rag_eval.{number}" for number in range(8))
"""Queues that workers read in turn. A service has one of them, so that none starves the others."""
BATCH_SAMPLES: Final = 16
"""Samples that travel together at most."""
_TIMEOUT: Final = 10.0
"""Seconds for one reply of the broker."""
_AMQP: Final = ("amqp", "amqps", "pyamqp")
_REDIS: Final = ("redis", "rediss")


def visibility_timeout(config: RagEvalConfig) -> float:
    """Return the seconds after which Redis delivers a batch of a lost worker to another one.

    Longer than the slowest batch: each sample before it takes all of `sample_timeout`, and sinks
    take all of `SINK_RETRY_SECONDS`.
    """
    return BATCH_SAMPLES * config.sample_timeout + limits.SINK_RETRY_SECONDS + _TIMEOUT


def lane_of(service: str) -> str:
    """Return the queue in which the batches of a service wait."""
    digest = hashlib.blake2b(service.encode("utf-8", "replace"), digest_size=8).digest()
    return LANES[int.from_bytes(digest) % len(LANES)]


def celery_app(broker: str, config: RagEvalConfig) -> Celery:
    """Return an application of Celery for samples.

    Args:
        broker: URL of Redis or RabbitMQ.
        config: Settings of timeouts and of the samples that a process evaluates at once.

    Raises:
        ImportError: The extra is not installed.
    """
    try:
        from celery import Celery
    except ImportError as error:
        raise ImportError(
            f'evaluator="celery" needs Celery ({error}): pip install "rag-eval-hooks[celery]"'
        ) from error
    app = Celery("rag_eval_hooks", set_as_current=False)
    seconds = visibility_timeout(config)
    amqp = _is_amqp(broker)
    options = (
        {"confirm_publish": True, "write_timeout": _TIMEOUT}
        if amqp
        else {
            "visibility_timeout": seconds,
            "unacked_restore_interval": max(1, int(seconds / 20)),
            "unacked_restore_throttle": 1,
            "socket_timeout": _TIMEOUT,
            "socket_connect_timeout": _TIMEOUT,
        }
    )
    app.conf.update(
        # Celery prefers its own variables to `broker_url`, which may name another broker.
        broker_read_url=broker,
        broker_write_url=broker,
        broker_transport_options=options,
        broker_connection_timeout=_TIMEOUT,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_queues=[_queue(name, is_amqp=amqp) for name in LANES],
        task_default_queue=LANES[0],
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_pool="threads",
        worker_concurrency=config.judge_concurrency,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
    )
    return app


def _queue(name: str, *, is_amqp: bool) -> Any:
    from kombu import Queue

    arguments = {"x-max-priority": 9} if is_amqp else None
    return Queue(name, routing_key=name, queue_arguments=arguments)


def _is_amqp(url: str) -> bool:
    return url.partition(":")[0] in _AMQP


class Broker:
    """Queues of the fleet on one broker. Thread-safe; one connection, opened when it is needed.

    Args:
        app: Application of Celery.
        redis_url: Redis that holds limits and counts, and as a broker the batches.
    """

    def __init__(self, app: Celery, redis_url: str) -> None:
        self.app = app
        self.redis_url = redis_url
        self._url = str(app.conf.broker_write_url or "")
        self._lock = threading.Lock()
        self._connection: Any = None

    @classmethod
    def of(cls, config: RagEvalConfig, app: Celery | None = None) -> Broker:
        """Return the broker that settings name, or a Celery application of the user's.

        Raises:
            ConfigError: `broker` is missing, or names none that can be used.
            ImportError: The extra is not installed.
        """
        if app is not None:
            urls = [str(app.conf.broker_write_url), str(app.conf.result_backend or "")]
        elif config.broker is None:
            raise ConfigError("broker", None, BROKER)
        else:
            urls = [part.strip() for part in config.broker.get_secret_value().split(",")]
        broker, redis = urls[0], next((url for url in urls if _is_redis(url)), None)
        if redis is None or not (_is_redis(broker) or _is_amqp(broker)):
            wants = BROKER if app is None else "a broker, and with RabbitMQ a result_backend: Redis"
            raise ConfigError("broker", "**********", wants)
        return cls(celery_app(broker, config) if app is None else app, redis)

    @property
    def is_amqp(self) -> bool:
        """True for RabbitMQ."""
        return _is_amqp(self._url)

    def send(self, text: str, *, lane: str, urgent: bool, batch_id: str) -> None:
        """Publish a batch, and return once the broker has confirmed it.

        Args:
            text: The batch; empty if its text is in `FleetStore`, as it is with Redis.
            lane: Queue that it waits in.
            urgent: Whether it goes before batches that are not.
            batch_id: Unique id; equal for each try to publish the same batch.

        Raises:
            Exception: The broker did not confirm it.
        """
        # The first is served first by Redis, the last by RabbitMQ.
        priority = (9 if urgent else 3) if self.is_amqp else (0 if urgent else 6)
        with self._producer() as producer:
            self.app.send_task(
                TASK,
                args=(text,),
                task_id=batch_id,
                producer=producer,
                queue=_queue(lane, is_amqp=self.is_amqp),
                serializer="json",
                compression="zlib",
                priority=priority,
                ignore_result=True,
                retry=False,
                # Its text would stand in a header of the message.
                argsrepr="",
                kwargsrepr="",
                **self._confirmed,
            )

    def put(self, queue: str, message: object, *, expires: float | None = None) -> None:
        """Publish a message that is no task, compressed; see `send`.

        Args:
            queue: Name of the queue.
            message: The message, of plain types.
            expires: Seconds after which an unused queue ends, or None.
        """
        with self._producer() as producer:
            producer.publish(
                message,
                routing_key=queue,
                exchange="",
                serializer="json",
                compression="zlib",
                declare=[self.queue(queue, expires=expires)],
                **self._confirmed,
            )

    def queue(self, name: str, *, expires: float | None = None) -> Any:
        """Return a queue that holds no tasks; see `put`."""
        from kombu import Queue

        return Queue(name, exchange="", routing_key=name, expires=expires)

    @property
    def _confirmed(self) -> dict[str, Any]:
        return {"confirm_timeout": _TIMEOUT} if self.is_amqp else {}

    def depths(self) -> Mapping[str, int]:
        """Return the messages that wait in each queue, without those that workers have.

        Raises:
            Exception: The broker does not answer.
        """
        from kombu import Queue

        found = {}
        with self._open() as connection:
            for name in (*LANES, DEAD):
                # A channel of RabbitMQ ends with the first queue that it does not know.
                with connection.channel() as channel, suppress(*connection.channel_errors):
                    answer = Queue(name)(channel).queue_declare(passive=True)
                    found[name] = int(answer.message_count)
        return found

    @contextmanager
    def _producer(self) -> Iterator[Any]:
        with self._open() as connection, connection.Producer(auto_declare=False) as producer:
            yield producer

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Lend the connection to one thread; it is opened anew after an error."""
        with self._lock:
            if self._connection is None:
                self._connection = self.app.connection_for_write()
            try:
                self._connection.ensure_connection(max_retries=1, timeout=_TIMEOUT)
                yield self._connection
            except BaseException:
                self._drop()
                raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.collect(1.0)

    def forked(self) -> None:
        """Leave the connection to the parent, in a forked child."""
        self._lock = threading.Lock()
        self._connection = None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()


def _is_redis(url: str) -> bool:
    return url.partition(":")[0] in _REDIS
