"""Laws of the lexical suite."""

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


def test_the_suite_is_whole() -> None:
    """The suite has the five metrics of its source, each with a summary and its section."""
    assert list(BY_NAME) == [
        "exact_match", "keyword_coverage", "number_match", "answer_completeness",
        "source_citation",
    ]  # fmt: skip
    assert all(
        metric.summary and "Evaluation Metrics Documentation" in metric.source for metric in METRICS
    )
    assert all(not metric.findings and metric.suite == "lexical" for metric in METRICS)


class TestWorkedExamples:
    """The examples of the source."""

    def test_coverage_of_a_reworded_answer(self) -> None:
        """An answer with every keyword in other order covers all."""
        found = score(
            "keyword_coverage",
            "The rate change for Territory 118 is 0.305%",
            "Territory 118 has a rate change of 0.305%",
        )
        assert found.value == 1.0

    def test_number_within_a_sentence(self) -> None:
        """A number in a sentence matches the bare number."""
        assert score("number_match", "The premium is $604", "$604").value == 1.0

    @pytest.mark.parametrize(
        ("answer", "value"),
        [
            ("It is 604.", 0.0),
            ("From the sky", 0.0),
            ("From scratch: I jumped from the roof", 0.0),
            ("It says so from the annual report", 1 / 3),
            ("Sources: documents 1 and 2, pages 3-4.", 1.0),
            ("It is so [1] [2, 3] (Smith et al., 2020)", 2 / 3),
            ("The list[0] is (as said) new in 2020", 1 / 3),
            ("According to page 3", 2 / 3),
            ("Source: the PDF document, page 2, based on Table: 4", 1.0),
            ("pager of documentation, resource: fromage", 0.0),
        ],
    )
    def test_citation_counts_distinct_whole_words(self, answer: str, value: float) -> None:
        """Each kind of indicator counts once, as a whole word, and three are enough."""
        assert score("source_citation", answer).value == pytest.approx(value)

    def test_repeated_indicator_counts_once(self) -> None:
        """An indicator that is repeated adds nothing."""
        assert score("source_citation", "page 1, page 2, page 3").value == pytest.approx(1 / 3)


class TestExactMatch:
    def test_case_and_white_space_do_not_count(self) -> None:
        """Texts equal but for case and white space match."""
        found = score("exact_match", " the  ANSWER\n", "The answer")
        assert (found.value, found.label) == (1.0, "True")

    def test_any_other_difference_counts(self) -> None:
        """One more character is another answer, and the explanation says where."""
        found = score("exact_match", "the answer.", "The answer")
        assert (found.value, found.label) == (0.0, "False")
        assert found.explanation["first_difference_at"] == len("the answer")


class TestNumberMatch:
    @pytest.mark.parametrize(
        ("answer", "reference", "value"),
        [
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
    def test_values_are_compared(self, answer: str, reference: str, value: float) -> None:
        """Distinct values of the reference count once each, by value, sign and percent."""
        assert score("number_match", answer, reference).value == pytest.approx(value)

    def test_explanation_names_what_is_missing(self) -> None:
        """Expected, found and missing numbers stand in the explanation."""
        explanation = score("number_match", "it is 604", "$604 and 5%").explanation
        assert explanation == {"expected": ["604", "5%"], "found": ["604"], "missing": ["5%"]}


class TestCompleteness:
    def test_it_is_the_mean_of_its_parts(self) -> None:
        """Half the words and half the keywords make one half."""
        found = score("answer_completeness", "apple", "apple banana")
        assert found.parts == {"length": 0.5, "keyword_coverage": 0.5}
        assert found.value == 0.5

    def test_length_is_capped(self) -> None:
        """A longer answer is not more complete than complete."""
        assert score("answer_completeness", "an apple a day keeps", "apple").value == 1.0


class TestAbsence:
    @pytest.mark.parametrize("name", [n for n in BY_NAME if n != "source_citation"])
    @pytest.mark.parametrize("reference", ["", " \n"])
    def test_blank_reference_is_undefined(self, name: str, reference: str) -> None:
        """Nothing can be compared with a blank reference."""
        found = outcome(name, "an answer 5", reference)
        assert isinstance(found, NotScored)
        assert found.cause is Cause.UNDEFINED

    @pytest.mark.parametrize(
        ("name", "reference"),
        [("number_match", "no digits"), ("keyword_coverage", "so it is"),
         ("answer_completeness", "so it is")],
    )  # fmt: skip
    def test_nothing_expected_is_undefined(self, name: str, reference: str) -> None:
        """A share of no items has no value."""
        found = outcome(name, "so it is 5", reference)
        assert isinstance(found, NotScored)
        assert found.cause is Cause.UNDEFINED

    def test_missing_fields_are_named(self) -> None:
        """A metric names the fields that a sample lacks; citation needs the answer only."""
        bare = Sample(question="q")
        assert [m.value for m in BY_NAME["exact_match"].missing(bare)] == ["answer", "reference"]
        assert [m.value for m in BY_NAME["source_citation"].missing(bare)] == ["answer"]

    def test_blank_answer_scores_zero(self) -> None:
        """Answering nothing is an answer, and matches nothing."""
        for metric in METRICS:
            assert score(metric.id.removeprefix("lexical."), "", "Rule C-1 is 5").value == 0.0


@given(WORDS, WORDS)
def test_scores_are_in_range_and_plain(answer: list[str], reference: list[str]) -> None:
    """Every score is in [0, 1], is normalised to itself and explained in JSON types."""
    for name in BY_NAME:
        found = outcome(name, " ".join(answer), " ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value <= 1.0
            assert found.normalised == found.value
            json.dumps(dict(found.explanation))


@given(st.permutations(["the rate is 0.305%", "it is $604", "see Rule C-1", "for Territory 118"]))
def test_order_of_sentences_does_not_matter(parts: list[str]) -> None:
    """Coverage and number match are the same for any order of the answer's sentences."""
    reference = "Territory 118, Rule C-1: 0.305% and $604 but not 293"
    answer = ". ".join(parts)
    assert score("number_match", answer, reference).value == pytest.approx(4 / 5)
    whole = ". ".join(sorted(parts))
    coverage = score("keyword_coverage", answer, reference).value
    assert coverage == score("keyword_coverage", whole, reference).value


@given(WORDS, WORDS)
def test_more_answer_is_never_less_covered(answer: list[str], more: list[str]) -> None:
    """Adding a sentence to an answer lowers neither coverage nor number match."""
    reference = "Territory 118 has a premium of $604, rate 0.305%"
    short, long = " ; ".join(answer), " ; ".join([*answer, *more])
    for name in ("keyword_coverage", "number_match", "source_citation"):
        assert score(name, long, reference).value >= score(name, short, reference).value


@given(st.text(min_size=1, max_size=60))
def test_a_text_matches_itself(text: str) -> None:
    """Wherever a text compared with itself has a score, the score is full."""
    for name in set(BY_NAME) - {"source_citation"}:
        found = outcome(name, text, text)
        if isinstance(found, Score):
            assert found.value == 1.0
