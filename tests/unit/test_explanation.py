"""Explanations as bounded text, with content only when asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.explanation_text import explain, prose

ROWS = {"claims": [{"claim": "Cats fly.", "supported": False, "chunks": [1, 2], "reason": None}]}
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_texts_stand_in_it_only_when_asked_for() -> None:
    """Without content, verdicts and chunk numbers remain and no text does."""
    full = explain(ROWS, 1000, content=True)
    assert full is not None
    assert json.loads(full) == ROWS
    bare = explain(ROWS, 1000, content=False)
    assert bare is not None
    assert json.loads(bare) == {"claims": [{"supported": False, "chunks": [1, 2], "reason": None}]}
    assert prose(ROWS, 1000, content=False) == bare


def test_nothing_to_tell_is_none() -> None:
    """An explanation of texts alone is absent without content."""
    assert explain({"by": "judge"}, 1000, content=False) is None
    assert explain({}, 1000, content=True) is None
    assert prose({}, 100, content=True) is None


def test_a_long_one_is_shortened_and_says_so() -> None:
    """Past the limit there are fewer and shorter items, still valid JSON."""
    rows = {"claims": [{"claim": "long " * 100, "supported": True} for _ in range(100)]}
    text = explain(rows, 2000, content=True)
    assert text is not None
    assert len(text) <= 2000
    told = json.loads(text)
    assert told["cut"] is True
    assert told["claims"][0]["supported"] is True


@given(value=st.dictionaries(st.text(), VALUES), limit=st.integers(1, 300), content=st.booleans())
def test_any_value_gives_bounded_json_that_can_be_sent(
    value: dict[str, Any], limit: int, content: bool
) -> None:
    """Explanations of any value are within the limit, valid JSON and valid UTF-8."""
    text = explain(value, limit, content=content)
    if text is not None:
        assert len(text) <= limit
        assert isinstance(json.loads(text), dict)
        text.encode()


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


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 40])
def test_the_limit_holds(limit: int) -> None:
    """A long explanation is cut to the limit, and says so where there is room."""
    told = prose(CLAIMS, limit, content=True)
    assert told is not None
    assert len(told) <= limit
    assert told.endswith("[...]") or limit < 6


def test_half_characters_can_be_sent() -> None:
    """A lone surrogate, which cannot be encoded, is replaced."""
    told = prose({"reason": "a\ud800b"}, 100, content=True)
    assert told == "reason: a?b"
