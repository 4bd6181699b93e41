"""The worked numbers of the GraphRAG metrics, their empty cases and options."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.findings import (
    ChunkRelevance,
    Finding,
    Findings,
    GEval,
    Questions,
    TokenScore,
    Verdict,
)
from rag_eval_hooks.metrics import MetricOptions, build
from rag_eval_hooks.metrics.options import DontKnow
from rag_eval_hooks.score import Cause
from tests.golden.measure import BY_ID, asked, measure, support, value

SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]
NOTHING_FOUND = Sample(question="q", contexts=(), answer="a", reference="r")
NO_RETRIEVAL = Sample(question="q", answer="a", reference="r")
FAILED = NotScored(Cause.JUDGE_FAILED, "the judge left it out")
NO_FINDING = NotScored(Cause.MISSING_INPUT, "the judge does not make it")
QUESTIONS = Questions(("g1", "g2", "g3"))
RELEVANT = Findings(questions=QUESTIONS, question_similarity=(0.8327, 0.8327, 0.8327))


def chunks(*useful: bool) -> tuple[ChunkRelevance, ...]:
    return tuple(ChunkRelevance(flag, 90.0 if flag else 5.0) for flag in useful)


# Composite


def claims(answer: str, reference: str) -> Findings:
    return Findings(
        answer_claims=("x",),
        answer_support=support(answer),
        reference_claims=("y",),
        reference_support=support(reference),
    )


LOCAL_SEARCH = RELEVANT.merged(claims("x--", "-x-")).merged(Findings(relevance=NO_FINDING))


@pytest.mark.parametrize("absent", [NO_FINDING, FAILED])
def test_part_without_a_value_is_left_out_and_the_weights_grow(absent: NotScored) -> None:
    outcome = measure(
        "graphrag.ragas_score", SAMPLE, LOCAL_SEARCH.merged(Findings(relevance=absent))
    )
    assert value(outcome) == pytest.approx(93.73, abs=0.005)
    assert isinstance(outcome, Score)
    assert outcome.warnings == (f"without context_precision ({absent.cause.value})",)
    metric = "graphrag.ragas_context_precision"
    assert outcome.explanation["left_out"] == [
        {"part": "context_precision", "metric": metric, "cause": absent.cause.value}
    ]
    shares = [row["share"] for row in outcome.explanation["parts"]]
    assert shares == pytest.approx([0.375, 0.25, 0.375])


def test_zeros_are_values_in_the_composite() -> None:
    name = "graphrag.ragas_score"
    zeros = claims("---", "---").merged(Findings(relevance=chunks(False, False, False)))
    outcome = measure(name, SAMPLE, RELEVANT.merged(zeros))
    assert value(outcome) == pytest.approx(24.98, abs=0.005)
    alone = Findings(questions=QUESTIONS, question_similarity=(0.8229,) * 3)
    outcome = measure(name, Sample(question="q", answer="a"), alone)
    assert value(outcome) == pytest.approx(82.29)
    nothing = measure(name, Sample(question="q"))
    assert isinstance(nothing, NotScored)
    assert nothing.cause is Cause.UNDEFINED


def test_weights_can_be_chosen() -> None:
    """Only the weighed parts count, and no finding is asked for the others."""
    weights = {"faithfulness": 1.0, "context_recall": 3.0}
    options = MetricOptions(graphrag_weights=weights)
    metric = next(m for m in build(options) if m.id == "graphrag.ragas_score")
    findings = claims("---", "x--")
    assert value(measure(metric, SAMPLE, findings)) == pytest.approx(75.0)
    assert asked(metric, SAMPLE, findings) == {
        Finding.ANSWER_CLAIMS,
        Finding.ANSWER_SUPPORT,
        Finding.REFERENCE_CLAIMS,
        Finding.REFERENCE_SUPPORT,
    }


def test_the_composite_asks_only_for_what_the_sample_can_feed() -> None:
    metric = BY_ID["graphrag.ragas_score"]
    assert asked(metric, NO_RETRIEVAL, RELEVANT) == {Finding.QUESTIONS, Finding.QUESTION_SIMILARITY}


# Retrieval

NO_CLAIMS = Findings(answer_claims=(), answer_support=(), reference_claims=(), reference_support=())
CLAIM_METRICS = ("graphrag.ragas_faithfulness", "graphrag.ragas_context_recall")
PRECISION = "graphrag.ragas_context_precision"


@pytest.mark.parametrize("metric", CLAIM_METRICS)
@pytest.mark.parametrize("sample", [SAMPLE, NOTHING_FOUND])
def test_no_claim_is_no_unsupported_claim(metric: str, sample: Sample) -> None:
    outcome = measure(metric, sample, NO_CLAIMS)
    assert isinstance(outcome, Score)
    assert (outcome.value, len(outcome.warnings)) == (100.0, 1)


@pytest.mark.parametrize("metric", [*CLAIM_METRICS, PRECISION])
def test_retrieval_that_found_nothing_scores_0(metric: str) -> None:
    findings = claims("", "").merged(Findings(relevance=()))
    assert value(measure(metric, NOTHING_FOUND, findings)) == 0.0
    outcome = measure(metric, NO_RETRIEVAL)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.MISSING_INPUT


@pytest.mark.parametrize(
    ("useful", "plain", "ranked"),
    [((False, False, True), 100 / 3, 100 / 3), ((True, False, True), 200 / 3, 250 / 3)],
)
def test_precision_is_a_plain_mean_unless_ranks_are_asked_for(
    useful: tuple[bool, ...], plain: float, ranked: float
) -> None:
    findings = Findings(relevance=chunks(*useful))
    assert value(measure(PRECISION, SAMPLE, findings)) == pytest.approx(plain)
    metric = next(m for m in build(MetricOptions(graphrag_rank_aware=True)) if m.id == PRECISION)
    assert value(measure(metric, SAMPLE, findings)) == pytest.approx(ranked)
    assert value(measure(metric, NOTHING_FOUND, Findings(relevance=()))) == 0.0


# Answer relevance


def test_answer_relevance_is_a_mean_cosine() -> None:
    name = "graphrag.ragas_answer_relevance"
    findings = Findings(questions=QUESTIONS, question_similarity=(0.9, 0.8, 0.7))
    assert value(measure(name, SAMPLE, findings)) == pytest.approx(80.0)
    unlike = Findings(questions=QUESTIONS, question_similarity=(-0.9, -0.8, 0.1))
    assert value(measure(name, SAMPLE, unlike)) == 0.0


@pytest.mark.parametrize("questions", [Questions(()), NO_FINDING])
@pytest.mark.parametrize("degree", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_without_questions_relevance_is_rated_directly(
    questions: Questions | NotScored, degree: float
) -> None:
    findings = Findings(questions=questions, direct_relevance=degree)
    assert value(measure("graphrag.ragas_answer_relevance", SAMPLE, findings)) == degree * 100


def test_relevance_is_not_rated_directly_in_vain() -> None:
    metric = BY_ID["graphrag.ragas_answer_relevance"]
    blank = Sample(question="q", answer=" ")
    assert Finding.DIRECT_RELEVANCE not in asked(metric, SAMPLE, RELEVANT)
    assert Finding.DIRECT_RELEVANCE not in asked(metric, SAMPLE, Findings(questions=FAILED))
    assert Finding.DIRECT_RELEVANCE not in asked(metric, blank, Findings(questions=Questions(())))
    assert value(measure(metric, blank, Findings(questions=Questions(())))) == 0.0
    assert measure(metric, SAMPLE, Findings(questions=FAILED)) == FAILED


# Answer against reference


@pytest.mark.parametrize(
    ("rating", "letter"),
    [*zip((100, 80, 79, 60, 59, 40, 39, 20, 19, 0), "AABBCCDDEE", strict=True)],
)
def test_grades(rating: int, letter: str) -> None:
    """A from 80, B from 60, C from 40, D from 20, else E; equal criteria give their value."""
    findings = Findings(geval=GEval(rating, rating, rating))
    outcome = measure("graphrag.factual_accuracy_percentage", SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.label) == (rating, letter)


@given(*[st.integers(0, 100)] * 3)
def test_factual_accuracy_weighs_its_criteria(correct: int, complete: int, consistent: int) -> None:
    findings = Findings(geval=GEval(correct, complete, consistent))
    outcome = measure("graphrag.factual_accuracy_percentage", SAMPLE, findings)
    assert value(outcome) * 10 == pytest.approx(5 * correct + 3 * complete + 2 * consistent)
    assert isinstance(outcome, Score)
    assert (outcome.label == "A") == (5 * correct + 3 * complete + 2 * consistent >= 800)


@pytest.mark.parametrize("rating", [-1.0, 100.5, float("nan")])
def test_a_rating_outside_its_scale_is_no_score(rating: float) -> None:
    outcome = measure(
        "graphrag.factual_accuracy_percentage", SAMPLE, Findings(geval=GEval(rating, 50, 50))
    )
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.JUDGE_FAILED


@pytest.mark.parametrize(
    ("cosine", "percent"),
    [(1.0, 100.0), (0.99994, 99.99), (0.87968, 87.97), (-0.3, 0.0), (1.0000001, 100.0)],
)
def test_semantic_similarity(cosine: float, percent: float) -> None:
    """A cosine in percent, rounded to two places, not below 0."""
    findings = Findings(answer_similarity=cosine)
    assert value(measure("graphrag.semantic_similarity_percentage", SAMPLE, findings)) == percent


@pytest.mark.parametrize(("f1", "percent"), [(0.9999, 99.99), (0.7238, 72.38), (-0.2, 0.0)])
def test_bert_score(f1: float, percent: float) -> None:
    """F1 in percent; one below the baseline counts as 0, with a warning."""
    outcome = measure(
        "graphrag.bert_score_f1", SAMPLE, Findings(token_score=TokenScore(f1, f1, f1))
    )
    assert value(outcome) == pytest.approx(percent)
    assert isinstance(outcome, Score)
    assert outcome.parts["f1"] == pytest.approx(f1 * 100)
    assert bool(outcome.warnings) == (f1 < 0)


@pytest.mark.parametrize(
    "metric", ["graphrag.semantic_similarity_percentage", "graphrag.bert_score_f1"]
)
@pytest.mark.parametrize(("answer", "reference"), [("", "r"), (" \n", "r"), ("a", ""), ("a", " ")])
def test_a_blank_text_is_like_nothing(metric: str, answer: str, reference: str) -> None:
    sample = Sample(question="q", answer=answer, reference=reference)
    findings = Findings(answer_similarity=1.0, token_score=TokenScore(1.0, 1.0, 1.0))
    assert value(measure(metric, sample, findings)) == 0.0


# Classes


@pytest.mark.parametrize(
    ("holds", "label", "normalised"), [(True, "CORRECT", 1), (False, "WRONG", 0)]
)
def test_answers_are_correct_or_wrong(holds: bool, label: str, normalised: int) -> None:
    outcome = measure("graphrag.answer_class", SAMPLE, Findings(classification=Verdict(holds)))
    assert isinstance(outcome, Score)
    assert (outcome.label, outcome.normalised) == (label, normalised)


def test_dont_know_is_told_without_a_judge() -> None:
    sample = Sample(question="q", answer="I do not know.", reference="r")
    metric = BY_ID["graphrag.answer_class"]
    assert asked(metric, sample, Findings()) == frozenset()
    outcome = measure(metric, sample)
    assert isinstance(outcome, Score)
    assert (outcome.label, outcome.normalised) == ("DON'T KNOW", 0)


def test_the_mode_decides_what_a_refusal_is() -> None:
    sample = Sample(question="q", answer="The Tomb of the Unknown Soldier.", reference="r")
    findings = Findings(classification=Verdict(True))
    labels = {}
    for mode in DontKnow:
        options = MetricOptions(dont_know=mode)
        metric = next(m for m in build(options) if m.id == "graphrag.answer_class")
        outcome = measure(metric, sample, findings)
        assert isinstance(outcome, Score)
        labels[mode.value] = outcome.label
    assert labels == {"phrases": "DON'T KNOW", "refusal": "CORRECT"}
