"""Jaeger takes what we export without a warning, and shows it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace

import pytest

from tests.viewers.demo import Scored, run_demo
from tests.viewers.genai_tab import headline, problems, sections
from tests.viewers.jaeger import JaegerSpan, jaeger_spans, values, warnings_of


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
        assert tags["rag.eval.status"] == ("string", one.status)


def test_kinds_and_scope_are_tags(in_jaeger: InJaeger) -> None:
    """Jaeger shows whose spans they are and of what kind; none lost an attribute or a link."""
    for trace in in_jaeger.traces.values():
        for span in trace:
            client = span.operation.startswith(("retrieval ", "chat "))
            assert span.tags["span.kind"] == ("string", "client" if client else "internal")
            assert span.tags["otel.scope.name"] == ("string", "rag_eval_hooks")
            assert not [tag for tag in span.tags if tag.startswith("otel.dropped")]


def test_each_request_is_one_row(in_jaeger: InJaeger) -> None:
    """A request is one trace, whose root is its RAG span; no evaluation stands beside it."""
    assert len(in_jaeger.traces) == len(in_jaeger.scored)
    for one in in_jaeger.scored:
        (root,) = [s for s in in_jaeger.traces[one.trace_id] if s.parent is None]
        assert root == in_jaeger.span(one)


def test_the_first_click_shows_question_answer_score_and_reason(in_jaeger: InJaeger) -> None:
    """The GenAI tab can show every span, and on a RAG span the conversation and its result."""
    for trace in in_jaeger.traces.values():
        for span in trace:
            assert problems(span.operation, values(span)) == []
    for one in in_jaeger.scored:
        seen = values(in_jaeger.span(one))
        assert sections(seen)["conversation"] == [
            ("user", one.sample["question"]),
            ("assistant", one.sample["answer"]),
        ]
        result = headline(seen)
        if set(one.scores) == {"lexical.source_citation"}:
            # A refusal: nothing was scored that says how good it is.
            assert result == {}
            continue
        assert result.get("score.value") == one.scores.get(result["name"])
        if one.scores.get("ragas.faithfulness", 1.0) < 0.8:
            assert result["name"] == "ragas.faithfulness"
            assert result["score.label"] == "fail"
            assert "at least 0.80" in result["explanation"]
            assert seen["rag.eval.pass"] is False


def test_no_trace_has_a_warning(in_jaeger: InJaeger) -> None:
    """Held spans end when their requests did, so that no child reaches beyond its parent."""
    for trace in in_jaeger.traces.values():
        assert warnings_of(trace) == []
        assert {span.service for span in trace} == {"rag-eval-hooks-demo"}


def test_scores_do_not_stretch_a_trace(in_jaeger: InJaeger) -> None:
    """A RAG span lasts as long as its request: no span of its trace goes beyond it."""
    for one in in_jaeger.scored:
        rag = in_jaeger.span(one)
        assert all(
            rag.start <= span.start <= span.end <= rag.end
            for span in in_jaeger.traces[one.trace_id]
        )


def test_the_check_sees_skew() -> None:
    """The converter would tell: a child moved before its parent is warned of, without a host."""
    parent = JaegerSpan("t", "a", "p", 1000, 100, {}, (), "rag", "")
    child = JaegerSpan("t", "b", "c", 1010, 50, {}, (("CHILD_OF", "t", "a"),), "rag", "")
    assert warnings_of([parent, child]) == []
    assert warnings_of([parent, replace(child, start=900)]) != []
    assert warnings_of([child]) != []
