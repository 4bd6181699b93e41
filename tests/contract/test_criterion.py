"""Criteria in one sentence, judged over HTTP: each alone, whatever else is measured."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Criterion, NotScored, RagEval, Sample, Score
from rag_eval_hooks.errors import ConfigError
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


def test_prompt_states_the_criterion_as_a_claim_about_the_answer(server: JudgeServer) -> None:
    with evaluator(server, Criterion("mentions the notice period.")) as evals:
        outcomes = evals.evaluate(question="q", answer="Thirty days.")
    assert list(outcomes) == ["criterion.mentions_the_notice_period"]
    prompt = str(server.calls()[-1])
    assert "The answer mentions the notice period." in prompt
    assert "The answer to the question is:" in prompt


@pytest.mark.parametrize(("answer", "cause"), [(" ", Cause.UNDEFINED), (None, Cause.MISSING_INPUT)])
def test_answer_without_text_meets_and_misses_nothing(
    server: JudgeServer, answer: str | None, cause: Cause
) -> None:
    with evaluator(server, Criterion("is short", name="short")) as evals:
        outcome = evals.evaluate(Sample(question="q", answer=answer))["criterion.short"]
    assert isinstance(outcome, NotScored)
    assert outcome.cause is cause


def test_cut_answer_is_not_said_to_lack_something(server: JudgeServer) -> None:
    sample = Sample(question="q", answer="Thirty days", truncated=("answer",))
    with evaluator(server, Criterion("Notice is in writing", name="writing")) as evals:
        outcome = evals.evaluate(sample)["criterion.writing"]
    assert isinstance(outcome, NotScored)
    assert outcome.undecided


def test_embedded_judge_leaves_it_undecided() -> None:
    with RagEval([Criterion("is polite")]) as evals:
        outcome = evals.evaluate(question="q", answer="Gladly.")["criterion.is_polite"]
    assert isinstance(outcome, NotScored)
    assert outcome.undecided
    assert outcome.detail.endswith("configure an LLM judge")


def test_blank_criterion_is_refused() -> None:
    with pytest.raises(ConfigError, match="criterion"):
        Criterion(" . ")
