"""Criteria in one sentence, judged over HTTP: each alone, whatever else is measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Criterion, NotScored, RagEval, Sample, Score
from rag_eval_hooks.score import Cause
from tests.servers.judge_server import JudgeServer

WORD = st.text("abcdefghijk", min_size=3, max_size=8)
SENTENCE = st.lists(WORD, min_size=3, max_size=6).map(lambda words: " ".join(words).capitalize())


@pytest.fixture(scope="module")
def server() -> Any:
    with JudgeServer() as judge:
        yield judge


def evaluator(server: JudgeServer, *metrics: Any, **more: Any) -> RagEval:
    endpoint: dict[str, Any] = {"judge_base_url": server.url, "judge_api_key": "k"}
    return RagEval(metrics, judge="openai:test", embedder="none", **endpoint, **more)


@given(st.lists(SENTENCE, min_size=2, max_size=4, unique=True), st.data())
@settings(max_examples=15, deadline=None)
def test_value_says_whether_the_answer_meets_it(
    server: JudgeServer, sentences: list[str], data: st.DataObject
) -> None:
    """The judge sees question and answer, not the contexts, and other metrics change nothing."""
    *said, asked = sentences
    asked = data.draw(st.sampled_from([*said, asked]))
    sample = Sample(question="q?", contexts=(asked,), answer=". ".join(said) + ".")  # type: ignore[arg-type]
    criterion, values, calls = Criterion(f"{asked}.", name="own"), [], []
    for metrics in ([criterion], ["ragas.faithfulness", Criterion("is polite"), criterion]):
        with evaluator(server, *metrics) as evals:
            before = len(server.calls())
            outcome = evals.evaluate(sample)["criterion.own"]
            calls.append(len(server.calls()) - before)
        assert isinstance(outcome, Score)
        assert outcome.label == ("met" if outcome.value else "not met")
        assert outcome.usage.calls == 1
        values.append(outcome.value)
    assert calls[0] == 1
    assert values == [float(asked in said)] * 2


def test_answer_without_text_cut_or_unread_meets_and_misses_nothing(server: JudgeServer) -> None:
    cut = {"answer": "Thirty days", "truncated": ("answer",)}
    cases: list[tuple[dict[str, Any], Cause]] = [
        ({"answer": " "}, Cause.UNDEFINED),
        ({"answer": None}, Cause.MISSING_INPUT),
        (cut, Cause.UNDEFINED),
    ]
    with evaluator(server, Criterion("Notice is in writing", name="own")) as evals:
        for fields, cause in cases:
            outcome = evals.evaluate(Sample(question="q", **fields))["criterion.own"]
            assert isinstance(outcome, NotScored)
            assert (outcome.cause, outcome.undecided) == (cause, fields is cut)
    with RagEval([Criterion("is polite")]) as evals:
        outcome = evals.evaluate(question="q", answer="Gladly.")["criterion.is_polite"]
    assert isinstance(outcome, NotScored)
    assert outcome.detail.endswith("configure an LLM judge")
