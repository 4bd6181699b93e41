"""`rag-eval-hooks doctor`: checks settings, judge and the receiver of spans by small real calls."""

from __future__ import annotations

import argparse
import json
import logging
import platform
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib import metadata
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry.trace import NoOpTracerProvider
from pydantic import SecretStr

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.doctor_capture import show_capture
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts, otlp_endpoint, traces_at
from rag_eval_hooks.errors import ConfigError, RagEvalError, masked
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, Outcome, Score

__all__ = ["register"]

_DESCRIPTION: Final = """\
Builds an evaluator from the settings, evaluates one sample, and sends one test span. With
--capture, asks your pipeline one question and shows what is captured. Exit code 1 if something has
failed."""
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
    "evaluator": "thread",
    "metric_rates": {},
    "rules": (),
    "sinks": (),
    "spool": None,
    "tail": (),
    "thresholds": {},
}
"""Settings under which a check touches neither sinks nor the samples of a spool."""
_FAULT: Final = "The endpoint failed: read its log, or wait."
_ADVICE: Final[Mapping[str, str]] = {
    "HTTP 401": "Set judge_api_key (RAG_EVAL_JUDGE_API_KEY, or OPENAI_API_KEY).",
    "HTTP 403": "Check what judge_api_key may do, and the model in judge.",
    "HTTP 404": "Check the model in judge, and judge_base_url.",
    "HTTP 429": "Wait, or lower judge_concurrency and sample_rate; check the account's credit.",
    "HTTP 5": _FAULT,
    "error of the endpoint": _FAULT,
    "no chat completion": "Check judge_base_url, which usually ends with /v1.",
    "no vectors": "Check judge_base_url, or set embedder.",
    "no JSON": "Check judge_base_url, which usually ends with /v1.",
    "the connection": "Check judge_base_url, and that the endpoint runs and can be reached.",
    "no reply": "Check that the endpoint answers, or raise judge_timeout.",
    "valid reply": "The model does not keep the form: try another model.",
}


