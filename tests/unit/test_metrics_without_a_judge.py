"""Laws of metrics without a judge: lexical ones, those of retrieval, shared arithmetic."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample
from rag_eval_hooks.context import Context
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.formulas import cosine
from rag_eval_hooks.metrics.lexical import METRICS
from rag_eval_hooks.metrics.retrieval import retrieval_metrics
from rag_eval_hooks.score import Cause, Score

VECTORS = st.lists(
    st.floats(-1e6, 1e6) | st.sampled_from([1e-300, 1e200, math.nan, math.inf]),
    min_size=3,
    max_size=3,
)


@given(VECTORS, VECTORS)
def test_cosine_is_symmetric_and_finite_or_absent(left: list[float], right: list[float]) -> None:
    value = cosine(left, right)
    assert value == cosine(right, left)
    assert value is None or (-1 <= value <= 1 and all(map(math.isfinite, [*left, *right])))


BY_NAME = {metric.id.removeprefix("lexical."): metric for metric in METRICS}
WORDS = st.lists(
    st.sampled_from(["Territory 118", "rate", "0.305%", "$604", "Rule C-1", "the", "premium"]),
    max_size=8,
)


def outcome(name: str, answer: str, reference: str | None = None) -> Outcome:
    sample = Sample(question="q", answer=answer, reference=reference)
    return BY_NAME[name].score(sample, Findings())


@given(WORDS, WORDS, WORDS)
def test_score_is_in_range_and_more_answer_is_never_less_covered(
    answer: list[str], reference: list[str], more: list[str]
) -> None:
    for name in BY_NAME:
        found = outcome(name, " ; ".join(answer), " ; ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value == found.normalized <= 1.0
            json.dumps(dict(found.explanation))
            longer = outcome(name, " ; ".join([*answer, *more]), " ; ".join(reference)).value
            assert name == "exact_match" or (longer is not None and longer >= found.value)


IDS = st.text("abcdé字", min_size=1, max_size=2)


def outcomes(
    retrieved: list[str | None],
    relevant: list[str],
    k: int | None = None,
    cut: tuple[str, ...] = (),
) -> dict[str, Outcome]:
    """Return the outcomes by the names of the measures."""
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
