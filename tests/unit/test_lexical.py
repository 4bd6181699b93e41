"""Laws of the lexical suite."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.lexical import METRICS
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import NotScored, Outcome, Score

BY_NAME = {metric.id.removeprefix("lexical."): metric for metric in METRICS}
WORDS = st.lists(
    st.sampled_from(["Territory 118", "rate", "0.305%", "$604", "Rule C-1", "the", "premium"]),
    max_size=8,
)


def outcome(name: str, answer: str, reference: str | None = None) -> Outcome:
    sample = Sample(question="q", answer=answer, reference=reference)
    return BY_NAME[name].score(sample, Findings())


def score(name: str, answer: str, reference: str | None = None) -> Score:
    found = outcome(name, answer, reference)
    assert isinstance(found, Score)
    return found


def test_explanation_names_what_is_missing() -> None:
    explanation = score("number_match", "it is 604", "$604 and 5%").explanation
    assert explanation == {"expected": ["604", "5%"], "found": ["604"], "missing": ["5%"]}


def test_explanation_of_a_mismatch_says_where_it_begins() -> None:
    found = score("exact_match", "the answer.", "The answer")
    assert found.explanation["first_difference_at"] == len("the answer")


@given(WORDS, WORDS, WORDS)
def test_score_is_in_range_and_more_answer_is_never_less_covered(
    answer: list[str], reference: list[str], more: list[str]
) -> None:
    for name in BY_NAME:
        found = outcome(name, " ; ".join(answer), " ; ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value == found.normalized <= 1.0
            json.dumps(dict(found.explanation))
            longer = score(name, " ; ".join([*answer, *more]), " ; ".join(reference))
            assert name == "exact_match" or longer.value >= found.value


@given(st.text(min_size=1, max_size=60))
def test_text_matches_itself(text: str) -> None:
    for name in set(BY_NAME) - {"source_citation"}:
        found = outcome(name, text, text)
        assert isinstance(found, NotScored) or found.value == 1.0
