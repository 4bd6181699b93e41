"""Explanations and content as bounded text, and outcomes as lines."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import Cause, NotScored, Score
from rag_eval_hooks.capture.attributes import plain
from rag_eval_hooks.explanation import OutcomeTable, explain, prose
from rag_eval_hooks.redaction.redactor import Content
from tests.support.size import size

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


@settings(max_examples=size(20, 100))
@given(value=st.dictionaries(st.text(), VALUES), limit=st.integers(1, 300), content=st.booleans())
def test_any_value_gives_bounded_json_that_can_be_sent(
    value: dict[str, Any], limit: int, content: bool
) -> None:
    text = explain(value, limit, content=content)
    if text is not None:
        assert len(text) <= limit
        assert isinstance(json.loads(text), dict)
        text.encode()


def test_prose_tells_failed_verdicts_first_and_values_as_they_are() -> None:
    for explanation, text in (
        (CLAIMS, "claims: 1 of 2 are supported\n- not supported: It is red.\n"
         "- supported: It is 55 minutes. (chunk 1)"),
        ({"chunks": [{"chunk": 2, "useful": False, "rating": 4.5}]},
         "chunks: 0 of 1 are useful\n- not useful: chunk 2"),
        ({"reason": "too short", "missing": ["55"], "nothing": None},
         'reason: too short\nmissing: ["55"]\nnothing: null'),
        ({"reason": "a\ud800b"}, "reason: a?b"),
    ):  # fmt: skip
        assert prose(explanation, 1000, content=True) == text
    for limit in (1, 6, 40):
        assert 0 < len(prose(CLAIMS, limit, content=True) or "") <= limit


@given(st.lists(st.floats(0, 1) | st.text("é\ud800\n", min_size=1), min_size=1, max_size=8))
def test_table_of_outcomes_has_the_worst_first(drawn: list[float | str]) -> None:
    outcomes = {
        f"suite.metric_{at}": NotScored(Cause.TIMEOUT, one)
        if isinstance(one, str)
        else Score(value=one, normalized=one, explanation={"reason": "b"})
        for at, one in enumerate(drawn)
    }
    shown = repr(OutcomeTable(outcomes))
    shown.encode()
    values = [float(value) for value in re.findall(r"^ +(\d\.\d\d)  suite", shown, re.MULTILINE)]
    assert values == sorted(round(one, 2) for one in drawn if isinstance(one, float))
    assert sorted(re.findall(r"suite\.metric_\d", shown)) == sorted(outcomes)


# Content of spans.

WORDS = st.text('abc xé猫🚢"\\\n\t<>&{}\ud83d', min_size=1) | st.sampled_from(
    ["word " * 400, "字" * 3000]
)
PART = st.fixed_dictionaries({"type": st.just("text"), "content": WORDS})
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "parts": st.lists(PART, max_size=3)}
)
CONTENTS: st.SearchStrategy[Content] = (
    st.lists(MESSAGE, max_size=40) | st.lists(PART) | st.dictionaries(WORDS, WORDS | PART) | WORDS
)


@given(CONTENTS, st.sampled_from([40, 100, 500, 3000, 20_000]))
def test_content_is_bounded_and_stays_json(value: Content, limit: int) -> None:
    written = plain({"key": value}, limit)["key"]
    assert isinstance(written, str)
    assert len(written) <= limit
    written.encode("utf-8")
    if isinstance(value, str):
        whole = len(value) <= limit
        assert written == value.encode("utf-8", "replace").decode() if whole else "[...]" in written
        return
    read, full = json.loads(written), plain({"key": value}, 10_000_000)["key"]
    if len(str(full)) <= limit:
        assert written == full
    elif isinstance(value, list):
        # What is left of a long conversation is its end.
        roles = [one.get("role") for one in value if isinstance(one, dict)]
        assert [one.get("role") for one in read] == roles[len(roles) - len(read) :]
