"""Laws of metrics: claims and citations, words, retrieval and shared arithmetic."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import AskedMetric, Metric, NotScored, Outcome, RagEval, Sample, Score
from rag_eval_hooks.context import Context
from rag_eval_hooks.evaluation import own_metrics
from rag_eval_hooks.findings import ChunkRelevance, ClaimVerdict, Findings, Stance, Support, Verdict
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.metrics.lexical import METRICS
from rag_eval_hooks.metrics.retrieval import retrieval_metrics
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


@given(st.sampled_from(sorted(SUPPORT_METRICS)), LISTS)
def test_unsure_claims_count_for_neither_side(metric: str, found: tuple[Support, ...]) -> None:
    outcome = measure(metric, SAMPLE, findings(found))
    sure = [one.verdict for one in found if one.verdict is not ClaimVerdict.UNSURE]
    if 3 * len(sure) < 2 * len(found):
        assert isinstance(outcome, NotScored)
        assert outcome.cause is Cause.UNDEFINED
        assert outcome.undecided
        assert "is unsure about" in outcome.detail
        assert len(outcome.explanation["claims"]) == len(found)
        return
    assert isinstance(outcome, Score)
    low, span = SUPPORT_METRICS[metric]
    expected = low + span * sure.count(ClaimVerdict.SUPPORTED) / len(sure)
    assert outcome.value == pytest.approx(expected)
    assert bool(outcome.warnings) == (len(sure) < len(found))
    top = 100.0 if metric.startswith("graphrag") else 1.0
    for kind in (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED):
        assert outcome.parts[kind] == pytest.approx(top * sure.count(kind) / len(sure))


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=9))
def test_explanation_shows_only_sure_verdicts_on_chunks(flags: list[tuple[bool, bool]]) -> None:
    relevance = tuple(ChunkRelevance(useful, 50, sure=sure) for useful, sure in flags)
    sample = Sample(question="q", contexts=("c",) * len(flags), answer="a", reference="r")  # type: ignore[arg-type]
    outcome = measure("ragas.context_precision", sample, Findings(relevance=relevance))
    shown = [row["useful"] for row in outcome.explanation["chunks"]]
    assert shown == [useful if sure else None for useful, sure in flags]
    agreement = tuple(Verdict(holds, sure=sure) for holds, sure in flags)
    found = findings((Support((True, False, False)),) * len(flags), agreement)
    outcome = measure("ragas.noise_sensitivity", SAMPLE, found)
    assert [row["correct"] for row in outcome.explanation["claims"]] == shown


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


# Laws of metrics without a judge: lexical ones, those of retrieval, shared arithmetic.


BY_NAME = {metric.id.removeprefix("lexical."): metric for metric in METRICS}
PHRASES = st.lists(
    st.sampled_from(["Territory 118", "rate", "0.305%", "$604", "Rule C-1", "the", "premium"]),
    max_size=8,
)


def outcome(name: str, answer: str, reference: str | None = None) -> Outcome:
    sample = Sample(question="q", answer=answer, reference=reference)
    return BY_NAME[name].score(sample, Findings())


@given(PHRASES, PHRASES, PHRASES)
def test_score_is_in_range_and_more_answer_is_never_less_covered(
    answer: list[str], reference: list[str], more: list[str]
) -> None:
    for name in BY_NAME:
        found = outcome(name, " ; ".join(answer), " ; ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value == found.normalized <= 1.0
            told = json.loads(json.dumps(dict(found.explanation)))
            parts = [*told.get("found", ()), *told.get("missing", ())]
            assert sorted(parts) == sorted(told.get("expected", ()))
            longer = outcome(name, " ; ".join([*answer, *more]), " ; ".join(reference)).value
            assert name == "exact_match" or (longer is not None and longer >= found.value)


IDS = st.text("abcdé字", min_size=1, max_size=2)


def outcomes(
    retrieved: list[str | None],
    relevant: list[str],
    k: int | None = None,
    cut: tuple[str, ...] = (),
) -> dict[str, Outcome]:
    contexts = tuple(Context(text="a chunk", id=one) for one in retrieved)
    sample = Sample(question="q", contexts=contexts, reference_ids=tuple(relevant), truncated=cut)
    found = {one.id: one.score(sample, Findings()) for one in retrieval_metrics(k)}
    return {name.partition(".")[2].partition("_at_")[0]: one for name, one in found.items()}


def test_values_are_those_of_the_definitions() -> None:
    cases: list[tuple[str, str, int | None, tuple[float, ...]]] = [
        ("abc", "a", None, (1, 1, 1, 1)),
        ("abc", "c", None, (1, 1, 1 / 3, 1 / 2)),
        ("abc", "c", 2, (0, 0, 0, 0)),
        ("abc", "bx", None, (1, 1 / 2, 1 / 2, (1 / math.log2(3)) / (1 + 1 / math.log2(3)))),
        ("ab", "abcd", None, (1, 1 / 2, 1, 1)),
        # The best five would have held four.
        ("ab", "abcd", 5, (1, 1 / 2, 1, (1 + 0.6309) / (1 + 0.6309 + 0.5 + 0.4307))),
        ("aab", "b", None, (1, 1, 1 / 2, 1 / math.log2(3))),
        ("", "a", None, (0, 0, 0, 0)),
    ]
    for retrieved, relevant, k, expected in cases:
        found = outcomes(list(retrieved), list(relevant), k)
        values = [found[name].value for name in ("hit_rate", "recall", "mrr", "ndcg")]
        assert values == pytest.approx(expected, abs=1e-4), (retrieved, relevant, k)


@given(st.lists(IDS, min_size=2, unique=True), st.lists(IDS, min_size=1, unique=True), st.data())
def test_earlier_relevant_chunk_lowers_no_value(
    retrieved: list[str], relevant: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(retrieved) - 1))
    moved = [retrieved[at], *retrieved[:at], *retrieved[at + 1 :]]
    before, after = outcomes(list(retrieved), relevant), outcomes(list(moved), relevant)
    for name, one in before.items():
        assert one.value is not None
        assert 0 <= one.value <= 1
        if retrieved[at] in relevant:
            assert (after[name].value or 0) >= one.value - 1e-9


def test_what_cannot_be_ranked_has_no_value() -> None:
    cases: list[tuple[list[str | None], list[str], tuple[str, ...], Cause]] = [
        (["a", None], ["a"], (), Cause.MISSING_INPUT),
        (["a"], [], (), Cause.UNDEFINED),
        (["a"], ["b"], ("contexts",), Cause.UNDEFINED),
    ]
    for retrieved, relevant, cut, cause in cases:
        for one in outcomes(retrieved, relevant, cut=cut).values():
            assert isinstance(one, NotScored)
            assert one.cause is cause


async def test_hanging_functions_keep_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_metrics, "_MOST_THREADS", 2)
    end, before = threading.Event(), threading.active_count()
    metric = own_metrics.metric_of(lambda _: end.wait(60))
    calls = (asyncio.wait_for(metric.ask(SAMPLE), 0.3) for _ in range(9))
    await asyncio.gather(*calls, return_exceptions=True)
    count = threading.active_count() - before
    end.set()
    assert count <= 2
