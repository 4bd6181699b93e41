"""Samples and scores as values."""

from __future__ import annotations

import json

import pytest

from rag_eval_hooks import Context, Sample, Score, Status
from rag_eval_hooks.score import Scale


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


def test_scale_normalizes_by_direction() -> None:
    assert Scale(1, 5).score(5).normalized == 1.0
    assert Scale(1, 5).score(3).normalized == 0.5
    assert Scale(0, 1, higher_is_better=False).score(0.25).normalized == 0.75
    with pytest.raises(ValueError, match="normalized"):
        Scale(0, 1).score(1.5)


def test_only_from_dict_reads_names_of_other_libraries() -> None:
    theirs: dict[str, object] = {"user_input": "q", "response": "a"}
    assert Sample.from_dict(theirs) == Sample(question="q", answer="a")
    with pytest.raises(TypeError, match="user_input"):
        Sample(**theirs)  # type: ignore[arg-type]
