"""Explanations as bounded text, with content only when asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.explanation_text import explain, prose

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
CLAIMS = {
    "claims": [
        {"claim": "It is 55 minutes.", "supported": True, "chunks": [1], "reason": "chunk 1"},
        {"claim": "It is red.", "supported": False, "chunks": [], "reason": None},
    ]
}


def test_texts_stand_in_it_only_when_asked_for() -> None:
    assert json.loads(explain(CLAIMS, 1000, content=True) or "") == CLAIMS
    bare = explain(CLAIMS, 1000, content=False)
    rows = [{k: v for k, v in row.items() if type(v) is not str} for row in CLAIMS["claims"]]
    assert json.loads(bare or "") == {"claims": rows}
    assert prose(CLAIMS, 1000, content=False) == bare
    assert explain({"by": "judge"}, 1000, content=False) is None
    assert explain({}, 1000, content=True) is prose({}, 100, content=True) is None


@given(value=st.dictionaries(st.text(), VALUES), limit=st.integers(1, 300), content=st.booleans())
def test_any_value_gives_bounded_json_that_can_be_sent(
    value: dict[str, Any], limit: int, content: bool
) -> None:
    text = explain(value, limit, content=content)
    if text is not None:
        assert len(text) <= limit
        assert isinstance(json.loads(text), dict)
        text.encode()


def test_a_long_one_is_shortened_and_says_so() -> None:
    rows = {"claims": [{"claim": "long " * 100, "supported": True} for _ in range(100)]}
    text = explain(rows, 2000, content=True) or ""
    told = json.loads(text)
    assert (len(text) <= 2000, told["cut"], told["claims"][0]["supported"]) == (True, True, True)


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (
            CLAIMS,
            "claims: 1 of 2 supported\n"
            "- not supported: It is red.\n"
            "- supported: It is 55 minutes. (chunk 1)",
        ),
        (
            {"chunks": [{"chunk": 2, "useful": False, "rating": 4.5}]},
            "chunks: 0 of 1 useful\n- not useful: chunk 2",
        ),
        (
            {"reason": "too short", "missing": ["55"], "words": 3, "nothing": None},
            'reason: too short\nmissing: ["55"]\nwords: 3\nnothing: null',
        ),
        ({"reason": "a\ud800b"}, "reason: a?b"),
    ],
)
def test_prose_tells_failed_verdicts_first_and_values_as_they_are(
    explanation: dict[str, Any], text: str
) -> None:
    assert prose(explanation, 1000, content=True) == text


@pytest.mark.parametrize("limit", [1, 3, 6, 7, 40])
def test_the_limit_holds(limit: int) -> None:
    told = prose(CLAIMS, limit, content=True) or ""
    assert 0 < len(told) <= limit
    assert told.endswith("[...]") or limit < 6
