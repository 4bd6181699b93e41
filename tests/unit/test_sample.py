"""Samples and scores as values."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import (
    AskedMetric,
    Cause,
    Context,
    Field,
    Metric,
    NotScored,
    RagEval,
    Sample,
    Score,
    Status,
)
from rag_eval_hooks.score import Scale, outcome_from_dict


def test_no_retrieval_and_empty_retrieval_differ() -> None:
    assert Sample(question="q").contexts is None
    assert Sample(question="q", contexts=()).contexts == ()
    assert Sample(question="q") != Sample(question="q", contexts=())


def test_cut_parts_are_named_once_whatever_was_cut_of_them() -> None:
    cut = ("contexts[7].text", "metadata.note", "answer", "contexts", "interaction")
    sample = Sample(question="q", truncated=cut, context_source="prompt", question_source="input")
    assert sample.cut_parts == ("contexts", "answer")
    assert Sample.from_dict(sample.to_dict()).context_source == "prompt"
    assert sample.to_dict()["question_source"] == "input"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"question": 5}, "question"),
        ({"question": "q", "contexts": "one text"}, "contexts"),
        ({"question": "q", "contexts": [5]}, "contexts"),
        ({"question": "q", "answer": 5}, "answer"),
    ],
)
def test_wrong_types_are_named(values: dict[str, object], field: str) -> None:
    with pytest.raises(TypeError, match=field):
        Sample(**values)  # type: ignore[arg-type]


def test_round_trip_through_plain_types() -> None:
    sample = Sample(
        question="q",
        contexts=(Context(text="c", id="1", score=0.5, metadata={"page": 3}),),
        answer="",
        reference="r",
        status=Status.CLOSED,
        tags=("t",),
        truncated=("contexts[0].text",),
        metadata={"k": 1},
    )
    assert Sample.from_dict(json.loads(json.dumps(sample.to_dict()))) == sample


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_score_is_never_nan(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Score(value=value, normalized=0.5)


@pytest.mark.parametrize("value", ["0.5", None, [1]])
def test_score_of_no_number_is_refused_by_type(value: object) -> None:
    with pytest.raises(TypeError, match=f"a finite number, not {type(value).__name__}"):
        Score(value=value)  # type: ignore[arg-type]


def test_context_takes_its_text_by_position() -> None:
    assert Context("a chunk", id="7") == Context(text="a chunk", id="7")
    with pytest.raises(TypeError, match="text must be str, not bytes"):
        Context(b"a chunk")  # type: ignore[arg-type]


def test_absent_score_has_every_field_of_a_score() -> None:
    absent, score = NotScored(Cause.TIMEOUT), Score(value=1.0)
    missing = {field.name for field in fields(score) if not hasattr(absent, field.name)}
    assert not missing
    assert (absent.value, absent.normalized, absent.label) == (None, None, None)


@given(
    low=st.floats(-100, 99),
    width=st.floats(1, 100),
    part=st.floats(0, 1),
    up=st.booleans(),
    is_async=st.booleans(),
)
@settings(max_examples=20)
def test_score_without_normalized_gets_it_from_the_scale_of_its_metric(
    low: float, width: float, part: float, up: bool, is_async: bool
) -> None:
    scale = Scale(low, low + width, higher_is_better=up)
    score = Score(value=min(low + part * width, scale.high), label="so")

    async def ask(_: Sample) -> Score:
        return score

    needs = frozenset({Field.QUESTION})
    metric = (
        AskedMetric(id="own.m", ask=ask, needs=needs, scale=scale)
        if is_async
        else Metric(id="own.m", score=lambda *_: score, needs=needs, scale=scale)
    )
    with RagEval(metrics=[metric]) as evals:
        outcome = evals.evaluate(question="q")["own.m"]
    assert (outcome.value, outcome.label) == (score.value, "so")
    assert outcome.normalized == pytest.approx(part if up else 1 - part, abs=1e-6)


def test_stored_score_without_normalized_is_refused() -> None:
    with pytest.raises(ValueError, match="no 'normalized'"):
        outcome_from_dict({"value": 0.5})


def test_scale_normalizes_by_direction() -> None:
    assert Scale(1, 5).score(5).normalized == 1.0
    assert Scale(1, 5).score(3).normalized == 0.5
    assert Scale(0, 1, higher_is_better=False).score(0.25).normalized == 0.75
    with pytest.raises(ValueError, match="outside 0 to 1"):
        Scale(0, 1).score(1.5)


def test_only_from_dict_reads_names_of_other_libraries() -> None:
    theirs: dict[str, object] = {"user_input": "q", "response": "a"}
    assert Sample.from_dict(theirs) == Sample(question="q", answer="a")
    with pytest.raises(TypeError, match="user_input"):
        Sample(**theirs)  # type: ignore[arg-type]
