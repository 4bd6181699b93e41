"""Laws of reading a model's reply: a valid element is taken, nothing is guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.findings import Finding, Rating
from rag_eval_hooks.prompts import Ask, Reading
from rag_eval_hooks.prompts.elements import NO_QUOTE, NO_REASON, NOT_QUOTED
from tests.servers.brain import truthful_reply
from tests.servers.samples import DECOMPOSE, GRADE, LONG_VERIFY, RATE, VERIFY, WHOLE_VERIFY

ASKS = {
    kind: task.ask(kind) for task in (DECOMPOSE, WHOLE_VERIFY, RATE) for kind in sorted(task.wanted)
}
SUPPORT = ASKS[Finding.ANSWER_SUPPORT]
Row = dict[str, Any]


def truth(ask: Ask) -> Any:
    prompt = ask.prompt(tuple(ask.items()))
    body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
    return truthful_reply(body)[ask.kind]


def read(ask: Ask, group: object, keys: Sequence[str] | None = None) -> Reading:
    text = json.dumps({ask.kind.value: group}).replace("Infinity", "1e999")
    return ask.read(tuple(ask.items()) if keys is None else keys, text)


def changed(ask: Ask, position: int, **values: Any) -> Reading:
    group = truth(ask)
    group[position] |= values
    return read(ask, group)


@pytest.mark.parametrize("ask", ASKS.values())
def test_reading_a_full_reply_settles_every_item(ask: Ask) -> None:
    group = truth(ask)
    reading = read(ask, group)
    assert reading.problems == ()
    assert set(reading.values) == set(ask.items())
    turned = group[::-1] if isinstance(group, list) else group
    reply = {"faithfulness": 0.85, ask.kind.value: turned}
    assert ask.read(tuple(ask.items()), json.dumps(reply)) == reading


@pytest.mark.parametrize("ask", ASKS.values())
def test_reply_cut_anywhere_keeps_its_complete_items(ask: Ask) -> None:
    text = json.dumps({ask.kind.value: truth(ask)})
    keys = tuple(ask.items())
    whole = ask.read(keys, text).values
    counts = []
    for end in range(2, len(text)):
        reading = ask.read(keys, text[:end])
        assert reading.cut
        assert reading.values.items() <= whole.items()
        counts.append(len(reading.values))
    assert counts == sorted(counts)
    assert counts[-1] == len(whole)


def test_drafts_that_differ_leave_the_item_open() -> None:
    draft, last = truth(SUPPORT), truth(SUPPORT)
    draft[0] |= {"verdict": "not_stated", "chunks": []}
    replies = [json.dumps({"answer_support": group}) for group in (draft, last)]
    reading = SUPPORT.read(tuple(SUPPORT.items()), " then ".join(replies))
    assert tuple(reading.values) == ("a2",)
    assert reading.problems == ("answer_support: a1 is judged twice, differently",)


def test_chunks_support_a_claim_together_only_where_none_does_alone() -> None:
    both = changed(SUPPORT, 0, together=True).values["a1"]
    assert both.by_chunk == (True, False, False)
    assert not both.together
    joint = {"verdict": "supported", "together": True, "quote": "tulips ... the tower is white"}
    jointly = changed(SUPPORT, 1, **joint).values["a2"]
    assert jointly.supported
    assert not any(jointly.by_chunk)
    alone = replace(VERIFY, chunks=VERIFY.chunks[1:2]).ask(Finding.ANSWER_SUPPORT)
    assert set(changed(alone, 0, **joint).values) == {"a2"}


def test_part_of_long_contexts_names_chunks_that_state_a_part() -> None:
    part = replace(LONG_VERIFY.ask(Finding.ANSWER_SUPPORT), shown=(1, 2))
    found = read(part, truth(part)).values["a1"]
    assert (any(found.by_chunk), found.partly, found.together) == (False, {1, 2}, True)
    assert not changed(part, 1, partly=[3]).values


@pytest.mark.parametrize("kind", [Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT])
@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"quote": "words that nobody wrote"}, NOT_QUOTED),
        ({"quote": "Records say ... that the moon is round"}, NOT_QUOTED),
        *(({"quote": empty}, NO_QUOTE) for empty in ("", "...", "<text>", None)),
        *(({"reason": empty}, NO_REASON) for empty in ("", "…", "<text>", None)),
    ],
)
def test_verdict_without_grounds_has_a_warning(kind: Finding, values: Row, warning: str) -> None:
    reading = changed(ASKS[kind], 0, **values)
    assert [one.warning for one in reading.values.values()] == [warning, ""]
    assert reading.problems == (f"{kind.value}: a1: {warning}",)


def test_claim_counts_once() -> None:
    """Claims come in the order of the sentences, and a repeated one is one claim."""
    ask = ASKS[Finding.ANSWER_CLAIMS]
    rows = [{"sentence": 2, "claims": ["b", " a "]}, {"sentence": "1", "claims": ["a"]}]
    assert ask.content(read(ask, rows).values) == ("a", "b")


def test_problems_hold_no_content() -> None:
    readings = [
        changed(SUPPORT, 0, id="SECRET"),
        changed(ASKS[Finding.RELEVANCE], 0, rating="SECRET"),
        read(ASKS[Finding.ENTITIES_FOUND], "SECRET"),
    ]
    assert all(len(reading.problems) == 1 for reading in readings)
    assert "SECRET" not in str([reading.problems for reading in readings])


STEPS = {Finding.DIRECT_RELEVANCE: (0, 0.25, 0.5, 0.75, 1)}
STEPS |= dict.fromkeys((Finding.CORRECTNESS, Finding.ALIGNMENT, Finding.ATTITUDE), (1, 2, 3, 4, 5))


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize(
    "value", [0, 0.25, 1, 1.0, 5, 6, 3.5, 0.3, 0.7499, -0.25, 75, True, "half", None, [0.5]]
)
def test_rating_between_the_steps_is_not_rounded(kind: Finding, value: Any) -> None:
    fits = not isinstance(value, bool | str | list) and value in STEPS[kind]
    for same in (value, str(value)) if fits else (value,):
        found = read(ASKS[kind], {"reason": "so", "value": same}).values
        step: Any = float(value) if fits else None
        content = step if kind is Finding.DIRECT_RELEVANCE else fits and Rating(step, "so")
        assert found == ({"whole": content} if fits else {})


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (Finding.ACCURACY_RATINGS, {0, 2, 4}),
        (Finding.CONTEXT_RATINGS, {0, 1, 2}),
        (Finding.GROUNDEDNESS_RATINGS, {0, 1, 2}),
    ],
)
@pytest.mark.parametrize("template", ["1", "2"])
def test_grade_is_in_its_set(kind: Finding, steps: set[int], template: str) -> None:
    ask = GRADE.ask(kind)
    assert {n for n in range(-1, 6) if read(ask, n, [template]).values} == steps
    for same in (2, 2.0, "2", " 2 ", "2.0"):
        assert read(ask, same, [template]).values == {template: 2}
    for wrong in (1.5, "two", "2 of 4", True, None, [2], {"rating": 2}):
        reading = read(ask, wrong, [template])
        assert not reading.values
        assert len(reading.problems) == 1
