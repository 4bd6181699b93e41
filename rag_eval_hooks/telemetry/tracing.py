"""`setup_tracing`: the one helper that configures a tracer provider, only when called."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry import trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ["setup_tracing"]


def setup_tracing(
    otlp_endpoint: str | None = None, console: bool = False, path: str | Path | None = None
) -> TracerProvider:
    """Make a tracer provider with exporters and set it as the global one.

    For applications that have no tracing yet. An application that has keeps its own provider
    and does not call this.

    Args:
        otlp_endpoint: Base URL of an OTLP/HTTP receiver, such as `http://localhost:4318`. With
            nothing given at all, the standard `OTEL_EXPORTER_OTLP_*` variables decide, and
            without these `http://localhost:4318`.
        console: Whether to print spans.
        path: File to append spans to, one OTLP/JSON request a line: the Collector's file
            format, which Jaeger's UI opens too.

    Returns:
        The provider; call `shutdown` on it, or let it do so at exit.

    Raises:
        ImportError: The extra `otel` is not installed.
        RuntimeError: A provider is already set, which must not be replaced.
    """
    try:
        from rag_eval_hooks.telemetry.sdk import build_provider
    except ImportError as error:
        raise ImportError(
            f'setup_tracing needs the SDK ({error}): pip install "rag-eval-hooks[otel]"'
        ) from error
    provider = build_provider(otlp_endpoint, console, path)
    trace.set_tracer_provider(provider)
    if trace.get_tracer_provider() is not provider:
        provider.shutdown()
        raise RuntimeError("a tracer provider is already set; add span processors to that one")
    return provider
