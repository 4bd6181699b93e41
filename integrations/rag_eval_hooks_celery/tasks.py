"""The worker, which `celery -A rag_eval_hooks_celery.tasks worker` starts."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import Any, Final

from celery import Task, signals, states
from celery.exceptions import Reject

from rag_eval_hooks.config import limits
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import otlp_endpoint
from rag_eval_hooks.errors import RedactionError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.redaction import choose_redactor
from rag_eval_hooks.request import Ending
from rag_eval_hooks.telemetry.tracing import setup_tracing
from rag_eval_hooks_celery.app import (
    TASK,
    fleet_of,
    request_from_wire,
    result_to_text,
    visibility_timeout,
)

_MOST_TRIES: Final = 3  # number of crashed workers after which a sample is dropped
_config = RagEvalConfig(run_on="thread")
app = fleet_of(_config).app()
_one_suspect = threading.Lock()


@functools.cache
def _evals() -> RagEval:
    return RagEval(config=_config, sinks=_config.sinks)


@app.task(name=TASK, bind=True)
def evaluate(task: Task[Any, Any], text: str) -> str:
    task_id = str(task.request.id)
    meta = task.backend.get_task_meta(task_id, cache=False)
    if meta["status"] == states.SUCCESS:
        return str(meta["result"])
    tries = meta["result"]["tries"] if meta["status"] == states.STARTED else 0
    if not tries:
        return _evaluate(task, text, tries)
    # The sample may have crashed a worker, so evaluate only one such sample at a time.
    with _one_suspect:
        if tries >= _MOST_TRIES:
            return result_to_text(Ending.dropped("gave_up"))
        result = _evaluate(task, text, tries)
        # Store the result before the next sample starts, because that sample may crash this worker.
        task.update_state(state=states.SUCCESS, meta=result)
        return result


def _evaluate(task: Task[Any, Any], text: str, tries: int) -> str:
    # Count the attempt first, because the sample may crash this process.
    task.update_state(state=states.STARTED, meta={"tries": tries + 1})
    try:
        request = request_from_wire(text, choose_redactor(_config, None))
    except Exception as error:  # noqa: BLE001 - any program may have sent the message
        _evals().incidents.report("fleet", error)
        is_redaction = isinstance(error, RedactionError)
        reason = "redaction_failed" if is_redaction else "unreadable"
        return result_to_text(Ending.dropped(reason))
    accepted = _evals()._pipeline.submit(request)
    # If a spool is set, the disk has the results, so do not wait for a hanging sink.
    patience = limits.SINK_SECONDS if _config.spool else visibility_timeout(_config)
    until = time.monotonic() + patience
    while accepted and not _evals().flush(1.0):
        if time.monotonic() >= until and request.ending is not None:
            # The queue of the hanging sink counts its lost results.
            break
    if request.ending is None or request.ending.is_left:
        # This worker is shutting down, so another worker must evaluate the sample.
        task.update_state(state=states.STARTED, meta={"tries": tries})
        raise Reject("shutdown", requeue=True)
    return result_to_text(request.ending)


@signals.worker_init.connect
def _begin(**_: object) -> None:
    if otlp_endpoint() is not None:
        # Keep the providers if an instrumentor has already set them.
        with contextlib.suppress(RuntimeError, ImportError):
            setup_tracing(service_name="rag-eval-worker")
    # If a setting is wrong, raise at start-up.
    _evals()


@signals.worker_process_init.connect
def _begin_child(**_: object) -> None:
    _evals.cache_clear()


@signals.worker_shutdown.connect
def _end(**_: object) -> None:
    if _evals.cache_info().currsize:
        _evals().shutdown(_config.exit_timeout)
