"""The Celery application, and the messages between applications and workers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import BROKER, RagEvalConfig
from rag_eval_hooks.delivery.codec import is_redacted_differently, sample_of
from rag_eval_hooks.errors import ConfigError, missing_extra
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict

if TYPE_CHECKING:
    from celery import Celery

TASK: Final = "rag_eval_hooks.evaluate"
QUEUE: Final = "rag_eval"
SCHEMA: Final = 1
_TIMEOUT_S: Final = 10.0  # for a reply from the broker or the result backend
_KEEP_S: Final = 86_400  # seconds after which the backend deletes a result
_REDIS: Final = ("redis", "rediss", "sentinel")
_AMQP: Final = ("amqp", "amqps", "pyamqp")


def visibility_timeout(config: RagEvalConfig) -> float:
    # Longer than the slowest evaluation, including delivery to sinks.
    return config.sample_timeout + limits.SINK_RETRY_SECONDS + _TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Fleet:
    broker: str
    backend: str
    config: RagEvalConfig

    def app(self, *, with_backend: bool = True) -> Celery:
        # Without a backend, the application can only send tasks.
        try:
            from celery import Celery
            from kombu import Queue
        except ImportError as error:
            raise missing_extra('run_on="celery"', "celery") from error
        # With a Redis backend, Celery would subscribe to the result of each sent task.
        backend = self.backend if with_backend else "disabled://"
        app = Celery("rag_eval_hooks", backend=backend, set_as_current=False)
        seconds = visibility_timeout(self.config)
        priorities = {"x-max-priority": 9} if self.is_amqp else None
        sockets = {"socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S}
        app.conf.update(
            # Celery's environment variables would override `broker_url`.
            broker_read_url=self.broker,
            broker_write_url=self.broker,
            broker_transport_options=(
                {"confirm_publish": True, "write_timeout": _TIMEOUT_S}
                if self.is_amqp
                else {"visibility_timeout": seconds, "unacked_restore_interval": 5, **sockets}
            ),
            broker_connection_timeout=_TIMEOUT_S,
            broker_connection_retry_on_startup=True,
            broker_connection_max_retries=None,
            result_backend_transport_options=sockets,
            result_expires=_KEEP_S,
            result_compression="zlib" if with_backend else None,
            task_queues=[Queue(QUEUE, routing_key=QUEUE, queue_arguments=priorities)],
            task_default_queue=QUEUE,
            task_serializer="json",
            result_serializer="json",
            accept_content=["json"],
            task_acks_late=True,
            task_reject_on_worker_lost=True,
            worker_pool="threads",
            worker_concurrency=self.config.judge_concurrency,
            worker_prefetch_multiplier=1,
            worker_hijack_root_logger=False,
            worker_enable_remote_control=False,
            worker_send_task_events=False,
        )
        return app

    @property
    def is_amqp(self) -> bool:
        return _kind(self.broker) in _AMQP

    def priority(self, *, urgent: bool) -> int:
        # Redis serves priority 0 first, and RabbitMQ serves priority 9 first.
        if self.is_amqp:
            return 9 if urgent else 3
        return 0 if urgent else 6


def fleet_of(config: RagEvalConfig, app: Celery | None = None) -> Fleet:
    if app is not None:
        broker, backend = str(app.conf.broker_write_url), str(app.conf.result_backend or "")
    elif config.broker is None:
        raise ConfigError("broker", None, BROKER)
    else:
        broker, _, backend = map(str.strip, config.broker.get_secret_value().partition(","))
    if not backend and _kind(broker) in _REDIS:
        backend = broker
    if _kind(broker) not in (*_REDIS, *_AMQP) or _kind(backend) not in _REDIS:
        wants = (
            BROKER if app is None else "a Redis broker, or RabbitMQ with Redis as result_backend"
        )
        raise ConfigError("broker", "**********", wants)
    fleet = Fleet(broker, backend, config)
    # Fail at start-up if the extra is not installed.
    fleet.app()
    return fleet


def _kind(url: str) -> str:
    return url.partition(":")[0]


def request_from_wire(text: str, redactor: Redactor) -> Request:
    data = json.loads(text)
    if not 1 <= data["schema"] <= SCHEMA:
        raise ValueError(f"The schema is {data['schema']!r}, but must be 1 to {SCHEMA}.")
    sample, decision = sample_of(data)
    request = Request.of(
        redactor.again(sample) if is_redacted_differently(redactor, data) else sample
    )
    request.decision, request.is_final = decision, True
    request.accepted_at = float(data["accepted"])
    return request


def result_to_text(ending: Ending) -> str:
    plain: dict[str, Any] = {"schema": SCHEMA, "column": ending.column, "reason": ending.reason}
    if (evaluation := ending.evaluation) is not None:
        outcomes = {name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()}
        plain |= {"start": evaluation.start, "end": evaluation.end, "outcomes": outcomes}
    return json.dumps(plain, default=str, separators=(",", ":"))


def result_from_text(text: str) -> dict[str, Any] | Ending:
    data = json.loads(text)
    if "outcomes" not in data:
        return Ending(Column(data["column"]), str(data["reason"]))
    outcomes = {name: outcome_from_dict(one) for name, one in data["outcomes"].items()}
    return {"outcomes": outcomes, "start": int(data["start"]), "end": int(data["end"])}
