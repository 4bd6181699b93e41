"""Check versions, packages of extras, the receiver of spans, and the clock."""

from __future__ import annotations

import http.client
import logging
import platform
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import Final
from urllib.parse import urlsplit

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS

__all__ = ["check_clock", "check_exporter", "check_extras", "check_python"]

# One package of each extra, whose presence shows that the extra is installed.
_EXTRAS: Final[Mapping[str, str]] = {
    "langchain": "langchain-core",
    "llama-index": "llama-index-core",
    **{
        row.extra: row.package
        for table in (JUDGES, EMBEDDERS, TOKEN_SCORERS)
        for row in table.rows
        if row.extra is not None and row.package is not None
    },
    "privacy": "phonenumbers",
    "otel": "opentelemetry-sdk",
}
_MAX_SKEW: Final = 30.0
"""Seconds; beyond, spans of several machines no longer line up."""
_RELEASED: Final = 1_735_689_600
"""Start of 2025 as Unix time: no clock that is right is before this package."""


def check_python(_setup: Setup) -> Iterator[CheckResult]:
    """Report the versions of the packages that are always used."""
    parts = {name: _version(name) for name in ("opentelemetry-api", "pydantic")}
    packages = ", ".join(f"{name} {version}" for name, version in parts.items())
    text = f"rag-eval-hooks {__version__}, Python {platform.python_version()}, {packages}"
    figures = {"rag-eval-hooks": __version__, "python": platform.python_version(), **parts}
    yield CheckResult(CheckStatus.OK, text, figures=figures)


def check_extras(setup: Setup) -> Iterator[CheckResult]:
    """Report the extras that are installed, and those that the settings need."""
    versions = {extra: _version(package) for extra, package in _EXTRAS.items()}
    needed = _needed(setup.config)
    for extra, version in versions.items():
        package = _EXTRAS[extra]
        if version is not None:
            text, status, advice = f"{package} {version}", CheckStatus.OK, ""
        elif extra in needed:
            text, status = f"{package} is missing; {needed[extra]} needs it", CheckStatus.FAILED
            advice = f'pip install "rag-eval-hooks[{extra}]"'
        else:
            text, status, advice = "not installed, not needed", CheckStatus.NOTE, ""
        yield CheckResult(status, text, advice, check=f"extra {extra}")


def _needed(config: RagEvalConfig) -> dict[str, str]:
    """Return the extras that the settings need, each with the setting that needs it."""
    needed: dict[str, str] = {}
    for table in (JUDGES, EMBEDDERS, TOKEN_SCORERS):
        value = getattr(config, table.setting)
        extra = table.find(value).extra
        if extra is not None:
            needed[extra] = f"{table.setting}={value}"
    phones = any(name in ("all", "phone") for name in config.redact)
    if phones:
        needed["privacy"] = "redact"
    return needed


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


class _Statuses(logging.Handler):
    """Collects the status codes that an exporter logs, and nothing else of its messages."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.codes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.codes += re.findall(r"code: (\d{3})", record.getMessage())


def check_exporter(setup: Setup) -> Iterator[CheckResult]:
    """Send one test span by the SDK's own exporter."""
    if setup.otlp_endpoint is None:
        text = "no OTLP endpoint is set; spans go where the application's provider sends them"
        advice = "to check one: --otlp-endpoint URL, or OTEL_EXPORTER_OTLP_ENDPOINT"
        yield CheckResult(CheckStatus.NOTE, text, advice)
        return
    try:
        accepted, codes = _send(setup.otlp_endpoint, setup.timeout)
    except ImportError:
        text = "the SDK and its OTLP exporter are not installed"
        advice = 'pip install "rag-eval-hooks[otel]"'
        yield CheckResult(CheckStatus.FAILED, text, advice)
        return
    if accepted is None:
        text = "the SDK makes no spans here: no application of this environment sends any"
        advice = "unset OTEL_SDK_DISABLED"
        yield CheckResult(CheckStatus.FAILED, text, advice)
        return
    address = _without_secrets(setup.otlp_endpoint)
    if accepted:
        yield CheckResult(CheckStatus.OK, f"{address} took a test span")
        return
    why = f"HTTP {codes[-1]}" if codes else "it cannot be reached"
    yield CheckResult(
        CheckStatus.FAILED,
        f"{address} took no span: {why}",
        "check the endpoint (port 4318 is OTLP over HTTP, 4317 is gRPC, and "
        "OTEL_EXPORTER_OTLP_ENDPOINT is without /v1/traces), its key in "
        "OTEL_EXPORTER_OTLP_HEADERS, and that it runs",
    )


def _send(endpoint: str, timeout: float) -> tuple[bool | None, list[str]]:
    """Return whether the span was taken (None: the SDK is disabled) and the statuses met."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # Whatever share of the application's traces OTEL_TRACES_SAMPLER keeps, this one is sent.
    tracer = TracerProvider(sampler=ALWAYS_ON).get_tracer("rag_eval_hooks")
    span = tracer.start_span("rag-eval-hooks doctor")
    span.end()
    if not isinstance(span, ReadableSpan):
        return None, []
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=max(1, round(timeout)))
    statuses = _Statuses()
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before = logger.propagate
    logger.addHandler(statuses)
    logger.propagate = False
    try:
        result = exporter.export([span])
    finally:
        logger.removeHandler(statuses)
        logger.propagate = before
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return result is SpanExportResult.SUCCESS, statuses.codes


def _without_secrets(endpoint: str) -> str:
    """Return an endpoint without credentials and parameters."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def check_clock(setup: Setup) -> Iterator[CheckResult]:
    """Compare with the `Date` header of the judge's endpoint, else of the receiver of spans."""
    now = time.time()
    if now < _RELEASED:
        text = f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}"
        yield CheckResult(CheckStatus.FAILED, text, "set the clock")
        return
    for url in (setup.config.judge_base_url, setup.otlp_endpoint):
        skew = None if url is None else _skew(url, min(setup.timeout, 5.0))
        if skew is not None:
            yield _compared(skew)
            return
    yield CheckResult(CheckStatus.NOTE, "plausible; no endpoint to compare with")


def _compared(skew: float) -> CheckResult:
    figures = {"skew_seconds": round(skew, 1)}
    text = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the endpoint's"
    if abs(skew) <= _MAX_SKEW:
        return CheckResult(CheckStatus.OK, text, figures=figures)
    advice = "set the clock by NTP: spans are misplaced, and keys may be refused"
    return CheckResult(CheckStatus.WARNING, text, advice, figures)


def _skew(url: str, timeout: float) -> float | None:
    """Return the seconds by which our clock is ahead, or None without a `Date` header."""
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=timeout) as response:
            date = response.headers.get("Date")
    except urllib.error.HTTPError as refusal:
        date = refusal.headers.get("Date")
    except (OSError, ValueError, http.client.HTTPException):
        # HTTPException: an endpoint of another protocol, such as gRPC, or credentials in its URL.
        return None
    try:
        return time.time() - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return None
