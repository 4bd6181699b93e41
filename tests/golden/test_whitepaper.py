"""The worked numbers of the white paper, and its rules for indistinct texts and no context."""

from __future__ import annotations

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.findings import Finding, Findings, Rating, Stance, Support
from rag_eval_hooks.metrics import MetricOptions, build
from rag_eval_hooks.score import Cause
from tests.golden.measure import BY_ID, asked, measure, support, value

SAMPLE = Sample(
    question="Do you think this kind of technology is exciting or concerning?",
    contexts=("benefit", "downside", "soon"),  # type: ignore[arg-type]
    answer="Game changer for disabilities, but emotionally exhausting.",
    reference="Mostly exciting, though there are some risks.",
)
CASE = Findings(
    answer_claims=("It is a game changer for disabilities.", "It is emotionally exhausting."),
    answer_support=support("x--", "-x-"),
    stance=Stance(answer=False, reference=False),
    correctness=Rating(3),
    alignment=Rating(4),
)
BOTH_VAGUE = Findings(stance=Stance(answer=True, reference=True), attitude=Rating(4))
VAGUE_ANSWER = Findings(
    answer_claims=(),
    answer_support=(),
    reference_claims=("x", "y"),
    reference_support=support("x--", "---"),
    stance=Stance(answer=True),
)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("correctness", 3.0),
        ("faithfulness", 5.0),
        ("precision", 3.67),
        ("recall", 5.0),
        ("relevance", 4.0),
        ("weighted_score", 3.93),
    ],
)
def test_the_case_study(metric: str, expected: float) -> None:
    """2 of 3 chunks used, 2 of 2 claims supported, correctness 3: 5.0, 3.67, 5.0 and 3.93."""
    outcome = measure(f"whitepaper.{metric}", SAMPLE, CASE)
    assert value(outcome) == pytest.approx(expected, abs=0.005)


def test_a_share_is_put_on_the_scale_from_1_to_5() -> None:
    findings = CASE.merged(Findings(answer_support=support("x--", "---")))
    outcome = measure("whitepaper.faithfulness", SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.parts["raw"], outcome.normalised) == (3.0, 0.5, 0.5)


@pytest.mark.parametrize("metric", ["correctness", "faithfulness"])
def test_two_indistinct_texts_are_compared_by_attitude(metric: str) -> None:
    name = f"whitepaper.{metric}"
    outcome = measure(name, SAMPLE, BOTH_VAGUE.merged(Findings(answer_claims=())))
    assert isinstance(outcome, Score)
    assert (outcome.value, outcome.explanation["by"]) == (4.0, "attitude")
    wanted = asked(BY_ID[name], SAMPLE, BOTH_VAGUE)
    assert Finding.ATTITUDE in wanted
    assert not wanted & {Finding.CORRECTNESS, Finding.ANSWER_SUPPORT}


@pytest.mark.parametrize("stance", [Stance(True, False), Stance(False, True), Stance(False, False)])
def test_attitude_is_not_asked_for_unless_both_are_indistinct(stance: Stance) -> None:
    findings = CASE.merged(Findings(stance=stance))
    for metric in ("correctness", "faithfulness"):
        assert Finding.ATTITUDE not in asked(BY_ID[f"whitepaper.{metric}"], SAMPLE, findings)
    assert value(measure("whitepaper.correctness", SAMPLE, findings)) == 3.0


@pytest.mark.parametrize(("metric", "expected"), [("precision", 1 + 4 / 3), ("recall", 3.0)])
def test_an_indistinct_answer_gives_way_to_the_reference(metric: str, expected: float) -> None:
    name = f"whitepaper.{metric}"
    assert value(measure(name, SAMPLE, VAGUE_ANSWER)) == pytest.approx(expected)
    wanted = asked(BY_ID[name], SAMPLE, VAGUE_ANSWER)
    assert Finding.REFERENCE_SUPPORT in wanted
    assert Finding.ANSWER_SUPPORT not in wanted


