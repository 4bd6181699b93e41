"""`setup_tracing`: configures OpenTelemetry providers when the application calls it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs, metrics, trace

from rag_eval_hooks.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_MARK = "made_by_rag_eval_hooks"


def setup_tracing(
    endpoint: str | None = None, console: bool = False, *, service_name: str | None = None
) -> TracerProvider:
    """Create OpenTelemetry providers with exporters, and make these providers global.

    Call `setup_tracing` if the application has no OpenTelemetry providers. With OTLP, the call also
    creates providers for metrics and log events, unless these providers are already set. If the
    receiver rejects metrics or log events with HTTP status 404, 405 or 501, the exporter reports no
    error.

    Args:
        endpoint: Base URL of an OTLP/HTTP receiver. The default is the value of the
            `OTEL_EXPORTER_OTLP_*` variables, or `http://localhost:4318`. With `console=True` and no
            `endpoint`, there is no OTLP exporter.
        console: Whether to print spans to stdout.
        service_name: Service name if neither `OTEL_SERVICE_NAME` nor `OTEL_RESOURCE_ATTRIBUTES`
            names the service.

    Returns:
        The tracer provider. `RagEval.flush` and `RagEval.shutdown` flush all providers that this
        function created. The providers shut down at exit.

    Raises:
        ImportError: The extra `otel` is not installed.
        ConfigError: `endpoint` is not an HTTP URL.
        RuntimeError: A tracer provider is already set.
    """
    if endpoint is not None and not str(endpoint).startswith(("http://", "https://")):
        wants = (
            "a URL that starts with http:// or https://, or None; "
            "to name the service, pass service_name="
        )
        raise ConfigError("endpoint", endpoint, wants)
    try:
        from rag_eval_hooks.telemetry import sdk
    except ImportError as error:
        raise missing_extra("setup_tracing", "otel") from error
    provider, others = sdk.set_providers(endpoint, console, service_name)
    for one in (provider, *others):
        setattr(one, _MARK, True)
    return provider


def global_providers() -> list[Any]:
    return [trace.get_tracer_provider(), metrics.get_meter_provider(), _logs.get_logger_provider()]


def flush_providers(timeout: float, providers: Iterable[Any] | None = None) -> bool:
    deadline = time.monotonic() + timeout
    if providers is None:
        providers = [one for one in global_providers() if getattr(one, _MARK, False)]
    flushes = filter(None, (getattr(one, "force_flush", None) for one in providers))
    # Limit the wait here, because exporters may exceed their timeout.
    threads = [Thread(target=_flush, args=(flush, timeout), daemon=True) for flush in flushes]
    # At interpreter exit no thread can start; providers then flush themselves.
    with contextlib.suppress(RuntimeError):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _flush(flush: Callable[[int], object], timeout: float) -> None:
    # Exporters log their own exceptions.
    with contextlib.suppress(Exception):
        flush(max(1, int(1000 * timeout)))
