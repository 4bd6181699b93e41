"""Pass and fail by thresholds, and scores as span attributes: headline, verdicts and reasons."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rag_eval_hooks
from rag_eval_hooks import semconv
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.request import Attributes
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import UNIT, Cause, NotScored, Outcome
from rag_eval_hooks.semconv import eval_key
from rag_eval_hooks.telemetry.score_attributes import ScoreAttributes, Thresholds

METRICS = {metric.id: metric for metric in ALL_METRICS}
FAITHFUL, RECALL, RELEVANT = "ragas.faithfulness", "ragas.context_recall", "ragas.answer_relevancy"
CITES = "lexical.source_citation"
GROUNDED = (FAITHFUL, "graphrag.ragas_faithfulness", "whitepaper.faithfulness")
FIELDS = ("score", "normalized", "pass", "reason")
HALF = UNIT.score(0.5)
FAILED = NotScored(Cause.JUDGE_FAILED)
ABSENT = NotScored(Cause.UNDEFINED)


def attributes(
    outcomes: dict[str, Outcome], limits: dict[str, float] | None = None, *, content: bool = False
) -> Attributes:
    thresholds = Thresholds(limits or {}, ALL_METRICS)
    done = thresholds.judged(Evaluation(sample=Sample(question="q"), outcomes=outcomes))
    return ScoreAttributes(thresholds, content=content).of(done)


LEVELS = st.floats(0, 1).map(lambda share: round(share, 2))


@given(st.dictionaries(st.sampled_from(sorted(METRICS)), st.tuples(LEVELS, st.none() | LEVELS)))
def test_the_headline_is_the_worst_failure(drawn: dict[str, tuple[float, float | None]]) -> None:
    scales = {name: METRICS[name].scale for name in drawn}
    native = {name: (one.low, one.high - one.low) for name, one in scales.items()}
    outcomes: dict[str, Outcome] = {
        name: scales[name].score(native[name][0] + share * native[name][1])
        for name, (share, _) in drawn.items()
    }
    limits = {
        name: native[name][0] + limit * native[name][1]
        for name, (_, limit) in drawn.items()
        if limit is not None
    }
    seen = attributes(outcomes, limits)
    missed = {
        name: by
        for name, limit in limits.items()
        if (by := scales[name].normalize(limit) - (outcomes[name].normalized or 0.0)) > 1e-12
    }
    assert set(missed) <= set(seen.get("rag.eval.failed", ()))  # type: ignore[arg-type]
    for name, outcome in outcomes.items():
        told = {field: seen.get(eval_key(name, field)) for field in FIELDS}
        assert told["score"] == outcome.value
        assert (told["normalized"] is not None) is (scales[name] != UNIT)
        assert (told["pass"] is not None) is (name in limits)
        assert (told["reason"] is not None) is (told["pass"] is False)
    if missed:
        named = str(seen["gen_ai.evaluation.name"])
        assert missed[named] == pytest.approx(max(missed.values()))
        assert seen["gen_ai.evaluation.score.label"] == "fail"
        assert seen["gen_ai.evaluation.score.value"] == outcomes[named].value
        word = "least" if scales[named].higher_is_better else "most"
        line = str(seen["gen_ai.evaluation.explanation"])
        assert f"({outcomes[named].value:.2f}, at {word} {limits[named]:.2f})" in line
        assert "\n" not in line


def test_without_a_failure_groundedness_is_the_headline() -> None:
    undecided = NotScored(Cause.UNDEFINED, "the judge cannot tell", risk=0.62, undecided=True)
    for grounded in GROUNDED:
        for order in itertools.permutations([CITES, RECALL, grounded, RELEVANT]):
            outcomes: dict[str, Outcome] = {n: METRICS[n].scale.score(1.0) for n in order}
            assert attributes(outcomes)["gen_ai.evaluation.name"] == grounded
        seen = attributes({RECALL: HALF, grounded: undecided}, {RECALL: 0.4})
        assert seen["gen_ai.evaluation.name"] == grounded
        assert seen["gen_ai.evaluation.score.label"] == "undecided"
        assert seen["rag.eval.risk"] == 0.62


def test_status_names_failures_and_a_pass_needs_all_that_should_be_scored() -> None:
    limits = {FAITHFUL: 0.5, RECALL: 0.5}
    cases: list[tuple[dict[str, Outcome], str, bool | None]] = [
        ({FAITHFUL: HALF, RECALL: HALF}, "ok", True),
        ({FAITHFUL: HALF, RECALL: ABSENT}, "ok", True),
        ({FAITHFUL: HALF, RECALL: FAILED}, "partial", None),
        ({FAITHFUL: ABSENT, RECALL: FAILED}, "error", None),
        ({FAITHFUL: UNIT.score(0), RECALL: FAILED}, "partial", False),
        ({FAITHFUL: ABSENT}, "ok", None),
        ({"lexical.exact_match": HALF}, "ok", None),
    ]
    for outcomes, status, passed in cases:
        seen = attributes(outcomes, limits)
        assert (seen["rag.eval.status"], seen.get("rag.eval.pass")) == (status, passed), outcomes
        assert seen.get("rag.eval.unscored") == ([RECALL] if status != "ok" else None)
        assert seen.get(f"rag.eval.{RECALL}.reason") == (FAILED.line if status != "ok" else None)


# The semantic-convention registry.


FOLDER = Path(rag_eval_hooks.__file__).parent / "registry"
DECLARED = ("score", "normalized", "label", "pass", "screening", "reason", "sample_rate")


def groups() -> Iterator[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name != "registry_manifest.yaml":
            yield from yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]


def instruments() -> Iterator[str]:
    for file in FOLDER.parent.glob("*/instruments.toml"):
        for rows in tomllib.loads(file.read_text(encoding="utf-8")).values():
            yield from rows


def test_every_name_is_declared_and_no_other() -> None:
    results = [
        semconv.eval_key(metric.id, field)
        for metric in ALL_METRICS
        for field in DECLARED
        if (field != "normalized" or metric.scale != UNIT)
        and (field != "screening" or metric.findings)
    ]
    own = [value for name, value in vars(semconv).items() if name.startswith("EVAL_")]
    declared = [
        one["id"] for group in groups() for one in group.get("attributes", ()) if "id" in one
    ]
    assert sorted(declared) == sorted([*own, *results])
    metrics = [one["metric_name"] for one in groups() if one["type"] == "metric"]
    assert sorted(metrics) == sorted(instruments())
    events = [one["name"] for one in groups() if one["type"] == "event"]
    assert events == [semconv.GEN_AI_EVALUATION_EVENT]
