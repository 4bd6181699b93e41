"""Application of Celery for workers: `celery -A rag_eval_hooks.distributed worker`."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from celery import Task, signals
from celery.exceptions import Reject

from rag_eval_hooks.config.sources import otlp_endpoint
from rag_eval_hooks.distributed.worker import StoppedError, Worker, worker_settings
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.fleet.broker import TASK, Broker
from rag_eval_hooks.telemetry.tracing import setup_tracing

__all__ = ["app"]

_config = worker_settings()
_broker = Broker.of(_config)
app = _broker.app


@functools.cache
def _worker() -> Worker:
    return Worker(RagEval(config=_config), _broker)


@app.task(name=TASK, bind=True)
def evaluate(task: Task[Any, Any], text: str) -> None:
    """Evaluate a batch."""
    try:
        _worker().process(str(task.request.id), text)
    except StoppedError as error:
        raise Reject(error, requeue=True) from None


@signals.worker_init.connect
def _begin(**_: object) -> None:
    if otlp_endpoint() is not None:
        # An instrumentor may have set providers.
        with contextlib.suppress(RuntimeError, ImportError):
            setup_tracing(service_name="rag-eval-worker")
    # A wrong setting ends the worker at its start.
    _worker()


@signals.worker_process_init.connect
def _begin_child(**_: object) -> None:
    _worker.cache_clear()


@signals.worker_shutdown.connect
def _end(**_: object) -> None:
    if _worker.cache_info().currsize:
        _worker().stop(_config.exit_timeout)
