"""`rag-eval-hooks doctor`: checks settings, judge and span receiver with small real calls."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.trace import NoOpTracerProvider
from packaging.requirements import Requirement

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.arguments import UsageError
from rag_eval_hooks.cli.doctor_capture import show_capture
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts, otlp_endpoint, traces_at
from rag_eval_hooks.errors import RagEvalError, install_command, masked
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, Outcome, Score
from rag_eval_hooks.text.folding import toml_of

_PACKAGES: Final = (
    "opentelemetry-api",
    "opentelemetry-sdk",
    "pydantic",
    "langchain-core",
    "langgraph",
    "llama-index-core",
    "openai",
    "celery",
)
_SAMPLE: Final = Sample(
    question="When does the library open?",
    contexts=("The library opens at nine.", "Dogs must wait outside."),  # type: ignore[arg-type]
    answer="The library opens at nine.",
)
_FAITHFUL, _BY_EMBEDDER = "ragas.faithfulness", "ragas.answer_relevancy"
_ALONE: Final[Mapping[str, Any]] = {
    "run_on": "thread",
    "metric_rates": {},
    "rules": (),
    "sinks": (),
    "spool": None,
    "tail": (),
    "thresholds": {},
}
"""Settings for a check, so that it uses no sink and evaluates no spooled sample."""
_DATA: Final = toml_of("doctor.toml", __package__ or "")


class CheckResult(NamedTuple):
    """Result of one check, without secrets or texts. `failed` gives exit code 1."""

    check: str
    status: Literal["ok", "note", "warning", "failed"]
    text: str
    advice: str = ""
    figures: Mapping[str, Any] = {}


def run(arguments: argparse.Namespace) -> int:
    given = dict(arguments.set)
    if arguments.capture is not None:
        return show_capture(arguments.capture, arguments.question, given, as_json=arguments.json)
    base: str | None = arguments.otlp_endpoint
    if base is not None and not (base.startswith("http") and urlsplit(base).netloc):
        raise UsageError("--otlp-endpoint must be a URL such as http://localhost:4318.")
    endpoint = otlp_endpoint() if base is None else traces_at(base)
    results = []
    if not arguments.json:
        print("\n".join(_settings(given)) or "All settings have their default values.", end="\n\n")
    for one in (_versions(), *_evaluator(given), _receiver(endpoint)):
        results.append(one)
        if not arguments.json:
            print(f"{one.status.ljust(7)}  {one.check}: {one.text}", flush=True)
            print(f"         -> {one.advice}\n" * bool(one.advice), end="")
    failed = any(one.status == "failed" for one in results)
    if arguments.json:
        document = {"ok": not failed, "results": [one._asdict() for one in results]}
        print(json.dumps(document, indent=2))
    return int(failed)


def _settings(given: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings that differ from the defaults, with secrets masked."""
    try:
        config = RagEvalConfig(**given_texts(RagEvalConfig, given))
    except RagEvalError:
        return
    for name, field_info in RagEvalConfig.model_fields.items():
        value = getattr(config, name)
        if value != field_info.get_default(call_default_factory=True):
            # A sink rejects an address with a key, but only after this prints it.
            yield f"{name} = {masked(str(value))}"