@pytest.mark.parametrize("metric", ["precision", "recall"])
def test_an_indistinct_answer_without_a_reference_has_no_score(metric: str) -> None:
    sample = Sample(question="q", contexts=("a",), answer="Well.")  # type: ignore[arg-type]
    outcome = measure(f"whitepaper.{metric}", sample, VAGUE_ANSWER)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.MISSING_INPUT


@pytest.mark.parametrize("contexts", [None, ()])
def test_without_context_nothing_is_asked(contexts: tuple[()] | None) -> None:
    sample = Sample(question="q", contexts=contexts, answer="a", reference="r")
    for metric in ("faithfulness", "recall"):
        outcome = measure(f"whitepaper.{metric}", sample)
        assert isinstance(outcome, Score)
        assert (outcome.value, outcome.parts["raw"]) == (5.0, 1.0)
        assert outcome.warnings == ("No context to verify",)
        assert asked(BY_ID[f"whitepaper.{metric}"], sample, Findings()) == frozenset()
    precision = measure("whitepaper.precision", sample)
    assert isinstance(precision, NotScored)
    assert precision.cause is Cause.UNDEFINED
    assert asked(BY_ID["whitepaper.precision"], sample, Findings()) == frozenset()


def test_faithfulness_without_a_reference_asks_for_no_stance() -> None:
    sample = Sample(question="q", contexts=("a",), answer="a")  # type: ignore[arg-type]
    wanted = asked(BY_ID["whitepaper.faithfulness"], sample, Findings())
    assert wanted == {Finding.ANSWER_CLAIMS, Finding.ANSWER_SUPPORT}


def test_a_claim_that_only_chunks_together_support_marks_no_chunk() -> None:
    together = (Support((False, False, False), together=True), Support((True, False, False)))
    findings = CASE.merged(Findings(answer_support=together))
    assert value(measure("whitepaper.recall", SAMPLE, findings)) == 5.0
    outcome = measure("whitepaper.precision", SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(1 + 4 / 3)
    assert len(outcome.warnings) == 1


@pytest.mark.parametrize("metric", ["faithfulness", "recall"])
def test_a_share_of_no_claims_is_undefined(metric: str) -> None:
    findings = Findings(answer_claims=(), answer_support=(), stance=Stance(answer=False))
    outcome = measure(f"whitepaper.{metric}", SAMPLE, findings)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.UNDEFINED


@pytest.mark.parametrize("rating", [0.0, 5.5, float("nan")])
def test_a_rating_outside_1_to_5_is_no_score(rating: float) -> None:
    outcome = measure("whitepaper.relevance", SAMPLE, Findings(alignment=Rating(rating)))
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.JUDGE_FAILED


def test_weighted_score_leaves_out_what_is_missing() -> None:
    outcome = measure("whitepaper.weighted_score", Sample(question="q", answer="a"))
    assert isinstance(outcome, Score)
    assert outcome.value == 5.0
    assert outcome.warnings == (
        "without correctness (missing_input)",
        "without precision (undefined)",
        "No context to verify",
    )
    assert {row["part"] for row in outcome.explanation["left_out"]} == {"correctness", "precision"}


def test_relevance_counts_when_it_is_given_a_weight() -> None:
    metric = BY_ID["whitepaper.weighted_score"]
    assert Finding.ALIGNMENT not in asked(metric, SAMPLE, CASE)
    options = MetricOptions(whitepaper_weights={"correctness": 1, "relevance": 1})
    metric = next(m for m in build(options) if m.id == "whitepaper.weighted_score")
    assert value(measure(metric, SAMPLE, CASE)) == 3.5


def test_a_failed_stance_fails_what_goes_by_it() -> None:
    failed = NotScored(Cause.JUDGE_FAILED, "the judge left it out")
    findings = CASE.merged(Findings(stance=failed))
    for metric in ("correctness", "faithfulness", "precision", "recall", "weighted_score"):
        outcome = measure(f"whitepaper.{metric}", SAMPLE, findings)
        assert isinstance(outcome, NotScored), metric
        assert outcome.cause is Cause.JUDGE_FAILED
