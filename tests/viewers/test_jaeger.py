"""Jaeger takes what we export without a warning, and shows it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

import pytest

from tests.viewers.demo import Scored, run_demo
from tests.viewers.genai_tab import UNDECIDED, headline, problems, sections
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


def test_each_request_is_one_row(in_jaeger: InJaeger) -> None:
    """A request is one trace, whose root is its RAG span; no span goes beyond it."""
    assert len(in_jaeger.traces) == len(in_jaeger.scored)
    for one in in_jaeger.scored:
        (root,) = [s for s in in_jaeger.traces[one.trace_id] if s.parent is None]
        assert root == in_jaeger.span(one)
        assert all(
            root.start <= s.start <= s.end <= root.end for s in in_jaeger.traces[one.trace_id]
        )


def test_the_first_click_shows_question_answer_score_and_reason(in_jaeger: InJaeger) -> None:
    """The GenAI tab can show every span, and on a RAG span the conversation and its result."""
    for trace in in_jaeger.traces.values():
        assert warnings_of(trace) == []
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
