"""Metrics over claims: verdicts that the judge is sure about, and claims with a citation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.explanation_text import explain, prose
from rag_eval_hooks.findings import (
    ChunkRelevance,
    ClaimVerdict,
    Findings,
    Stance,
    Support,
    Verdict,
)
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.metrics.citations import CITATION_SUPPORT
from rag_eval_hooks.metrics.composite import composite
from rag_eval_hooks.score import Cause, Unavailable
from tests.golden.measure import BY_ID, measure

KINDS = list(ClaimVerdict)
CHUNKS = 3
SAMPLE = Sample(question="q", contexts=("a", "b", "c"), answer="a", reference="r")  # type: ignore[arg-type]
SUPPORT_METRICS = {
    "ragas.faithfulness": (0.0, 1.0),
    "ragas.context_recall": (0.0, 1.0),
    "graphrag.ragas_faithfulness": (0.0, 100.0),
    "graphrag.ragas_context_recall": (0.0, 100.0),
    "whitepaper.faithfulness": (1.0, 4.0),
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
VERDICTS = st.builds(Verdict, st.booleans(), sure=st.booleans())


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


@given(st.lists(st.tuples(supports(), VERDICTS), min_size=1, max_size=9))
def test_noise_counts_claims_that_are_sure(pairs: list[tuple[Support, Verdict]]) -> None:
    found, agreement = zip(*pairs, strict=True)
    outcome = measure("ragas.noise_sensitivity", SAMPLE, findings(found, agreement))
    sure = [(a, s) for s, a in pairs if a.sure and (a.holds or s.sure)]
    if 3 * len(sure) < 2 * len(pairs):
        require_undecided(outcome, len(pairs))
        return
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(sum(not a.holds for a, _ in sure) / len(sure))
    assert sum(outcome.parts.values()) == pytest.approx(outcome.value)


@given(st.lists(st.booleans(), max_size=4).map(tuple), st.booleans(), st.sampled_from(KINDS))
def test_a_verdict_agrees_with_its_chunks(
    flags: tuple[bool, ...], together: bool, kind: ClaimVerdict
) -> None:
    supported = together or any(flags)
    assert Support(flags, together).supported == supported
    if (kind is ClaimVerdict.SUPPORTED) == supported:
        assert Support(flags, together, verdict=kind).verdict is kind
    else:
        with pytest.raises(ValueError, match="verdict"):
            Support(flags, together, verdict=kind)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_probability_is_one(probability: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        Support((True,), probability=probability)
    with pytest.raises(ValueError, match="probability"):
        Verdict(True, probability=probability)


@given(LISTS)
def test_every_verdict_reads_back_from_an_explanation(found: tuple[Support, ...]) -> None:
    outcome = measure("ragas.faithfulness", SAMPLE, findings(found))
    rows: list[dict[str, Any]] = outcome.explanation["claims"]
    assert [row["verdict"] for row in rows] == [one.verdict.value for one in found]
    assert [row["quote"] for row in rows] == [one.quote for one in found]
    bare = explain(outcome.explanation, 10_000, content=False)
    assert bare is not None
    truths = {ClaimVerdict.SUPPORTED: True, ClaimVerdict.UNSURE: None}
    expected = [truths.get(one.verdict, False) for one in found]
    assert [row["supported"] for row in json.loads(bare)["claims"]] == expected
    assert "words" not in bare
    if any(value is not None for value in expected):
        text = prose(outcome.explanation, 10_000, content=True) or ""
        for kind in KINDS:
            count = sum(one.verdict is kind for one in found)
            assert text.count(f"- {kind.value.replace('_', ' ')}: ") == count


ABSENCES = st.sampled_from([Cause.MISSING_INPUT, Cause.JUDGE_FAILED, Cause.TIMEOUT])


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.floats(0, 100) | ABSENCES | st.just("undecided"),
        min_size=1,
    )
)
def test_a_composite_leaves_out_parts_without_a_value(parts: dict[str, Any]) -> None:
    scale = BY_ID["graphrag.ragas_score"].scale

    def part(value: Any) -> Metric:
        outcome: Outcome = NotScored(Cause.UNDEFINED, "cannot tell", undecided=True)
        if isinstance(value, Cause):
            outcome = NotScored(value, "why")
        elif isinstance(value, float):
            outcome = scale.score(value)
        return Metric(id="x.y", score=lambda _sample, _findings: outcome, needs=frozenset())

    metrics = {name: part(value) for name, value in parts.items()}
    fields = composite(metrics, dict.fromkeys(parts, 1.0), scale)
    outcome = fields["score"](SAMPLE, Findings())
    values = [value for value in parts.values() if isinstance(value, float)]
    absent = {name: value for name, value in parts.items() if isinstance(value, Cause)}
    if "undecided" in parts.values():
        assert isinstance(outcome, NotScored)
        assert outcome.undecided
    elif values:
        assert isinstance(outcome, Score)
        assert outcome.value == pytest.approx(sum(values) / len(values))
        expected = {f"without {name} ({cause.value})" for name, cause in absent.items()}
        assert set(outcome.warnings) == expected
    else:
        failures = [cause for cause in absent.values() if cause.is_failure]
        assert isinstance(outcome, NotScored)
        assert outcome.cause is (failures[0] if failures else Cause.UNDEFINED)
    assert {row["part"] for row in outcome.explanation["left_out"]} >= set(absent)


FORMS = (
    "{text} [{n}].",
    "{text}. [{n}]",
    "{text} (source {n}).",
    "{text} [Doc: {n}].",
    "{text}【{n}】。",
)
CITABLE = 4
CITED = st.integers(0, CITABLE)
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


@pytest.mark.parametrize(
    ("citation", "support", "value"),
    [
        ("[1, 3]", by(3), 1.0),
        ("[1-3]", by(2), 1.0),
        ("[1][4]", by(4), 1.0),
        ("[^2]", by(2), 1.0),
        ("【4】", by(4), 1.0),
        ("[9]", by(1), 0.0),
        ("[1,2]", Support((False,) * CITABLE, together=True), 1.0),
        ("[1]", Support((False,) * CITABLE, together=True), 0.0),
        ("[1]", Support((False,) * CITABLE, verdict=ClaimVerdict.CONTRADICTED), 0.0),
        ("[1]", Support((False,) * CITABLE, verdict=ClaimVerdict.UNSURE), None),
        ("as document 3 says", by(3), 1.0),
        ("(1)", by(1), None),
        ("as document 1999 says", by(1), None),
        ("[1999]", by(1), None),
    ],
)
def test_numbers_name_passages(citation: str, support: Support, value: float | None) -> None:
    """Lists and spans too; a number in round brackets alone, or a year, cites nothing."""
    assert (
        scored(
            f"The ferry leaves at six {citation}.", ["The ferry leaves at six."], [support]
        ).value
        == value
    )
