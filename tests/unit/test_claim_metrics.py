"""Metrics over claims: verdicts that the judge is sure about, and claims with a citation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import AskedMetric, Metric, NotScored, Outcome, RagEval, Sample, Score
from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Findings,
    Stance,
    Support,
    Verdict,
)
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.score import Cause, Scale, Unavailable
from tests.golden.measure import measure

KINDS = list(ClaimVerdict)
CHUNKS = 3
SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]
SUPPORT_METRICS = {
    "ragas.faithfulness": (0.0, 1.0),
    "ragas.context_recall": (0.0, 1.0),
    "graphrag.ragas_faithfulness": (0.0, 100.0),
    "whitepaper.recall": (1.0, 4.0),
}


@st.composite
def supports(draw: st.DrawFn) -> Support:
    kind = draw(st.sampled_from(KINDS))
    probability = draw(st.none() | st.floats(0, 1))
    flags = draw(st.tuples(*[st.booleans()] * CHUNKS))
    if kind is not ClaimVerdict.SUPPORTED:
        flags = (False,) * CHUNKS
    together = kind is ClaimVerdict.SUPPORTED and not any(flags)
    return Support(flags, together, "why", kind, "words", probability)


LISTS = st.lists(supports(), min_size=1, max_size=9).map(tuple)


def findings(found: tuple[Support, ...], agreement: tuple[Verdict, ...] = ()) -> Findings:
    claims = tuple(f"claim {number}" for number in range(len(found)))
    return Findings(
        answer_claims=claims,
        reference_claims=claims,
        answer_support=found,
        reference_support=found,
        answer_agreement=agreement,
        relevance=(ChunkRelevance(True, 90), ChunkRelevance(False, 5), ChunkRelevance(True, 60)),
        stance=Stance(answer=False),
    )


def require_undecided(outcome: Outcome, items: int) -> None:
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.UNDEFINED
    assert outcome.undecided
    assert "cannot tell" in outcome.detail
    assert len(outcome.explanation["claims"]) == items


@given(st.sampled_from(sorted(SUPPORT_METRICS)), LISTS)
def test_unsure_claims_count_for_neither_side(metric: str, found: tuple[Support, ...]) -> None:
    outcome = measure(metric, SAMPLE, findings(found))
    sure = [one.verdict for one in found if one.verdict is not ClaimVerdict.UNSURE]
    if 3 * len(sure) < 2 * len(found):
        require_undecided(outcome, len(found))
        return
    assert isinstance(outcome, Score)
    low, span = SUPPORT_METRICS[metric]
    expected = low + span * sure.count(ClaimVerdict.SUPPORTED) / len(sure)
    assert outcome.value == pytest.approx(expected)
    assert bool(outcome.warnings) == (len(sure) < len(found))
    top = 100.0 if metric.startswith("graphrag") else 1.0
    for kind in (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED):
        assert outcome.parts[kind] == pytest.approx(top * sure.count(kind) / len(sure))


FORMS = (
    "{text} [{n}].",
    "{text}. [{n}]",
    "{text} (source {n}).",
    "{text} [Doc: {n}].",
    "{text}【{n}】。",
)
CITABLE = 4
WORDS = st.lists(st.text("abcdefghij", min_size=4, max_size=8), min_size=3, max_size=6)


def scored(answer: str, claims: list[str], support: list[Support]) -> Outcome:
    sample = Sample(question="q", contexts=("c",) * CITABLE, answer=answer)  # type: ignore[arg-type]
    findings = Findings(answer_claims=tuple(claims), answer_support=tuple(support))
    try:
        return CITATION_SUPPORT.score(sample, findings)
    except Unavailable as absent:
        return absent.outcome


def by(*chunks: int) -> Support:
    return Support(tuple(number in chunks for number in range(1, CITABLE + 1)))


@given(
    st.lists(
        st.tuples(WORDS, st.integers(0, CITABLE), st.integers(0, CITABLE)), min_size=1, max_size=6
    ),
    st.sampled_from(FORMS),
)
@settings(deadline=None)
def test_share_is_that_of_cited_claims_whose_passage_supports_them(
    drawn: list[tuple[list[str], int, int]], form: str
) -> None:
    """A claim is cited by its sentence's numbers; 0 stands for none, of citations and support."""
    said = [" ".join([*words, f"thing{at}"]).capitalize() for at, (words, *_) in enumerate(drawn)]
    answer = " ".join(
        form.format(text=text, n=cited) if cited else f"{text}."
        for text, (_, cited, _) in zip(said, drawn, strict=True)
    )
    found = scored(answer, said, [by(chunk) for *_, chunk in drawn])
    cited = [(number, chunk) for _, number, chunk in drawn if number]
    if not cited:
        assert isinstance(found, NotScored)
        assert found.cause is Cause.UNDEFINED
    else:
        assert isinstance(found, Score)
        assert found.value == pytest.approx(sum(n == c for n, c in cited) / len(cited))


@given(st.floats(-100, 99), st.floats(1, 100), st.floats(0, 1), st.booleans(), st.booleans())
@settings(max_examples=20)
def test_score_without_normalized_gets_it_from_the_scale_of_its_metric(
    low: float, width: float, part: float, up: bool, is_async: bool
) -> None:
    scale = Scale(low, low + width, higher_is_better=up)
    score = Score(value=min(low + part * width, scale.high), label="so")

    async def ask(_: Sample) -> Score:
        return score

    fields: dict[str, Any] = {"id": "own.m", "needs": frozenset(), "scale": scale}
    metric = (
        AskedMetric(ask=ask, **fields) if is_async else Metric(score=lambda *_: score, **fields)
    )
    with RagEval(metrics=[metric]) as evals:
        outcome = evals.evaluate(question="q")["own.m"]
    assert (outcome.value, outcome.label) == (score.value, "so")
    assert outcome.normalized == pytest.approx(part if up else 1 - part, abs=1e-6)
