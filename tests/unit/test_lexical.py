"""Laws of the lexical suite, and the examples of its source."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.lexical import METRICS
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Cause, NotScored, Outcome, Score

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


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("It is 604.", 0),
        ("From the sky", 0),
        ("From scratch: I jumped from the roof", 0),
        ("It says so from the annual report", 1),
        ("page 1, page 2, page 3", 1),
        ("Sources: documents 1 and 2, pages 3-4.", 3),
        ("It is so [1] [2, 3] (Smith et al., 2020)", 2),
        ("The list[0] is (as said) new in 2020", 1),
        ("According to page 3", 2),
        ("Source: the PDF document, page 2, based on Table: 4", 3),
        ("pager of documentation, resource: fromage", 0),
    ],
)
def test_citation_counts_distinct_whole_words(answer: str, value: int) -> None:
    assert score("source_citation", answer).value == pytest.approx(value / 3)


def test_exact_match_ignores_case_and_white_space_only() -> None:
    found = score("exact_match", " the  ANSWER\n", "The answer")
    assert (found.value, found.label) == (1.0, "True")
    found = score("exact_match", "the answer.", "The answer")
    assert (found.value, found.label) == (0.0, "False")
    assert found.explanation["first_difference_at"] == len("the answer")


@pytest.mark.parametrize(
    ("answer", "reference", "value"),
    [
        ("The premium is $604", "$604", 1.0),
        ("1604", "604", 0.0),
        ("365 days", "36", 0.0),
        ("0.133%", "-0.133%", 0.0),
        ("a change of -0.133 percent", "-0.133%", 1.0),
        ("0.305", "0.305%", 0.0),
        ("1000", "$1,000", 1.0),
        ("604 only", "604 = 293 * 2.061", 1 / 3),
        ("51", "51 and 51", 1.0),
        ("three rules", "3 rules", 1.0),
        ("1500 metres", "1.5 km", 1.0),
        ("1500 metres", "1.6 km", 0.0),
        ("$1.2bn", "1.2 billion", 1.0),
        ("May 1, 2024", "2024-05-01", 1.0),
        ("May 2, 2024", "2024-05-01", 1 / 3),
    ],
)
def test_numbers_are_compared_as_values(answer: str, reference: str, value: float) -> None:
    assert score("number_match", answer, reference).value == pytest.approx(value)


def test_explanation_names_what_is_missing() -> None:
    explanation = score("number_match", "it is 604", "$604 and 5%").explanation
    assert explanation == {"expected": ["604", "5%"], "found": ["604"], "missing": ["5%"]}


def test_completeness_is_the_mean_of_length_and_keywords() -> None:
    found = score("answer_completeness", "apple", "apple banana")
    assert found.parts == {"length": 0.5, "keyword_coverage": 0.5}
    assert found.value == 0.5
    assert score("answer_completeness", "an apple a day keeps", "apple").value == 1.0


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        *((name, blank) for name in BY_NAME if name != "source_citation" for blank in ("", " \n")),
        ("number_match", "no digits"),
        ("keyword_coverage", "so it is"),
        ("answer_completeness", "so it is"),
    ],
)
def test_nothing_to_compare_with_is_undefined(name: str, reference: str) -> None:
    found = outcome(name, "so it is 5", reference)
    assert isinstance(found, NotScored)
    assert found.cause is Cause.UNDEFINED


def test_blank_answer_scores_zero() -> None:
    """Answering nothing is an answer, and matches nothing."""
    assert [score(name, "", "Rule C-1 is 5").value for name in BY_NAME] == [0.0] * 5


@given(WORDS, WORDS, WORDS)
def test_score_is_in_range_and_more_answer_is_never_less_covered(
    answer: list[str], reference: list[str], more: list[str]
) -> None:
    for name in BY_NAME:
        found = outcome(name, " ; ".join(answer), " ; ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value == found.normalised <= 1.0
            json.dumps(dict(found.explanation))
            longer = score(name, " ; ".join([*answer, *more]), " ; ".join(reference))
            assert name == "exact_match" or longer.value >= found.value


@given(st.text(min_size=1, max_size=60))
def test_text_matches_itself(text: str) -> None:
    for name in set(BY_NAME) - {"source_citation"}:
        found = outcome(name, text, text)
        assert isinstance(found, NotScored) or found.value == 1.0
