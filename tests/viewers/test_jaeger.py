"""Jaeger takes what we export without a warning, and shows it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from tests.viewers.demo import Scored, run_demo
from tests.viewers.genai_tab import UNDECIDED, headline, problems, sections


class JaegerSpan(NamedTuple):
    trace_id: str
    span_id: str
    parent: str | None
    operation: str
    start: int
    end: int
    tags: dict[str, Any]


def jaeger_spans(requests: Iterable[Mapping[str, Any]]) -> Iterator[JaegerSpan]:
    scopes = (s for request in requests for r in request["resourceSpans"] for s in r["scopeSpans"])
    for span in (one for scope in scopes for one in scope["spans"]):
        yield JaegerSpan(
            trace_id=span["traceId"],
            span_id=span["spanId"],
            parent=span.get("parentSpanId") or None,
            operation=span["name"],
            start=int(span["startTimeUnixNano"]),
            end=int(span["endTimeUnixNano"]),
            tags={one["key"]: _value(one["value"]) for one in span.get("attributes", ())},
        )


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return json.dumps([_value(item) for item in inner.get("values", ())])
    return int(inner) if kind == "intValue" else inner


@dataclass(frozen=True)
class InJaeger:
    traces: dict[str, list[JaegerSpan]]
    scored: list[Scored]

    def span(self, one: Scored) -> JaegerSpan:
        return next(s for s in self.traces[one.trace_id] if s.span_id == one.span_id)


@pytest.fixture(scope="module")
def in_jaeger(tmp_path_factory: pytest.TempPathFactory) -> InJaeger:
    folder = tmp_path_factory.mktemp("jaeger")
    scored = run_demo(folder)
    lines = (folder / "demo-output" / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    traces = defaultdict(list)
    for span in jaeger_spans(map(json.loads, lines)):
        traces[span.trace_id].append(span)
    return InJaeger(dict(traces), scored)


def test_each_request_is_one_row(in_jaeger: InJaeger) -> None:
    assert len(in_jaeger.traces) == len(in_jaeger.scored)
    for one in in_jaeger.scored:
        trace = in_jaeger.traces[one.trace_id]
        (root,) = [span for span in trace if span.parent is None]
        assert root == in_jaeger.span(one)
        assert all(root.start <= span.start <= span.end <= root.end for span in trace)
        ids = [span.span_id for span in trace]
        assert len(set(ids)) == len(ids)
        assert {span.parent for span in trace} <= {None, *ids}


def test_the_first_click_shows_question_answer_score_and_reason(in_jaeger: InJaeger) -> None:
    for trace in in_jaeger.traces.values():
        for span in trace:
            assert problems(span.operation, span.tags) == []
    for one in in_jaeger.scored:
        seen = in_jaeger.span(one).tags
        assert sections(seen)["conversation"] == [
            ("user", one.sample["question"]),
            ("assistant", one.sample["answer"]),
        ]
        result = headline(seen)
        if not one.scores:
            # A refusal, or claims about which the judge cannot tell.
            assert result.get("score.label", UNDECIDED) == UNDECIDED
            continue
        assert result.get("score.value") == one.scores.get(result["name"])
        if one.scores.get("ragas.faithfulness", 1.0) < 0.8:
            assert result["name"] == "ragas.faithfulness"
            assert result["score.label"] == "fail"
            assert "at least 0.80" in result["explanation"]
            assert seen["rag.eval.pass"] is False
