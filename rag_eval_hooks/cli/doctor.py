"""`rag-eval-hooks doctor`: checks the settings, and sends test calls to judge and span receiver."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.trace import NoOpTracerProvider
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.arguments import UsageError
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import given_texts, otlp_endpoint, traces_at
from rag_eval_hooks.datasets.run import asking, named_object
from rag_eval_hooks.errors import RagEvalError, install_command
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, Outcome, Score
from rag_eval_hooks.text.folding import toml_of

_SAMPLE: Final = Sample(
    question="When does the library open?",
    contexts=("The library opens at nine.", "Dogs must wait outside."),  # type: ignore[arg-type]
    answer="The library opens at nine.",
    reference="At nine.",
)
_FAITHFUL, _BY_EMBEDDER = "ragas.faithfulness", "graphrag.semantic_similarity_percentage"
# A check must not write to a sink and must not evaluate samples of the spool.
_ALONE: Final[Mapping[str, Any]] = {
    **{"run_on": "thread", "spool": None, "metric_rates": {}, "thresholds": {}},
    **dict.fromkeys(("rules", "sinks", "tail"), ()),
}
_DATA: Final = toml_of("doctor.toml", __package__ or "")
_LIMITS: Final = ("max_text_chars", "redact", "redact_regions")
_SHOWN: Final = 160


class CheckResult(NamedTuple):
    """The result of one check. No field contains a secret or a text of a request."""

    check: str
    status: Literal["ok", "note", "warning", "failed"]
    text: str
    advice: str = ""


def run(arguments: argparse.Namespace) -> int:
    given = dict(arguments.set)
    if arguments.capture is not None:
        return _show_capture(arguments.capture, arguments.question, given)
    base: str | None = arguments.otlp_endpoint
    if base is not None and not (base.startswith("http") and urlsplit(base).netloc):
        raise UsageError("--otlp-endpoint must be a URL such as http://localhost:4318.")
    endpoint = otlp_endpoint() if base is None else traces_at(base)
    has_failed = False
    for one in (_versions(), *_evaluator(given), _receiver(endpoint)):
        print(f"{one.status.ljust(7)}  {one.check}: {one.text}", flush=True)
        print(f"         -> {one.advice}\n" * bool(one.advice), end="")
        has_failed |= one.status == "failed"
    return int(has_failed)


def _versions() -> CheckResult:
    found = {"rag-eval-hooks": __version__, "Python": platform.python_version()}
    for package in _DATA["packages"]:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    text = ", ".join(f"{name} {version}" for name, version in found.items())
    wrong: dict[str, SpecifierSet] = {}
    with suppress(metadata.PackageNotFoundError):  # The source tree is not an installed package.
        for one in map(Requirement, metadata.requires("rag-eval-hooks") or ()):
            with suppress(metadata.PackageNotFoundError):
                if not one.specifier.contains(metadata.version(one.name), prereleases=True):
                    wrong[one.name] = one.specifier
    if not wrong:
        return CheckResult("versions", "ok", text)
    text += "".join(f"; {name} must be {versions}" for name, versions in wrong.items())
    command = " ".join(f'"{name}{versions}"' for name, versions in wrong.items())
    return CheckResult("versions", "failed", text, f"pip install {command}")


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
    embedded = outcomes[_BY_EMBEDDER]
    if isinstance(embedded, Score):
        yield CheckResult("embedder", "ok", "embedded two texts")
    elif embedded.cause is Cause.MISSING_INPUT:
        text = "no embedder is configured, so similarity metrics get no score"
        yield CheckResult("embedder", "note", text)
    else:
        yield CheckResult("embedder", "failed", embedded.line)


def _judge(outcome: Outcome, seconds: float) -> CheckResult:
    if not isinstance(outcome, Score):
        return CheckResult("judge", "failed", outcome.line)
    used = outcome.usage
    text = f"{outcome.annotator} judged a sample in {seconds:.2f} s"
    if used.calls:
        text += f" with {used.input_tokens:g} prompt tokens and {used.output_tokens:g} reply tokens"
    if outcome.value < 1.0:
        text += ", but found no support for a claim that a chunk states word for word"
        advice = "The judge's scores will not be useful. Choose another model."
        return CheckResult("judge", "warning", text, advice)
    return CheckResult("judge", "ok", text)


def _receiver(endpoint: str | None) -> CheckResult:
    check = "receiver of spans"
    if endpoint is None:
        text = "no OTLP endpoint is set, so the application's tracer provider exports the spans"
        advice = (
            "To check an endpoint, pass --otlp-endpoint URL or set OTEL_EXPORTER_OTLP_ENDPOINT."
        )
        return CheckResult(check, "note", text, advice)
    parts = urlsplit(endpoint)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        problem = _send(endpoint)
    except ImportError:
        text = "the SDK's OTLP exporter is missing"
        return CheckResult(check, "failed", text, install_command("otel"))
    if not problem:
        return CheckResult(check, "ok", f"{address} accepted a test span")
    text = f"{address} did not accept the span: {problem}"
    return CheckResult(check, "failed", text, _DATA["no_span"])


def _send(endpoint: str) -> str:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    # This sampler ignores OTEL_TRACES_SAMPLER, because the check must always send the span.
    span = TracerProvider(sampler=ALWAYS_ON).get_tracer("rag_eval_hooks").start_span("doctor")
    span.end()
    if not isinstance(span, ReadableSpan):
        return "OTEL_SDK_DISABLED is set, so the SDK creates no spans"
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=10)
    try:
        result = exporter.export([span])
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return "" if result is SpanExportResult.SUCCESS else "the exporter logged the reason"


def _show_capture(name: str, question: str | None, given: Mapping[str, str]) -> int:
    if question is None or not question.strip():
        raise UsageError("--capture needs --question TEXT, such as a question of your users.")
    pipeline, output, problem = named_object(name, "--capture"), None, None
    samples: list[Sample] = []
    with _capturing(given, samples) as evals, asking(pipeline, evals, "--capture") as ask:
        try:
            output = ask(question, {})
        except Exception as error:  # noqa: BLE001 - the user's pipeline may raise anything
            problem = f"{type(error).__name__}: {error}"
        evals.flush(60.0)
        stats = evals.stats()
    reasons = {**stats.dropped, **stats.failed}
    reasons |= {"without_retrieval": stats.without_retrieval} if stats.without_retrieval else {}
    keys = [str(key) for key in output] if isinstance(output, Mapping) else []
    if not (samples or reasons or problem):
        reasons = {"nothing_captured": 1}
    print("\n".join(_lines(samples, reasons, problem, keys)))
    return int(problem is not None or all(one.contexts is None for one in samples))


def _capturing(given: Mapping[str, str], taken: list[Sample]) -> RagEval:
    config = RagEvalConfig(**given_texts(RagEvalConfig, given))
    limits = {name: getattr(config, name) for name in _LIMITS}

    def captured(_: Sample) -> float:
        return 1.0

    return RagEval(
        captured,
        sinks=[lambda sample, _outcomes: taken.append(sample)],
        tracer_provider=NoOpTracerProvider(),
        config=RagEvalConfig(**limits, evaluation_span="off"),
    )


def _lines(
    samples: list[Sample], reasons: Mapping[str, int], problem: str | None, keys: list[str]
) -> Iterator[str]:
    for number, sample in enumerate(samples, 1):
        if len(samples) > 1:
            yield f"Sample {number} of {len(samples)}. To get one sample per request, set the"
            yield "handler's option root= to the name of the call that handles a request.\n"
        yield from _described(sample)
    if problem is not None:
        yield f"The pipeline raised {problem}"
        yield "  If the pipeline needs more than a question, write a function that takes only a"
        yield "  question and calls the pipeline. Then pass --capture MODULE:FUNCTION"
    for reason, count in reasons.items():
        text, part = _DATA["no_sample"].get(reason, ("", "contexts"))
        yield f"{f'{count} more requests without a sample' if samples else 'No sample'}: {reason}"
        if text:
            yield from (f"  {text}", f"  To name the {part} yourself: {_DATA['remedies'][part]}")
    if samples:
        yield "\nIf the question, contexts or answer of the sample are wrong:"
        yield from (f"  {part}: {remedy}" for part, remedy in _DATA["remedies"].items())
        yield from [f"Keys of the output: {', '.join(keys)}"] if keys else []


def _described(sample: Sample) -> Iterator[str]:
    yield f"question: {_short(sample.question)}"
    yield f"  {_rule(sample.question_source, _DATA['question_rules'])}"
    count = "capture saw no retrieved text" if sample.contexts is None else len(sample.contexts)
    yield f"contexts: {count}"
    if sample.context_source is not None:
        yield f"  {_rule(sample.context_source, _DATA['context_rules'])}"
    for number, context in enumerate(sample.contexts or (), 1):
        facts = [f"{len(context.text)} characters"]
        facts += [f"id {context.id}"] if context.id else []
        facts += [] if context.score is None else [f"score {context.score:.3g}"]
        yield f"  [{number}] {_short(context.text)} ({', '.join(facts)})"
    yield f"answer: {'capture found no answer' if sample.answer is None else _short(sample.answer)}"
    if sample.truncated:
        cut = ", ".join(sample.truncated)
        yield f"truncated: {cut} (by a limit or a lost event)"


def _rule(source: str | None, rules: Mapping[str, str]) -> str:
    return f"{source}: {rules.get(source or '', 'see docs/capture.md')}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
