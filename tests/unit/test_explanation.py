"""Explanations in telemetry: bounded, valid JSON, content only when asked for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.explanation_text import explain

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


def test_nothing_to_tell_is_none() -> None:
    """An explanation of texts alone is absent without content."""
    assert explain({"by": "judge"}, 1000, content=False) is None
    assert explain({}, 1000, content=True) is None


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
