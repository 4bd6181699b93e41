"""The worked numbers of the RAGAS guide, and its empty cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag_eval_hooks import NotScored, RagEval, Sample, Score
from rag_eval_hooks.testing import (
    ChunkRelevance,
    Findings,
    Questions,
    ScriptedJudge,
    Support,
    Verdict,
)
from tests.golden.measure import BY_ID, measure, support, value

SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]
THREE = Questions(("g1", "g2", "g3"))
EVASIVE = Questions(("q", "q2", "q3"), noncommittal=True)
TOGETHER = (Support((False,) * 3, together=True),)


def chunks(marks: str) -> tuple[ChunkRelevance, ...]:
    return tuple(ChunkRelevance(mark == "x", 90.0 if mark == "x" else 5.0) for mark in marks)


def verdicts(marks: str) -> tuple[Verdict, ...]:
    return tuple(Verdict(mark == "x") for mark in marks)


def claims(*rows: str, agree: str = "", relevant: str = "x--") -> Findings:
    texts, found = tuple(map(str, range(len(rows)))), support(*rows)
    return Findings(
        answer_claims=texts,
        answer_support=found,
        reference_claims=texts,
        reference_support=found,
        answer_agreement=verdicts(agree),
        relevance=chunks(relevant),
    )


def entities(marks: str) -> Findings:
    return Findings(entities=tuple(map(str, range(len(marks)))), entities_found=verdicts(marks))


@pytest.mark.parametrize(
    ("metric", "findings", "expected"),
    [
        ("context_precision", Findings(relevance=chunks("x--")), 1.0),
        ("context_precision", Findings(relevance=chunks("--x")), 1 / 3),
        ("context_precision", Findings(relevance=chunks("---")), 0.0),
        ("context_recall", claims("x--", "x--"), 1.0),
        ("context_recall", claims("x--", "---"), 0.5),
        ("context_entity_recall", entities("xxxx"), 1.0),
        ("context_entity_recall", entities("x---"), 0.25),
        ("faithfulness", claims("x--"), 1.0),
        ("faithfulness", claims("---"), 0.0),
        ("faithfulness", replace(claims("---"), answer_support=TOGETHER), 1.0),
        ("noise_sensitivity", claims("x--", "x--", agree="xx"), 0.0),
        ("noise_sensitivity", claims("x--", "x--", agree="x-"), 0.5),
        ("answer_relevancy", Findings(questions=THREE, question_similarity=(1, 0.6, 0)), 1.6 / 3),
        ("answer_relevancy", Findings(questions=THREE, question_similarity=(-1, 0, 0)), 0.0),
        ("answer_relevancy", Findings(questions=EVASIVE, question_similarity=(1, 1, 1)), 0.0),
    ],
)
def test_metric_has_the_worked_value(metric: str, findings: Findings, expected: float) -> None:
    outcome = measure(f"ragas.{metric}", SAMPLE, findings)
    assert value(outcome) == pytest.approx(expected)
    assert isinstance(outcome, Score)
    is_error = metric == "noise_sensitivity"
    assert outcome.normalised == pytest.approx(1 - expected if is_error else expected)


def test_parts_of_noise_sensitivity_add_up() -> None:
    findings = claims("x--", "x--", "-x-", "---", agree="x---")
    outcome = measure("ragas.noise_sensitivity", SAMPLE, findings)
    assert isinstance(outcome, Score)
    assert outcome.parts == {"relevant": 0.25, "irrelevant": 0.25, "unsupported": 0.25}
    assert sum(outcome.parts.values()) == outcome.value


@pytest.mark.parametrize(
    ("metric", "findings"),
    [
        *((name, claims()) for name in ("faithfulness", "context_recall", "noise_sensitivity")),
        ("context_entity_recall", entities("")),
        ("answer_relevancy", Findings(questions=Questions(()), question_similarity=())),
    ],
)
def test_share_of_nothing_is_undefined(metric: str, findings: Findings) -> None:
    outcome = measure(f"ragas.{metric}", SAMPLE, findings)
    assert isinstance(outcome, NotScored)
    assert outcome.cause == "undefined"


@pytest.mark.parametrize(
    ("metric", "findings", "expected"),
    [
        ("ragas.faithfulness", Findings(answer_claims=("x",)), 0.0),
        ("ragas.context_recall", Findings(reference_claims=("x",)), 0.0),
        ("ragas.context_entity_recall", Findings(entities=("x",)), 0.0),
        ("ragas.context_precision", Findings(), "undefined"),
    ],
)
def test_empty_retrieval_supports_nothing(
    metric: str, findings: Findings, expected: float | str
) -> None:
    """Its precision has no value; no judge is asked."""
    sample = Sample(question="q", contexts=(), answer="a", reference="r")
    with RagEval(metrics=[metric], judge=ScriptedJudge(findings)) as evals:
        outcome = evals.evaluate(sample)[metric]
    assert (outcome.value if isinstance(outcome, Score) else outcome.cause) == expected


@pytest.mark.parametrize("metric", [one for one in BY_ID if one.startswith(("ragas.", "nvidia."))])
def test_missing_field_is_named(metric: str) -> None:
    for lacking in BY_ID[metric].needs - {"question"}:
        sample = replace(SAMPLE, **{lacking.value: None})  # type: ignore[arg-type]
        outcome = measure(metric, sample)
        assert isinstance(outcome, NotScored)
        assert (outcome.cause, lacking in outcome.detail) == ("missing_input", True)
