"""Reasons why a trace has no score: from files that outlive a process, and from the sampler."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from rag_eval_hooks import semconv
from rag_eval_hooks.cli.doctor.check_settings import from_sampler
from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup
from rag_eval_hooks.delivery.outbox_file import EVALUATE, NAME
from rag_eval_hooks.delivery.outbox_reader import WaitingJob, waiting_jobs
from rag_eval_hooks.explanation import ADVICE
from rag_eval_hooks.feedback import id_of
from rag_eval_hooks.sqlite_file import FILE_ERRORS

__all__ = ["explain_trace"]

_OURS: Final = ("rag.eval.", "evaluations.")
_ADVICE: Final = {
    "timeout": "the scores came after hold_timeout: they are on the evaluation span and in the "
    "sinks; raise it to have them on the RAG span",
    "overflow": "too many spans waited for scores: lower sample_rate or hold_timeout",
    "fork": "the process forked while the span waited; sinks have the scores",
    "error": "no metric has a score; rag.eval.unscored names them. Their causes are in log events "
    "(error.type), in sinks, and in evals.explain(id); `rag-eval-hooks doctor` tries the judge",
}
_NO_VALUE: Final = (
    "no chosen metric has a value for it: the sample lacks what they need, such as a reference, or "
    "they are undefined for it, as for an answer without claims; a jsonl: sink and "
    "evals.explain(id) tell which, `rag-eval-hooks metrics` what each needs"
)


def explain_trace(setup: Setup, given: str) -> Iterator[CheckResult]:
    """Report what is known of a trace, the most reliable source first.

    Args:
        setup: Settings and files to search.
        given: Id of a trace (32 hex digits), of a sample or of a root run, written in any way.
    """
    name = id_of(given)
    results = [*_from_sinks(setup, name), *_from_spans(setup, name), *_from_spool(setup, name)]
    yield from results
    # The sampler decides by the trace's id where a sample has one.
    key = next((r.figures["trace_id"] for r in results if r.figures.get("trace_id")), None)
    decision = from_sampler(setup, name if key is None else id_of(key))
    yield decision
    if not results:
        yield _unknown(setup, taken=decision.status is not CheckStatus.NOTE)


def _unknown(setup: Setup, *, taken: bool) -> CheckResult:
    files = [spec for spec in setup.config.sinks if spec.startswith("jsonl:")]
    files += [f"the spool {setup.config.spool}"] if setup.config.spool else []
    files += [str(setup.spans)] if setup.spans else []
    where = "no file is in the settings to look into"
    if files:
        where = f"it is not in {', '.join(files)}"
    if taken:
        text = (
            f"{where}; the sampler would take it. So nothing was retrieved in it, which makes it "
            "no interaction; or it was dropped (queue, rate limit, a request that did not end "
            "well), failed, or another process with other settings served it"
        )
    else:
        text = f"{where}; that the sampler leaves it out is the likely cause"
    advice = (
        "look at rag.eval.status and rag.eval.reason on its RAG span, or give the spans by "
        "--spans FILE; call evals.explain(id) in the process that served it; or keep a file with "
        "sinks=jsonl:PATH"
    )
    return CheckResult(CheckStatus.NOTE, text, advice, check="otherwise")


def _from_sinks(setup: Setup, name: str) -> Iterator[CheckResult]:
    for spec in setup.config.sinks:
        kind, _, path = spec.partition(":")
        for record in _read_json_lines(Path(path)) if kind == "jsonl" else ():
            sample = record.get("sample")
            known = dict(sample) if _is_map(sample) and sample else {}
            if name in _ids(known):
                yield _delivered(spec, record)


def _ids(sample: Mapping[str, Any]) -> set[str]:
    known = (sample.get("trace_id"), sample.get("sample_id"))
    return {id_of(value) for value in known if value is not None}


def _delivered(spec: str, record: Mapping[str, Any]) -> CheckResult:
    outcomes = record.get("outcomes", {})
    scores = {k: o["value"] for k, o in outcomes.items() if "value" in o}
    absent = {k: _absence(o) for k, o in outcomes.items() if "not_scored" in o}
    sample = record["sample"].get("sample_id", "without an id")
    text = f"sample {sample}: {len(scores)} scores, {len(absent)} metrics without"
    lines = [f"{name} = {value:.4g}" for name, value in scores.items()]
    lines += [f"{name}: {why}" for name, why in absent.items()]
    causes = dict.fromkeys(o["not_scored"] for o in outcomes.values() if "not_scored" in o)
    advice = "; ".join(f"{cause}: {ADVICE[cause]}" for cause in causes if cause in ADVICE)
    trace_id = record["sample"].get("trace_id")
    figures = {"scores": scores, "absent": absent, "trace_id": trace_id}
    status = CheckStatus.OK if scores else CheckStatus.FAILED
    return CheckResult(status, "; ".join([text, *lines]), advice, figures, check=f"in {spec}")


def _absence(outcome: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (outcome["not_scored"], outcome.get("detail"))))


def _from_spool(setup: Setup, name: str) -> Iterator[CheckResult]:
    if setup.config.spool is None:
        return
    path = Path(setup.config.spool)
    try:
        jobs = waiting_jobs(path / NAME, name)
    except FILE_ERRORS as error:
        text = f"{path} cannot be read ({type(error).__name__})"
        yield CheckResult(CheckStatus.WARNING, text, "run doctor", check="in the spool")
        return
    for job in jobs:
        yield _pending(path, job) if job.consumer == EVALUATE else _undelivered(path, job)


def _pending(path: Path, job: WaitingJob) -> CheckResult:
    age = max(0.0, time.time() - job.accepted)
    text = f"sample {job.sample_id}: pending in {path} for {age:.0f} s, chosen by {job.reason}"
    text += f" with probability {job.probability:g}" if job.probability is not None else ""
    advice = "a process of these settings evaluates it; look again"
    if not job.is_owned:
        text += "; no process has it now"
        advice = "start a process with these settings: it evaluates what was left"
    if job.tries:
        text += f"; begun {job.tries} times by processes that did not live to its end"
    return _in_the_spool(job, text, advice)


def _undelivered(path: Path, job: WaitingJob) -> CheckResult:
    age = max(0.0, time.time() - job.accepted)
    sink = job.consumer.rpartition("-")[0] or job.consumer
    text = f"it is evaluated, and {sink} has not taken its {job.scores} scores yet:"
    text += f" they wait in {path} for {age:.0f} s"
    advice = f"see that {sink} runs and can be reached; they are sent when it answers"
    if not job.is_owned:
        text += "; no process has them now"
        advice = f"start a process with these settings and the same {sink}"
    return _in_the_spool(job, text, advice)


def _in_the_spool(job: WaitingJob, text: str, advice: str) -> CheckResult:
    figures = {"trace_id": job.trace_id}
    return CheckResult(CheckStatus.NOTE, text, advice, figures, check="in the spool")


def _from_spans(setup: Setup, name: str) -> Iterator[CheckResult]:
    """Report the results on the RAG spans of a trace and on evaluation spans that link to it."""
    if setup.spans is None:
        return
    known = evaluated = False
    for span in _spans(setup.spans):
        own = _is(span, name)
        known |= own
        attributes = _evaluation(span) if own or _links_to(span, name) else {}
        if attributes:
            evaluated = True
            on_rag_span = own and not _is_evaluation(span)
            yield _on_span(attributes) if on_rag_span else _on_evaluation_span(attributes)
    if known and not evaluated:
        text = (
            "its spans are there, and none of them was evaluated or left out: nothing was "
            "retrieved in it, its request is still open, or no handler of ours saw it"
        )
        advice = "see that the handler is among the callbacks of the call that retrieves"
        yield CheckResult(CheckStatus.NOTE, text, advice, check="on its spans")


def _on_span(attributes: Mapping[str, Any]) -> CheckResult:
    status = str(attributes.get(semconv.EVAL_STATUS, "without a status"))
    reason = attributes.get(semconv.EVAL_REASON, attributes.get(semconv.EVAL_SAMPLED_BY, status))
    scored = any(key.endswith(".score") for key in attributes)
    # A rule's name has no advice of its own; its status has.
    advice = _ADVICE.get(status) or ADVICE.get(str(reason)) or ADVICE.get(status, "")
    if scored:
        return CheckResult(CheckStatus.OK, _text(attributes), check="on the RAG span")
    advice = _NO_VALUE if status == "ok" else advice
    return CheckResult(CheckStatus.FAILED, _text(attributes), advice, check="on the RAG span")


def _on_evaluation_span(attributes: Mapping[str, Any]) -> CheckResult:
    return CheckResult(CheckStatus.OK, _text(attributes), check="on the evaluation span")


def _text(attributes: Mapping[str, Any]) -> str:
    return "; ".join(f"{key} = {value}" for key, value in attributes.items())


def _is(span: Mapping[str, Any], name: str) -> bool:
    return str(span.get("traceId", "")).lower() == name


def _is_evaluation(span: Mapping[str, Any]) -> bool:
    operation = {"key": semconv.GEN_AI_OPERATION_NAME, "value": {"stringValue": "evaluation"}}
    return operation in span.get("attributes", ())


def _links_to(span: Mapping[str, Any], name: str) -> bool:
    return any(_is(link, name) for link in span.get("links", ()))


def _spans(path: Path) -> Iterator[Mapping[str, Any]]:
    for request in _read_json_lines(path):
        for resource in request.get("resourceSpans", ()):
            for scope in resource.get("scopeSpans", ()):
                yield from scope.get("spans", ())


def _evaluation(span: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {a.get("key", ""): a.get("value", {}) for a in span.get("attributes", ())}
    return {
        key: _value(value)
        for key, value in attributes.items()
        if key.startswith(_OURS) and not key.endswith((".explanation", ".metadata"))
    }


def _value(written: Mapping[str, Any]) -> Any:
    """Return the value of an attribute; a list as text with commas."""
    value = next(iter(written.values()), None)
    if not _is_map(value):
        return value
    return ", ".join(str(_value(item)) for item in value.get("values", ()))


def _read_json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a file, without lines that are not complete yet."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if _is_map(record):
                    yield record
    except OSError:
        return


def _is_map(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a JSON object."""
    return isinstance(value, Mapping)
