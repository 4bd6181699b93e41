"""What spans in a file of OTLP/JSON say of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rag_eval_hooks import semconv
from rag_eval_hooks.cli.doctor.lines import is_map, lines_of
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.pipeline import ADVICE

__all__ = ["from_spans"]

_OURS: Final = ("rag.eval.", "evaluations.")
_ADVICE: Final = {
    "timeout": "the scores came after hold_timeout: they stand on the carrier span and in the "
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
    """What stands on the RAG spans of a trace, and on the carriers that link to it.

    Args:
        setup: With the file.
        name: The trace's id.
    """
    if setup.spans is None:
        return
    known = found = False
    for span in _spans(setup.spans):
        own = _is(span, name)
        known |= own
        told = _evaluation(span) if own or _links_to(span, name) else {}
        if told:
            found = True
            yield _on_span(told) if own else _on_carrier(told)
    if known and not found:
        text = (
            "its spans are there, and none of them was evaluated or left out: nothing was "
            "retrieved in it, its request is still open, or no handler of ours saw it"
        )
        advice = "see that the handler is among the callbacks of the call that retrieves"
        yield Result(check="on its spans", status=Status.NOTE, text=text, advice=advice)


def _on_span(told: Mapping[str, Any]) -> Result:
    status = str(told.get(semconv.EVAL_STATUS, "without a status"))
    reason = str(told.get(semconv.EVAL_REASON, status))
    scored = any(key.endswith(".score") for key in told)
    # A rule's name has no advice of its own, but what it did has.
    advice = _ADVICE.get(status) or ADVICE.get(reason) or ADVICE.get(status, "")
    return Result(
        check="on the RAG span",
        status=Status.OK if scored else Status.FAILED,
        text=_text(told),
        advice="" if scored else _NO_VALUE if status == "ok" else advice,
    )


def _on_carrier(told: Mapping[str, Any]) -> Result:
    return Result(check="on a span that links to it", status=Status.OK, text=_text(told))


def _text(told: Mapping[str, Any]) -> str:
    return "; ".join(f"{key} = {value}" for key, value in told.items())


def _is(span: Mapping[str, Any], name: str) -> bool:
    return str(span.get("traceId", "")).lower() == name


def _links_to(span: Mapping[str, Any], name: str) -> bool:
    return any(_is(link, name) for link in span.get("links", ()))


def _spans(path: Path) -> Iterator[Mapping[str, Any]]:
    for request in lines_of(path):
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
    """The value of an attribute; a list as its items with commas."""
    value = next(iter(written.values()), None)
    if not is_map(value):
        return value
    return ", ".join(str(_value(item)) for item in value.get("values", ()))
