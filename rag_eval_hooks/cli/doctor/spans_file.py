"""Evaluation results of a trace in a file of spans in OTLP/JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from rag_eval_hooks import semconv
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.pipeline import ADVICE

__all__ = ["from_spans", "is_map", "read_json_lines"]

_OURS: Final = ("rag.eval.", "evaluations.")
_ADVICE: Final = {
    "timeout": "the scores came after hold_timeout: they stand on the evaluation span and in the "
    "sinks; raise it to have them on the RAG span",
    "overflow": "too many spans waited for scores: lower sample_rate or hold_timeout",
    "fork": "the process forked while the span waited; sinks have the scores",
    "error": "every metric failed; rag.eval.failed names them. Their causes stand in log events "
    "(error.type), in sinks, and in evals.explain(id); `rag-eval-hooks doctor` tries the judge",
}
_NO_VALUE: Final = (
    "no chosen metric has a value for it: the sample lacks what they need, such as a reference, or "
    "they are undefined for it, as for an answer without claims; a jsonl: sink and "
    "evals.explain(id) tell which, `rag-eval-hooks metrics` what each needs"
)


def from_spans(setup: Setup, name: str) -> Iterator[Result]:
    """Report the results on the RAG spans of a trace, and on evaluation spans that link to it.

    Args:
        setup: Arguments; `spans` is the file.
        name: Id of the trace.
    """
    if setup.spans is None:
        return
    known = evaluated = False
    for span in _spans(setup.spans):
        own = _is(span, name)
        known |= own
        attributes = _evaluation(span) if own or _links_to(span, name) else {}
        if attributes:
            evaluated = True
            yield _on_span(attributes) if own else _on_evaluation_span(attributes)
    if known and not evaluated:
        text = (
            "its spans are there, and none of them was evaluated or left out: nothing was "
            "retrieved in it, its request is still open, or no handler of ours saw it"
        )
        advice = "see that the handler is among the callbacks of the call that retrieves"
        yield Result(Status.NOTE, text, advice, check="on its spans")


def _on_span(attributes: Mapping[str, Any]) -> Result:
    status = str(attributes.get(semconv.EVAL_STATUS, "without a status"))
    reason = str(attributes.get(semconv.EVAL_REASON, status))
    scored = any(key.endswith(".score") for key in attributes)
    # A rule's name has no advice of its own; its status has.
    advice = _ADVICE.get(status) or ADVICE.get(reason) or ADVICE.get(status, "")
    return Result(
        check="on the RAG span",
        status=Status.OK if scored else Status.FAILED,
        text=_text(attributes),
        advice="" if scored else _NO_VALUE if status == "ok" else advice,
    )


def _on_evaluation_span(attributes: Mapping[str, Any]) -> Result:
    return Result(Status.OK, _text(attributes), check="on a span that links to it")


def _text(attributes: Mapping[str, Any]) -> str:
    return "; ".join(f"{key} = {value}" for key, value in attributes.items())


def _is(span: Mapping[str, Any], name: str) -> bool:
    return str(span.get("traceId", "")).lower() == name


def _links_to(span: Mapping[str, Any], name: str) -> bool:
    return any(_is(link, name) for link in span.get("links", ()))


def _spans(path: Path) -> Iterator[Mapping[str, Any]]:
    for request in read_json_lines(path):
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
    if not is_map(value):
        return value
    return ", ".join(str(_value(item)) for item in value.get("values", ()))


def read_json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a file, without lines that are not complete yet."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if is_map(record):
                    yield record
    except OSError:
        return


def is_map(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether a value is a JSON object."""
    return isinstance(value, Mapping)
