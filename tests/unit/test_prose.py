"""Explanations as a person reads them in a viewer."""

from __future__ import annotations

import json

import pytest

from rag_eval_hooks.explanation_text import prose

CLAIMS = {
    "claims": [
        {"claim": "It is 55 minutes.", "supported": True, "chunks": [1], "reason": "chunk 1"},
        {"claim": "It is red.", "supported": False, "chunks": [], "reason": "in no chunk"},
    ]
}


def test_what_failed_comes_first() -> None:
    """Verdicts are counted, and those that failed stand before those that did not."""
    assert prose(CLAIMS, 1000, content=True) == (
        "claims: 1 of 2 supported\n"
        "- not supported: It is red. (in no chunk)\n"
        "- supported: It is 55 minutes. (chunk 1)"
    )


def test_numbered_chunks_are_told_by_their_number() -> None:
    """A numbered subject is shown with its name."""
    explanation = {"chunks": [{"chunk": 2, "useful": False, "rating": 4.5}]}
    assert prose(explanation, 1000, content=True) == "chunks: 0 of 1 useful\n- not useful: chunk 2"


def test_other_values_are_told_as_they_are() -> None:
    """A value without verdicts is shown by its key, texts plain and the rest as JSON."""
    explanation = {"reason": "too short", "missing": ["55"], "words": 3, "nothing": None}
    told = 'reason: too short\nmissing: ["55"]\nwords: 3\nnothing: null'
    assert prose(explanation, 1000, content=True) == told


def test_no_text_is_told_unasked() -> None:
    """Without content nothing of the application's texts remains, only numbers and verdicts."""
    told = prose(CLAIMS, 1000, content=False)
    assert told is not None
    assert "minutes" not in told
    assert [claim["supported"] for claim in json.loads(told)["claims"]] == [True, False]


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 40])
def test_the_limit_holds(limit: int) -> None:
    """A long explanation is cut to the limit, and says so where there is room."""
    told = prose(CLAIMS, limit, content=True)
    assert told is not None
    assert len(told) <= limit
    assert told.endswith("[...]") or limit < 6


def test_nothing_is_told_of_nothing() -> None:
    """An empty explanation is none."""
    assert prose({}, 100, content=True) is None


def test_half_characters_can_be_sent() -> None:
    """A lone surrogate, which cannot be encoded, is replaced."""
    told = prose({"reason": "a\ud800b"}, 100, content=True)
    assert told == "reason: a?b"
