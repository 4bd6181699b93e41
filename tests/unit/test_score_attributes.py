"""Scores as span attributes: the headline, verdicts and reasons."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.metrics import ALL_METRICS, Metric
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome, Score
from rag_eval_hooks.telemetry.attribute_limits import Attributes
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes
from rag_eval_hooks.telemetry.thresholds import Thresholds

METRICS = {metric.id: metric for metric in ALL_METRICS}
GROUNDED = ("ragas.faithfulness", "graphrag.ragas_faithfulness", "whitepaper.faithfulness")
CLAIMS = [
    {"claim": "It is 55 minutes.", "supported": True, "reason": "chunk 1 says 55"},
    {"claim": "It is red.", "supported": False, "reason": "no chunk says red"},
    {"claim": "It is near.", "supported": None, "reason": "cannot tell"},
    {"claim": "It is old.", "supported": False, "reason": "no chunk says old"},
]


def attributes(
    outcomes: dict[str, Outcome], limits: dict[str, float] | None = None, *, content: bool = False
) -> Attributes:
    thresholds = Thresholds(limits or {}, ALL_METRICS)
    verdicts = thresholds.verdicts(outcomes)
    evaluation = Evaluation(
        sample=Sample(question="q"),
        outcomes=outcomes,
        probability=None,
        start=0,
        end=1,
        verdicts=verdicts,
        passed=thresholds.passed(outcomes, verdicts),
    )
    return ScoreAttributes(thresholds, content=content).of(evaluation)


def random_score(metric: Metric, source: random.Random) -> Score:
    scale = metric.scale
    return scale.score(round(source.uniform(scale.low, scale.high), 2))


@pytest.mark.parametrize("seed", range(40))
def test_the_headline_is_the_worst_failure(seed: int) -> None:
    """Of all metrics below their thresholds the one that misses by most of its scale is named."""
    source = random.Random(seed)
    chosen = source.sample(sorted(METRICS), 8)
    outcomes: dict[str, Outcome] = {n: random_score(METRICS[n], source) for n in chosen}
    limits = {
        name: round(source.uniform(METRICS[name].scale.low, METRICS[name].scale.high), 2)
        for name in source.sample(chosen, 5)
    }
    seen = attributes(outcomes, limits)
    missed = {}
    for name, limit in limits.items():
        score = outcomes[name]
        assert isinstance(score, Score)
        wanted = METRICS[name].scale.score(limit).normalized
        if score.normalized < wanted - 1e-12:
            missed[name] = wanted - score.normalized
    assert sorted(seen.get("rag.eval.failed", ())) == sorted(missed)  # type: ignore[arg-type]
    if missed:
        named = str(seen["gen_ai.evaluation.name"])
        assert missed[named] == pytest.approx(max(missed.values()))
        assert seen["gen_ai.evaluation.score.label"] == "fail"
        score = outcomes[named]
        assert isinstance(score, Score)
        assert seen["gen_ai.evaluation.score.value"] == score.value
        word = "least" if METRICS[named].scale.higher_is_better else "most"
        line = str(seen["gen_ai.evaluation.explanation"])
        assert f"({score.value:.2f}, at {word} {limits[named]:.2f})" in line
        assert "\n" not in line


@pytest.mark.parametrize("grounded", GROUNDED)
def test_without_a_failure_groundedness_is_the_headline(grounded: str) -> None:
    """Wherever it stands in the list; a missing citation is never the first thing to read."""
    names = ["lexical.source_citation", "ragas.context_recall", grounded, "ragas.answer_relevancy"]
    for order in itertools.permutations(names):
        outcomes: dict[str, Outcome] = {n: METRICS[n].scale.score(1.0) for n in order}
        assert attributes(outcomes)["gen_ai.evaluation.name"] == grounded
    one: dict[str, Outcome] = {"lexical.source_citation": UNIT.score(0.0)}
    assert "gen_ai.evaluation.name" not in attributes(one)
    failed = attributes(one, {"lexical.source_citation": 0.5})
    assert failed["gen_ai.evaluation.name"] == "lexical.source_citation"


def test_without_groundedness_it_is_the_first_that_was_scored() -> None:
    outcomes: dict[str, Outcome] = {
        "ragas.context_recall": NotScored(Cause.MISSING_INPUT),
        "ragas.answer_relevancy": UNIT.score(0.3),
        "ragas.context_precision": UNIT.score(0.4),
    }
    assert attributes(outcomes)["gen_ai.evaluation.name"] == "ragas.answer_relevancy"
    assert "gen_ai.evaluation.score.label" not in attributes(outcomes)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (False, "2 of 3 claims unsupported: claim 2, claim 4 (0.33, at least 0.80)"),
        (True, "2 of 3 claims unsupported: no chunk says red (0.33, at least 0.80)"),
    ],
)
def test_a_reason_quotes_only_when_asked(content: bool, line: str) -> None:
    """Counts and numbers always; words of the application only with content."""
    score = UNIT.score(0.33, explanation={"claims": CLAIMS})
    seen = attributes({"ragas.faithfulness": score}, {"ragas.faithfulness": 0.8}, content=content)
    assert seen["gen_ai.evaluation.explanation"] == line
    assert seen["rag.eval.ragas.faithfulness.reason"] == line
    assert seen["rag.eval.ragas.faithfulness.pass"] is False


def test_only_failures_have_reasons() -> None:
    outcomes: dict[str, Outcome] = {
        "ragas.faithfulness": UNIT.score(0.9),
        "ragas.context_recall": UNIT.score(0.1),
    }
    seen = attributes(outcomes, {"ragas.faithfulness": 0.8})
    assert not [key for key in seen if key.endswith(".reason")]
    assert seen["rag.eval.ragas.faithfulness.pass"] is True
    assert "rag.eval.ragas.context_recall.pass" not in seen


@pytest.mark.parametrize("name", sorted(METRICS))
def test_another_scale_has_its_normalized_value(name: str) -> None:
    """From 0, worst, to 1, best; where that is the metric's own scale, no number stands twice."""
    metric = METRICS[name]
    source = random.Random(name)
    score = random_score(metric, source)
    seen = attributes({name: score})
    normalized = [value for key, value in seen.items() if key.endswith(".normalized")]
    assert normalized == ([] if metric.scale == UNIT else [score.normalized])
    ours: list[Any] = [
        key for key in seen if key.startswith("rag.eval.") and key.endswith(".score")
    ]
    assert len(ours) == 1
    assert seen[ours[0]] == score.value


@pytest.mark.parametrize("metric", GROUNDED)
def test_attributes_of_an_undecided_answer_hold_its_risk(metric: str) -> None:
    undecided = NotScored(Cause.UNDEFINED, "the judge cannot tell", risk=0.62)
    assert attributes({metric: undecided})["rag.eval.risk"] == 0.62
    assert attributes({metric: replace(undecided, risk=None)}).get("rag.eval.risk") is None
