"""What Jaeger makes of what we export."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest

from tests.viewers.demo import Scored, run_demo
from tests.viewers.jaeger import JaegerSpan, jaeger_spans, warnings_of


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


def test_every_score_is_a_tag(in_jaeger: InJaeger) -> None:
    """On the RAG span each score is a number that Jaeger's search compares for equality."""
    for one in in_jaeger.scored:
        tags = in_jaeger.span(one).tags
        for name, value in one.scores.items():
            assert tags[f"rag.eval.{name}.score"] == ("float64", value)
        assert tags["rag.eval.status"] == ("string", "ok")


def test_kinds_and_scope_are_tags(in_jaeger: InJaeger) -> None:
    """Jaeger shows whose spans they are and of what kind; none lost an attribute or a link."""
    for trace in in_jaeger.traces.values():
        for span in trace:
            client = span.operation.startswith(("retrieval ", "chat "))
            assert span.tags["span.kind"] == ("string", "client" if client else "internal")
            assert span.tags["otel.scope.name"] == ("string", "rag_eval_hooks")
            assert not [tag for tag in span.tags if tag.startswith("otel.dropped")]


def test_carrier_and_rag_span_lead_to_one_another(in_jaeger: InJaeger) -> None:
    """Each evaluation span has one reference, to its RAG span, and that has one to it."""
    spans = [span for trace in in_jaeger.traces.values() for span in trace]
    carriers = [span for span in spans if span.operation.startswith("evaluation ")]
    rag = {one.span_id: in_jaeger.span(one) for one in in_jaeger.scored}
    assert len(carriers) == len(rag)
    for carrier in carriers:
        ((kind, trace_id, span_id),) = carrier.references
        assert kind == "FOLLOWS_FROM"
        target = rag[span_id]
        assert target.trace_id == trace_id
        assert ("FOLLOWS_FROM", carrier.trace_id, carrier.span_id) in target.references


def test_no_trace_has_a_warning(in_jaeger: InJaeger) -> None:
    """Held spans end when their requests did, so that no child reaches beyond its parent."""
    for trace in in_jaeger.traces.values():
        assert warnings_of(trace) == []
        assert {span.service for span in trace} == {"rag"}


def test_scores_do_not_stretch_a_trace(in_jaeger: InJaeger) -> None:
    """A RAG span lasts as long as its request: what is below it covers most of its end."""
    for one in in_jaeger.scored:
        rag = in_jaeger.span(one)
        carriers = [
            s
            for t in in_jaeger.traces.values()
            for s in t
            if s.references[:1] == (("FOLLOWS_FROM", rag.trace_id, rag.span_id),)
        ]
        assert all(carrier.start >= rag.end for carrier in carriers)


def test_the_check_sees_skew() -> None:
    """The converter would tell: a child moved before its parent is warned of, without a host."""
    parent = JaegerSpan("t", "a", "p", 1000, 100, {}, (), "rag", "")
    child = JaegerSpan("t", "b", "c", 1010, 50, {}, (("CHILD_OF", "t", "a"),), "rag", "")
    assert warnings_of([parent, child]) == []
    assert warnings_of([parent, replace(child, start=900)]) != []
    assert warnings_of([child]) != []
