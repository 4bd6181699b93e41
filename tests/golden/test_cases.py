"""The worked numbers of the suites' sources, from `cases.toml`."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from rag_eval_hooks import NotScored, RagEval, Sample, Score
from rag_eval_hooks.findings import Finding, Findings, GEval, Support
from rag_eval_hooks.metrics import Metric, build
from rag_eval_hooks.score import Cause
from rag_eval_hooks.testing import ScriptedJudge
from tests.golden.measure import BY_ID, asked, measure, value

CASES: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("cases.toml").read_text("utf-8")
)["case"]
USUAL = {"question": "q", "contexts": ["a", "b", "c"], "answer": "a", "reference": "r"}
FINDINGS = TypeAdapter(Findings)


def sample_of(case: dict[str, Any]) -> Sample:
    fields = {**USUAL, **case.get("sample", {})}
    return Sample.from_dict({name: one for name, one in fields.items() if one is not False})


def supports(rows: list[str]) -> list[Support]:
    def one(row: str) -> Support:
        return Support(tuple(mark == "x" for mark in row), together=False)

    together = Support((False,) * 3, together=True)
    return [together if row == "together" else one(row) for row in rows]


def findings_of(case: dict[str, Any]) -> Findings:
    found: dict[str, Any] = {k: v for k, v in case.items() if k in list(Finding)}
    for whose in ("answer", "reference"):
        if whose in case:
            found[f"{whose}_claims"] = list(map(str, range(len(case[whose]))))
            found[f"{whose}_support"] = supports(case[whose])
    if "relevance" in case:
        found["relevance"] = [{"useful": mark == "x", "rating": 50} for mark in case["relevance"]]
    for short, kind in (("agree", "answer_agreement"), ("entities", "entities_found")):
        if short in case:
            found[kind] = [{"holds": mark == "x"} for mark in case[short]]
    if "entities" in case:
        found["entities"] = list(map(str, range(len(case["entities"]))))
    if "cosines" in case:
        texts = [f"question {at}" for at in range(len(case["cosines"]))]
        found["questions"] = {"texts": texts, "noncommittal": case.get("noncommittal", False)}
        found["question_similarity"] = case["cosines"]
    absent = {name: NotScored(Cause(cause)) for name, cause in case.get("absent", {}).items()}
    return FINDINGS.validate_python(found | absent)


def assert_worked_value(case: dict[str, Any]) -> None:
    metric, sample, findings = BY_ID[case["metric"]], sample_of(case), findings_of(case)
    wanted = asked(metric, sample, findings)
    assert wanted == set(case.get("reads", wanted))
    assert not wanted & set(case.get("skips", ()))
    outcome = measure(metric, sample, findings)
    if "cause" in case:
        assert isinstance(outcome, NotScored)
        assert outcome.cause == case["cause"]
        return
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(case["value"], abs=case.get("within", 1e-8))
    for name in case.keys() & {"label", "normalized"}:
        assert getattr(outcome, name) == case[name]
    assert case.get("explanation", {}).items() <= outcome.explanation.items()
    assert outcome.parts == pytest.approx(case.get("parts", outcome.parts))
    assert list(outcome.warnings) == case.get("warnings", list(outcome.warnings))
    assert len(outcome.warnings) == case.get("warned", len(outcome.warnings))


def test_metric_has_the_worked_value(subtests: pytest.Subtests) -> None:
    for number, case in enumerate(CASES):
        with subtests.test(f"{number} {case['metric']}"):
            assert_worked_value(case)


def chosen(metric_id: str, **options: Any) -> Metric:
    return next(one for one in build(**options) if one.id == metric_id)


def test_weights_can_be_chosen() -> None:
    weights = {"faithfulness": 1.0, "context_recall": 3.0}
    metric = chosen("graphrag.ragas_score", graphrag_weights=weights)
    case = {"answer": ["---"], "reference": ["x--"]}
    sample, findings = sample_of({}), findings_of(case)
    assert value(measure(metric, sample, findings)) == pytest.approx(75.0)
    kinds = {"answer_claims", "answer_support", "reference_claims", "reference_support"}
    assert asked(metric, sample, findings) == kinds
    metric = chosen("whitepaper.weighted_score", whitepaper_weights={"relevance": 1})
    findings = FINDINGS.validate_python({"alignment": {"value": 4}})
    assert value(measure(metric, sample, findings)) == 4.0


def test_precision_can_be_rank_aware() -> None:
    for marks, ranked in [("--x", 100 / 3), ("x-x", 250 / 3), ("", 0.0)]:
        metric = chosen("graphrag.ragas_context_precision", graphrag_rank_aware=True)
        findings = findings_of({"relevance": marks})
        assert value(measure(metric, sample_of({}), findings)) == pytest.approx(ranked)


@given(*[st.integers(0, 100)] * 3)
def test_factual_accuracy_weighs_its_criteria(correct: int, complete: int, consistent: int) -> None:
    findings = Findings(geval=GEval(correct, complete, consistent))
    outcome = measure("graphrag.factual_accuracy_percentage", sample_of({}), findings)
    expected = 5 * correct + 3 * complete + 2 * consistent
    assert value(outcome) * 10 == pytest.approx(expected)
    assert isinstance(outcome, Score)
    assert outcome.label == "EDCBA"[sum(expected >= limit for limit in (200, 400, 600, 800))]


def test_empty_retrieval_supports_nothing() -> None:
    sample = sample_of({"sample": {"contexts": []}})
    claims = Findings(answer_claims=("x",), reference_claims=("x",), entities=("x",))
    names = ("faithfulness", "context_recall", "context_entity_recall", "context_precision")
    metrics = [f"ragas.{name}" for name in names]
    with RagEval(metrics=metrics, judge=ScriptedJudge(claims)) as evals:
        outcomes = evals.evaluate(sample)
    assert [outcomes[metric].value for metric in metrics] == [0.0, 0.0, 0.0, None]


def test_missing_field_is_named() -> None:
    for metric in BY_ID:
        for lacking in BY_ID[metric].needs - {"question"}:
            outcome = measure(metric, sample_of({"sample": {lacking.value: False}}))
            assert isinstance(outcome, NotScored)
            assert (outcome.cause, lacking in outcome.detail) == ("missing_input", True)


RATINGS = [
    ("nvidia.answer_accuracy", "accuracy_ratings", (0, 2, 4)),
    ("nvidia.context_relevance", "context_ratings", (0, 1, 2)),
    ("nvidia.response_groundedness", "groundedness_ratings", (0, 1, 2)),
]


def test_valid_ratings_of_two_are_averaged() -> None:
    for metric, field, steps in RATINGS:
        for pair in itertools.product((*steps, None, 3, 5, -1), repeat=2):
            outcome = measure(metric, sample_of({}), findings_of({field: pair}))
            valid = [rating for rating in pair if rating in steps]
            if valid:
                assert isinstance(outcome, Score)
                assert outcome.value == sum(valid) / len(valid) / max(steps)
                assert len(outcome.warnings) == 2 - len(valid)
            else:
                assert isinstance(outcome, NotScored)
                assert outcome.cause is Cause.JUDGE_FAILED
