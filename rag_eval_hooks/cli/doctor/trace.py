"""Why a trace has no score: from files that outlive a process, and from the sampler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.pipeline import ADVICE
from rag_eval_hooks.pipeline.sampler import Share, position

__all__ = ["SOURCES", "explain_trace"]

_EVAL = "rag.eval."


def explain_trace(setup: Setup, trace_id: str) -> Iterator[Result]:
    """What is known of a trace, the surest first.

    Args:
        setup: The settings, and where to look.
        trace_id: 32 hex digits, or a sample's id.
    """
    told = [result for look in SOURCES for result in look(setup, trace_id)]
    yield from told
    decided = _from_sampler(setup, trace_id)
    yield decided
    if told or decided.status is Status.NOTE:
        return
    yield Result(
        check="otherwise",
        status=Status.NOTE,
        text="the sampler would take it, and no file that was looked into knows it: it was not "
        "offered (no retrieval, another process's settings), dropped, failed or is pending",
        advice="look at rag.eval.status and rag.eval.reason on its RAG span; or call "
        "evals.explain(trace_id) in the process that served it; or keep a file with "
        "sinks=jsonl:PATH",
    )


def _from_sinks(setup: Setup, trace_id: str) -> Iterator[Result]:
    for spec in setup.config.sinks:
        kind, _, path = spec.partition(":")
        for record in _lines(Path(path)) if kind == "jsonl" else ():
            sample = record.get("sample")
            known = dict(sample) if _is_map(sample) and sample else {}
            if trace_id in (known.get("trace_id"), known.get("sample_id")):
                yield _delivered(spec, record)


def _delivered(spec: str, record: Mapping[str, Any]) -> Result:
    outcomes = record.get("outcomes", {})
    scores = {k: o["value"] for k, o in outcomes.items() if "value" in o}
    absent = {k: _absence(o) for k, o in outcomes.items() if "not_scored" in o}
    text = f"{len(scores)} scores, {len(absent)} metrics without"
    lines = [f"{name} = {value:.4g}" for name, value in scores.items()]
    lines += [f"{name}: {why}" for name, why in absent.items()]
    causes = dict.fromkeys(o["not_scored"] for o in outcomes.values() if "not_scored" in o)
    advice = "; ".join(f"{cause}: {ADVICE[cause]}" for cause in causes if cause in ADVICE)
    return Result(
        check=f"in {spec}",
        status=Status.OK if scores else Status.PROBLEM,
        text="; ".join([text, *lines]),
        advice=advice,
        figures={"scores": scores, "absent": absent},
    )


def _absence(outcome: Mapping[str, Any]) -> str:
    return ", ".join(filter(None, (outcome["not_scored"], outcome.get("detail"))))


def _from_spans(setup: Setup, trace_id: str) -> Iterator[Result]:
    for request in _lines(setup.spans) if setup.spans is not None else ():
        for span in _spans_of(request):
            told = _evaluation(span) if span.get("traceId") == trace_id else {}
            if told:
                yield _on_span(told)


def _on_span(told: Mapping[str, Any]) -> Result:
    status = str(told.get(semconv.EVAL_STATUS, "without a status"))
    reason = str(told.get(semconv.EVAL_REASON, status))
    scored = status in ("ok", "partial")
    return Result(
        check="on the RAG span",
        status=Status.OK if scored else Status.PROBLEM,
        text="; ".join(f"{key} = {value}" for key, value in told.items()),
        advice="" if scored else ADVICE.get(reason, _SPAN_ADVICE.get(reason, "")),
    )


_SPAN_ADVICE = {
    "timeout": "the scores came after hold_timeout: raise it, or look where sinks keep them",
    "overflow": "more than max_held spans waited: raise it, or lower sample_rate",
    "fork": "the process forked while the span waited; sinks have the scores",
    "error": "every metric failed; rag.eval.failed names them",
}


SOURCES: Final[tuple[Callable[[Setup, str], Iterable[Result]], ...]] = (_from_sinks, _from_spans)
"""What outlives a process and may know of a trace, the surest first. To add one: a line here."""


def _spans_of(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in request.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            yield from scope.get("spans", ())


def _evaluation(span: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {a.get("key", ""): a.get("value", {}) for a in span.get("attributes", ())}
    return {
        key: next(iter(value.values()), None)
        for key, value in attributes.items()
        if key.startswith(_EVAL)
    }


def _from_sampler(setup: Setup, trace_id: str) -> Result:
    config = setup.config
    rate = max((config.sample_rate, *config.metric_rates.values()))
    how = f"at {'the highest of metric_rates,' if config.metric_rates else 'sample_rate'} {rate:g}"
    more = "; rules and tail rules may say otherwise" if config.rules or config.tail else ""
    if Share(rate).holds(position(trace_id)):
        return Result(check="sampler", status=Status.OK, text=f"{how} this id is taken{more}")
    text = f"{how} this id is left out{more}"
    return Result(check="sampler", status=Status.NOTE, text=text, advice=ADVICE["sampled_out"])


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a file; what is none, such as a line that is being written, is passed."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                record = _parsed(line)
                if _is_map(record):
                    yield record
    except OSError:
        return


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)