def _versions() -> CheckResult:
    found = {"rag-eval-hooks": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    wrong: tuple[Requirement, ...] = ()
    with suppress(metadata.PackageNotFoundError):  # The source tree is not installed.
        wrong = tuple(_unserved(metadata.requires("rag-eval-hooks") or ()))
    if not wrong:
        return CheckResult("versions", "ok", text, figures=found)
    names = "; ".join(f"{one.name} must be {one.specifier}" for one in wrong)
    command = " ".join(f'"{one.name}{one.specifier}"' for one in wrong)
    return CheckResult("versions", "failed", f"{text}; {names}", f"pip install {command}", found)


def _unserved(requirements: Iterable[str]) -> Iterator[Requirement]:
    """Yield each extra's requirements that an installed package violates."""
    for name, one in {read.name: read for read in map(Requirement, requirements)}.items():
        with suppress(metadata.PackageNotFoundError):
            if not one.specifier.contains(metadata.version(name), prereleases=True):
                yield one


def _evaluator(given: Mapping[str, str]) -> Iterator[CheckResult]:
    try:
        config = RagEvalConfig(**given_texts(RagEvalConfig, given))
        # Check the configured metrics, then two metrics that need judge and embedder.
        RagEval(config=config, tracer_provider=NoOpTracerProvider()).shutdown(1)
        alone = config.model_copy(update=_ALONE)
        evals = RagEval(
            [_FAITHFUL, _BY_EMBEDDER], config=alone, tracer_provider=NoOpTracerProvider()
        )
    except (RagEvalError, ImportError, OSError) as error:
        yield CheckResult("settings", "failed", str(error))
        return
    yield CheckResult("settings", "ok", "the evaluator starts")
    with evals:
        began = time.monotonic()
        try:
            outcomes = evals.evaluate(_SAMPLE)
        except RagEvalError as error:
            yield CheckResult("judge", "failed", str(error))
            return
        seconds = time.monotonic() - began
    yield _judge(outcomes[_FAITHFUL], seconds)
    yield _embedder(outcomes[_BY_EMBEDDER])


def _judge(outcome: Outcome, seconds: float) -> CheckResult:
    if not isinstance(outcome, Score):
        return _failed("judge", outcome.line)
    used = outcome.usage
    figures = {"seconds": round(seconds, 3), **asdict(used)}
    text = f"{outcome.annotator} judged a sample in {seconds:.2f} s"
    if used.calls:
        text += f" with {used.input_tokens:g} prompt tokens and {used.output_tokens:g} reply tokens"
    if outcome.value < 1.0:
        text += ", but missed a claim that a chunk states word for word"
        advice = "Its scores will not be useful. Choose another model."
        return CheckResult("judge", "warning", text, advice, figures)
    return CheckResult("judge", "ok", text, figures=figures)


def _embedder(outcome: Outcome) -> CheckResult:
    if isinstance(outcome, Score):
        return CheckResult("embedder", "ok", "embedded a question")
    if outcome.cause is Cause.MISSING_INPUT:
        return CheckResult(
            "embedder", "note", "no embedder is configured, so similarity metrics get no score"
        )
    return _failed("embedder", outcome.line)


def _failed(check: str, text: str) -> CheckResult:
    advice = next((advice for sign, advice in _DATA["advice"].items() if sign in text), "")
    return CheckResult(check, "failed", text, advice)


def _receiver(endpoint: str | None) -> CheckResult:
    check = "receiver of spans"
    if endpoint is None:
        text = "no OTLP endpoint is set; the application's provider decides where spans go"
        advice = "To check one, pass --otlp-endpoint URL or set OTEL_EXPORTER_OTLP_ENDPOINT."
        return CheckResult(check, "note", text, advice)
    parts = urlsplit(endpoint)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        problem = _send(endpoint)
    except ImportError:
        text, advice = "the SDK's OTLP exporter is missing", install_command("otel")
        return CheckResult(check, "failed", text, advice)
    if problem:
        return CheckResult(
            check, "failed", f"{address} rejected the span: {problem}", _DATA["no_span"]
        )
    return CheckResult(check, "ok", f"{address} accepted a test span")


def _send(endpoint: str) -> str:
    """Send a span. Return why the receiver rejected the span, or empty text."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # Ignores OTEL_TRACES_SAMPLER, so that the span is always sent.
    span = TracerProvider(sampler=ALWAYS_ON).get_tracer("rag_eval_hooks").start_span("doctor")
    span.end()
    if not isinstance(span, ReadableSpan):
        return "OTEL_SDK_DISABLED is set, so the SDK makes no spans"
    codes: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        codes.extend(re.findall(r"code: (\d{3})", record.getMessage()))
        return False

    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=10)
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    logger.addFilter(note)
    try:
        result = exporter.export([span])
    finally:
        logger.removeFilter(note)
        exporter.shutdown()  # type: ignore[no-untyped-call]
    if result is SpanExportResult.SUCCESS:
        return ""
    return f"HTTP {codes[-1]}" if codes else "it is unreachable"
