"""Laws of metrics without a judge: lexical ones, those of retrieval, shared arithmetic."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import MemorySink, NotScored, Outcome, RagEval, Sample
from rag_eval_hooks.context import Context
from rag_eval_hooks.datasets.data_rows import data_rows
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.metrics.formulas import average_precision, cosine, share
from rag_eval_hooks.metrics.lexical import METRICS
from rag_eval_hooks.metrics.retrieval import retrieval_metrics
from rag_eval_hooks.score import Cause, Score

VECTORS = st.lists(
    st.floats(-1e6, 1e6) | st.sampled_from([1e-300, 1e200, math.nan, math.inf]),
    min_size=3,
    max_size=3,
)


@given(st.lists(st.booleans()))
def test_share_and_precision_lie_between_0_and_1(flags: list[bool]) -> None:
    for value in (share(flags), average_precision(flags)):
        assert (value is None) == (not flags)
        assert value is None or (0 <= value <= 1 and (value == 0) == (not any(flags)))


@given(VECTORS, VECTORS)
def test_cosine_is_symmetric_and_finite_or_absent(left: list[float], right: list[float]) -> None:
    value = cosine(left, right)
    assert value == cosine(right, left)
    assert value is None or (-1 <= value <= 1 and all(map(math.isfinite, [*left, *right])))


def test_cosine_of_known_vectors() -> None:
    assert cosine([1, 2], [2, 4]) == pytest.approx(1)
    assert cosine([1, 0], [-3, 0]) == pytest.approx(-1)
    assert cosine([0, 0], [1, 0]) is None


BY_NAME = {metric.id.removeprefix("lexical."): metric for metric in METRICS}
WORDS = st.lists(
    st.sampled_from(["Territory 118", "rate", "0.305%", "$604", "Rule C-1", "the", "premium"]),
    max_size=8,
)


def outcome(name: str, answer: str, reference: str | None = None) -> Outcome:
    sample = Sample(question="q", answer=answer, reference=reference)
    return BY_NAME[name].score(sample, Findings())


def score(name: str, answer: str, reference: str | None = None) -> Score:
    found = outcome(name, answer, reference)
    assert isinstance(found, Score)
    return found


def test_explanation_names_what_is_missing() -> None:
    explanation = score("number_match", "it is 604", "$604 and 5%").explanation
    assert explanation == {"expected": ["604", "5%"], "found": ["604"], "missing": ["5%"]}


def test_explanation_of_a_mismatch_says_where_it_begins() -> None:
    found = score("exact_match", "the answer.", "The answer")
    assert found.explanation["first_difference_at"] == len("the answer")


@given(WORDS, WORDS, WORDS)
def test_score_is_in_range_and_more_answer_is_never_less_covered(
    answer: list[str], reference: list[str], more: list[str]
) -> None:
    for name in BY_NAME:
        found = outcome(name, " ; ".join(answer), " ; ".join(reference))
        if isinstance(found, Score):
            assert 0.0 <= found.value == found.normalized <= 1.0
            json.dumps(dict(found.explanation))
            longer = score(name, " ; ".join([*answer, *more]), " ; ".join(reference))
            assert name == "exact_match" or longer.value >= found.value


@given(st.text(min_size=1, max_size=60))
def test_text_matches_itself(text: str) -> None:
    for name in set(BY_NAME) - {"source_citation"}:
        found = outcome(name, text, text)
        assert isinstance(found, NotScored) or found.value == 1.0


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


@pytest.mark.parametrize(
    ("retrieved", "relevant", "k", "expected"),
    [
        ("abc", "a", None, (1, 1, 1, 1)),
        ("abc", "c", None, (1, 1, 1 / 3, 1 / 2)),
        ("abc", "c", 2, (0, 0, 0, 0)),
        ("abc", "bx", None, (1, 1 / 2, 1 / 2, (1 / math.log2(3)) / (1 + 1 / math.log2(3)))),
        ("ab", "abcd", None, (1, 1 / 2, 1, 1)),
        # The best five would have held four.
        ("ab", "abcd", 5, (1, 1 / 2, 1, (1 + 0.6309) / (1 + 0.6309 + 0.5 + 0.4307))),
        ("aab", "b", None, (1, 1, 1 / 2, 1 / math.log2(3))),
        ("", "a", None, (0, 0, 0, 0)),
    ],
)
def test_values_are_those_of_the_definitions(
    retrieved: str, relevant: str, k: int | None, expected: tuple[float, ...]
) -> None:
    found = outcomes(list(retrieved), list(relevant), k)
    values = [found[name].value for name in ("hit_rate", "recall", "mrr", "ndcg")]
    assert values == pytest.approx(expected, abs=1e-4)


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


@pytest.mark.parametrize(
    ("retrieved", "relevant", "cut", "cause"),
    [
        (["a", None], ["a"], (), Cause.MISSING_INPUT),
        (["a"], [], (), Cause.UNDEFINED),
        (["a"], ["b"], ("contexts",), Cause.UNDEFINED),
    ],
)
def test_what_cannot_be_ranked_has_no_value(
    retrieved: list[str | None], relevant: list[str], cut: tuple[str, ...], cause: Cause
) -> None:
    for one in outcomes(retrieved, relevant, cut=cut).values():
        assert isinstance(one, NotScored)
        assert one.cause is cause


def test_evaluator_measures_without_a_judge() -> None:
    """By its name in the settings, and by a number of chunks; ids of a store may be numbers."""
    sample = {"question": "q", "contexts": [{"text": "x", "id": "7"}, {"text": "y", "id": "8"}]}
    with RagEval(["retrieval", *retrieval_metrics(1)]) as evals:
        found = evals.evaluate({**sample, "reference_ids": [8]})
        assert found["retrieval.recall"].value == 1.0
        assert found["retrieval.recall_at_1"].value == 0.0
        assert evals.evaluate(sample)["retrieval.mrr"].cause is Cause.MISSING_INPUT  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="whole number"):
        retrieval_metrics(0)


@pytest.mark.parametrize("ids", ["b7 b8", "b7,b8"])
def test_golden_questions_name_relevant_chunks(tmp_path: Path, ids: str) -> None:
    """The ids of a request itself come first."""
    golden = tmp_path / "golden.csv"
    golden.write_text(f'question,reference,reference_ids\nWhen?,At six.,"{ids}"\n')
    sink = MemorySink()
    with RagEval("retrieval", references=str(golden), sinks=[sink]) as evals:
        for metadata in ({}, {"reference_ids": ["b9"]}):
            with evals.interaction("when?", metadata=metadata) as it:
                it.contexts([{"id": "b7", "text": "At six."}])
                it.answer("At six.")
        evals.flush()
    assert [one.sample.reference_ids for one in sink.results] == [("b7", "b8"), ("b9",)]
    assert [one.outcomes["retrieval.recall"].value for one in sink.results] == [0.5, 0.0]


def test_rows_of_data_sets_name_relevant_chunks(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"user_input": "q", "reference_context_ids": [7, "8"]}\n')
    (row,) = data_rows(path)
    assert row.sample is not None
    assert row.sample.reference_ids == ("7", "8")
    assert Sample.from_dict(row.sample.to_dict()) == row.sample