class CheckStatus(StrEnum):
    """Outcome of a check. Only `FAILED` makes the exit code 1."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Finding of one check. Holds no secret and no content.

    Attributes:
        check: Subject, in a word or two.
        status: Outcome of the check.
        text: The finding, in a sentence.
        advice: What to do, if something is wrong.
        figures: Numbers for machines, such as seconds and tokens.
    """

    check: str
    status: CheckStatus
    text: str
    advice: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the subcommand."""
    parser = subparsers.add_parser(
        "doctor", help="check the set-up, and what is captured", description=_DESCRIPTION
    )
    add = parser.add_argument
    add("--capture", metavar="MODULE:OBJECT", help="show what is captured of this pipeline")
    add("--question", metavar="TEXT", help="the question to ask with --capture")
    add("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting; repeatable")
    add("--otlp-endpoint", metavar="URL", help="receiver of spans, such as http://localhost:4318")
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    given = dict(_pairs(arguments.set))
    if arguments.capture is not None:
        return show_capture(arguments.capture, arguments.question, given, as_json=arguments.json)
    base: str | None = arguments.otlp_endpoint
    if base is not None and not (base.startswith("http") and urlsplit(base).netloc):
        raise UsageError("--otlp-endpoint must be a URL such as http://localhost:4318.")
    endpoint = otlp_endpoint() if base is None else traces_at(base)
    results = []
    if not arguments.json:
        print("\n".join(_settings(given)) or "All settings have their default values.", end="\n\n")
    for result in _checks(given, endpoint):
        results.append(result)
        if not arguments.json:
            print(f"{result.status.value.ljust(7)}  {result.check}: {result.text}", flush=True)
            print(f"         -> {result.advice}\n" * bool(result.advice), end="")
    failed = any(one.status is CheckStatus.FAILED for one in results)
    if arguments.json:
        print(json.dumps({"ok": not failed, "results": list(map(asdict, results))}, indent=2))
    return int(failed)


def _pairs(given: Iterable[str]) -> Iterator[tuple[str, str]]:
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set: {pair!r} is not accepted. Use NAME=VALUE.")
        yield name.strip(), value


def _settings(given: Mapping[str, str]) -> Iterator[str]:
    """Yield the settings that differ from their defaults; secrets are masked."""
    try:
        config = RagEvalConfig(**given_texts(RagEvalConfig, given))
    except RagEvalError:
        return
    for name, field_info in RagEvalConfig.model_fields.items():
        value = getattr(config, name)
        if value != field_info.get_default(call_default_factory=True):
            yield f"{name} = {_printable(value)}"


def _printable(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "**********"
    if isinstance(value, Mapping):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_printable(item) for item in value]
    # A sink refuses an address with a key in it, but it is printed here before that.
    return masked(value) if isinstance(value, str) else value


def _checks(given: Mapping[str, str], endpoint: str | None) -> Iterator[CheckResult]:
    yield _versions()
    yield from _evaluator(given)
    yield _receiver(endpoint)


def _versions() -> CheckResult:
    found = {"rag-eval-hooks": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    return CheckResult("versions", CheckStatus.OK, text, figures=found)


def _evaluator(given: Mapping[str, str]) -> Iterator[CheckResult]:
    """Build an evaluator, which checks every setting, and evaluate a sample with its judge."""
    try:
        config = RagEvalConfig(**given_texts(RagEvalConfig, given))
        # The metrics of the settings are checked, then those that show judge and embedder.
        RagEval(config=config, tracer_provider=NoOpTracerProvider()).shutdown(1)
        alone = config.model_copy(update=_ALONE)
        evals = RagEval(
            [_FAITHFUL, _BY_EMBEDDER], config=alone, tracer_provider=NoOpTracerProvider()
        )
    except (RagEvalError, ImportError, OSError) as error:
        advice = error.advice if isinstance(error, ConfigError) else ""
        yield CheckResult("settings", CheckStatus.FAILED, str(error), advice)
        return
    yield CheckResult("settings", CheckStatus.OK, "an evaluator can be built from them")
    with evals:
        began = time.monotonic()
        try:
            outcomes = evals.evaluate(_SAMPLE)
        except RagEvalError as error:
            yield CheckResult("judge", CheckStatus.FAILED, str(error))
            return
        seconds = time.monotonic() - began
    yield _judge(outcomes[_FAITHFUL], seconds)
    yield _embedder(outcomes[_BY_EMBEDDER])


def _judge(outcome: Outcome, seconds: float) -> CheckResult:
    if not isinstance(outcome, Score):
        return _failed("judge", outcome.line)
    used = outcome.usage
    figures = {
        "seconds": round(seconds, 3),
        "requests": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
    }
    text = f"{outcome.annotator} judged a sample in {seconds:.2f} s"
    if used.calls:
        text += f", {used.input_tokens:g} tokens in, {used.output_tokens:g} out"
    if outcome.value < 1.0:
        text += "; but it did not find a claim that a chunk states word for word"
        advice = "Its scores will be of little worth: choose another model."
        return CheckResult("judge", CheckStatus.WARNING, text, advice, figures)
    return CheckResult("judge", CheckStatus.OK, text, figures=figures)


def _embedder(outcome: Outcome) -> CheckResult:
    if isinstance(outcome, Score):
        return CheckResult("embedder", CheckStatus.OK, "embedded a question")
    if outcome.cause is Cause.MISSING_INPUT:
        text = "none: metrics by similarity have no value"
        return CheckResult("embedder", CheckStatus.NOTE, text)
    return _failed("embedder", outcome.line)


def _failed(check: str, text: str) -> CheckResult:
    advice = next((advice for sign, advice in _ADVICE.items() if sign in text), "")
    return CheckResult(check, CheckStatus.FAILED, text, advice)


def _receiver(endpoint: str | None) -> CheckResult:
    """Send one test span by the SDK's own exporter."""
    if endpoint is None:
        text = "no OTLP endpoint is set; spans go where the application's provider sends them"
        advice = "To check one: --otlp-endpoint URL, or OTEL_EXPORTER_OTLP_ENDPOINT."
        return CheckResult("receiver of spans", CheckStatus.NOTE, text, advice)
    parts = urlsplit(endpoint)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        problem = _send(endpoint)
    except ImportError:
        text, advice = "the SDK's OTLP exporter is missing", 'pip install "rag-eval-hooks[otel]"'
        return CheckResult("receiver of spans", CheckStatus.FAILED, text, advice)
    if not problem:
        return CheckResult("receiver of spans", CheckStatus.OK, f"{address} took a test span")
    advice = (
        "Check the endpoint (port 4318 is OTLP over HTTP, 4317 is gRPC; "
        "OTEL_EXPORTER_OTLP_ENDPOINT is without /v1/traces), its key in "
        "OTEL_EXPORTER_OTLP_HEADERS, that it runs, and that OTEL_SDK_DISABLED is not set."
    )
    text = f"{address} took no span: {problem}"
    return CheckResult("receiver of spans", CheckStatus.FAILED, text, advice)


class _Statuses(logging.Handler):
    """Collects the status codes that an exporter logs, and nothing else of its messages."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.codes: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.codes += re.findall(r"code: (\d{3})", record.getMessage())


def _send(endpoint: str) -> str:
    """Return why the receiver did not take a span; empty if it did."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # Whatever share of the application's traces OTEL_TRACES_SAMPLER keeps, this one is sent.
    span = TracerProvider(sampler=ALWAYS_ON).get_tracer("rag_eval_hooks").start_span("doctor")
    span.end()
    if not isinstance(span, ReadableSpan):
        return "OTEL_SDK_DISABLED is set, so the SDK makes no spans"
    exporter, statuses = OTLPSpanExporter(endpoint=endpoint, timeout=10), _Statuses()
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    before, logger.propagate = logger.propagate, False
    logger.addHandler(statuses)
    try:
        result = exporter.export([span])
    finally:
        logger.removeHandler(statuses)
        logger.propagate = before
        exporter.shutdown()  # type: ignore[no-untyped-call]
    if result is SpanExportResult.SUCCESS:
        return ""
    return f"HTTP {statuses.codes[-1]}" if statuses.codes else "it cannot be reached"
