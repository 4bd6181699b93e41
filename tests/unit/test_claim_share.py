"""Four verdicts on claims, and metrics over those that the judge is sure about."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from rag_eval_hooks import NotScored, RagEval, Sample, Score
from rag_eval_hooks.explanation_text import explain, prose
from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Findings,
    Stance,
    Support,
    Verdict,
)
from rag_eval_hooks.score import AnnotatorKind, Cause
from rag_eval_hooks.testing import ScriptedJudge
from tests.golden.measure import measure

SEEDS = range(60)
KINDS = list(ClaimVerdict)
CHUNKS = 3
SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]
SUPPORT_METRICS = {
    "ragas.faithfulness": ("answer", 0.0, 1.0),
    "ragas.context_recall": ("reference", 0.0, 1.0),
    "graphrag.ragas_faithfulness": ("answer", 0.0, 100.0),
    "graphrag.ragas_context_recall": ("reference", 0.0, 100.0),
    "whitepaper.faithfulness": ("answer", 1.0, 4.0),
    "whitepaper.recall": ("answer", 1.0, 4.0),
}


def random_support(rng: random.Random, kind: ClaimVerdict) -> Support:
    if kind is not ClaimVerdict.SUPPORTED:
        return Support((False,) * CHUNKS, verdict=kind, probability=rng.choice([None, 0.3]))
    flags = tuple(rng.random() < 0.4 for _ in range(CHUNKS))
    return Support(flags, together=not any(flags), verdict=kind, probability=rng.random())


def findings(rng: random.Random, supports: tuple[Support, ...]) -> Findings:
    claims = tuple(f"claim {n}" for n in range(len(supports)))
    agreement = tuple(Verdict(rng.random() < 0.5, sure=rng.random() < 0.8) for _ in supports)
    return Findings(
        answer_claims=claims,
        reference_claims=claims,
        answer_support=supports,
        reference_support=supports,
        answer_agreement=agreement,
        relevance=tuple(ChunkRelevance(rng.random() < 0.5, 50) for _ in range(CHUNKS)),
        stance=Stance(answer=False),
    )


@pytest.mark.parametrize("metric", SUPPORT_METRICS)
@pytest.mark.parametrize("seed", SEEDS)
def test_unsure_claims_count_for_neither_side(metric: str, seed: int) -> None:
    """The share is over sure claims; below two thirds of them it is undefined, with the reason."""
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(rng.randint(1, 9))]
    supports = tuple(random_support(rng, kind) for kind in kinds)
    outcome = measure(metric, SAMPLE, findings(rng, supports))
    sure = [kind for kind in kinds if kind is not ClaimVerdict.UNSURE]
    if 3 * len(sure) < 2 * len(kinds):
        assert isinstance(outcome, NotScored)
        assert outcome.cause is Cause.UNDEFINED
        assert "cannot tell" in outcome.detail
        return
    assert isinstance(outcome, Score)
    _texts, low, span = SUPPORT_METRICS[metric]
    assert outcome.value == pytest.approx(
        low + span * sure.count(ClaimVerdict.SUPPORTED) / len(sure)
    )
    assert bool(outcome.warnings) == (len(sure) < len(kinds))


@pytest.mark.parametrize("metric", SUPPORT_METRICS)
@pytest.mark.parametrize("seed", SEEDS)
def test_contradicted_and_not_stated_are_reported_apart(metric: str, seed: int) -> None:
    """With the share of supported claims they add up to all sure ones."""
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS[:3]) for _ in range(rng.randint(1, 9))]
    outcome = measure(
        metric, SAMPLE, findings(rng, tuple(random_support(rng, kind) for kind in kinds))
    )
    assert isinstance(outcome, Score)
    top = 100.0 if metric.startswith("graphrag") else 1.0
    for kind in (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED):
        assert outcome.parts[kind.value] == pytest.approx(top * kinds.count(kind) / len(kinds))
    assert outcome.parts["unsure"] == 0
    assert outcome.parts["contradicted"] + outcome.parts["not_stated"] == pytest.approx(
        top * (1 - kinds.count(ClaimVerdict.SUPPORTED) / len(kinds))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_counts_claims_that_are_sure(seed: int) -> None:
    """A claim that the reference supports is right whatever the contexts say; parts add up."""
    rng = random.Random(seed)
    supports = tuple(random_support(rng, rng.choice(KINDS)) for _ in range(rng.randint(1, 9)))
    given = findings(rng, supports)
    assert not isinstance(given.answer_agreement, NotScored)
    pairs = list(zip(given.answer_agreement, supports, strict=True))
    sure = [(a, s) for a, s in pairs if a.sure and (a.holds or s.sure)]
    outcome = measure("ragas.noise_sensitivity", SAMPLE, given)
    if 3 * len(sure) < 2 * len(pairs):
        assert isinstance(outcome, NotScored)
        assert outcome.cause is Cause.UNDEFINED
        return
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(sum(not a.holds for a, _ in sure) / len(sure))
    assert sum(outcome.parts.values()) == pytest.approx(outcome.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_verdict_agrees_with_its_chunks(seed: int) -> None:
    """A supported claim names its chunks, or several together; any other names none."""
    rng = random.Random(seed)
    flags = tuple(rng.random() < 0.3 for _ in range(rng.randint(0, 4)))
    together = rng.random() < 0.3
    supported = together or any(flags)
    assert Support(flags, together).supported == supported
    assert Support(flags, together).sure
    for kind in KINDS:
        if (kind is ClaimVerdict.SUPPORTED) == supported:
            assert Support(flags, together, verdict=kind).verdict is kind
        else:
            with pytest.raises(ValueError, match="verdict"):
                Support(flags, together, verdict=kind)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_probability_is_one(probability: float) -> None:
    """A probability outside [0, 1], or NaN, is refused."""
    with pytest.raises(ValueError, match="probability"):
        Support((True,), probability=probability)
    with pytest.raises(ValueError, match="probability"):
        Verdict(True, probability=probability)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_verdict_reads_back_from_an_explanation(seed: int) -> None:
    """Each row has its verdict, quote, reason and probability; without content no text is left."""
    rng = random.Random(seed)
    kinds = [rng.choice(KINDS) for _ in range(9)]
    supports = tuple(
        Support((kind is ClaimVerdict.SUPPORTED,) * 3, False, f"why {n}", kind, f"words {n}", 0.5)
        for n, kind in enumerate(kinds)
    )
    outcome = measure("ragas.faithfulness", SAMPLE, findings(rng, supports))
    if isinstance(outcome, NotScored):
        return
    rows: list[dict[str, Any]] = outcome.explanation["claims"]
    assert [row["verdict"] for row in rows] == [kind.value for kind in kinds]
    assert [row["quote"] for row in rows] == [support.quote for support in supports]
    bare = explain(outcome.explanation, 10_000, content=False)
    assert bare is not None
    truths = {"supported": True, "unsure": None}
    assert [row["supported"] for row in json.loads(bare)["claims"]] == [
        truths.get(kind.value, False) for kind in kinds
    ]
    assert "words" not in bare
    text = prose(outcome.explanation, 10_000, content=True) or ""
    for kind in KINDS:
        assert text.count(f"- {kind.value.replace('_', ' ')}: ") == kinds.count(kind)


@pytest.mark.parametrize("sure", [True, False])
def test_an_unsure_class_is_undefined(sure: bool) -> None:
    """Correct or wrong is not guessed."""
    outcome = measure(
        "graphrag.answer_class", SAMPLE, Findings(classification=Verdict(True, sure=sure))
    )
    assert isinstance(outcome, Score) == sure


@pytest.mark.parametrize("label", [None, "screening"])
def test_a_judge_can_label_scores_that_have_no_label(label: str | None) -> None:
    """The label of the judge stands where the metric has no word of its own."""
    script = Findings(
        answer_claims=("a",), answer_support=(Support((True,)),), classification=Verdict(True)
    )

    class Labelled(ScriptedJudge):
        annotator_kind = AnnotatorKind.CODE

    judge = Labelled(script)
    if label is not None:
        judge.label = label  # type: ignore[attr-defined]
    with RagEval(metrics=["ragas.faithfulness", "graphrag.answer_class"], judge=judge) as evals:
        outcomes = evals.evaluate(
            Sample(question="q", contexts=("a",), answer="a", reference="a")  # type: ignore[arg-type]
        )
    labels = [one.label for one in outcomes.values() if isinstance(one, Score)]
    assert labels == [label, "CORRECT"]
