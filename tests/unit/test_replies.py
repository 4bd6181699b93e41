"""Laws of reading a model's reply: a valid element is taken, nothing is guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_eval_hooks.findings import Finding, Questions, Rating
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


UNFIT: dict[tuple[str, str], list[Any]] = {
    ("answer_agreement", "verdict"): ["yes", True, None, "unsure", "<supported | contradicted>"],
    ("answer_agreement", "quote"): [["tower"]],
    ("answer_support", "together"): ["no"],
    ("answer_support", "chunks"): [[], 1, [True], ["one"], [1.5], [2]],
    ("answer_support", "verdict"): ["contradicted", "not_stated"],
    ("relevance", "rating"): [101, -1, True, "80 of 100", "<number>", 1e999],
    ("relevance", "useful"): ["yes"],
    ("entities_found", "found"): [0],
}
SPOILING: dict[tuple[str, str], list[Any]] = {
    ("answer_support", "id"): ["a3", 1],
    ("answer_support", "chunks"): [[0], [4]],
    ("answer_agreement", "id"): ["r1", None, ["a1"]],
    ("relevance", "chunk"): [0, 4, True],
    ("relevance", "rating"): [0.25, "0.9"],
    ("entities_found", "id"): ["e5"],
}


@pytest.mark.parametrize(("name", "key"), UNFIT)
def test_element_that_does_not_fit_leaves_its_own_item_open(name: str, key: str) -> None:
    ask = ASKS[Finding(name)]
    for value in UNFIT[name, key]:
        reading = changed(ask, 0, **{key: value})
        assert tuple(reading.values) == tuple(ask.items())[1:], value
        assert len(reading.problems) == 1


@pytest.mark.parametrize(("name", "key"), SPOILING)
def test_unknown_number_or_other_scale_spoils_its_group(name: str, key: str) -> None:
    """The model may have renumbered or rescaled them all."""
    for value in SPOILING[name, key]:
        reading = changed(ASKS[Finding(name)], 1, **{key: value})
        assert not reading.values, value
        assert len(reading.problems) == 1


def test_missing_element_leaves_its_item_open_and_one_twice_spoils_its_group() -> None:
    relevance, agreement = ASKS[Finding.RELEVANCE], ASKS[Finding.ANSWER_AGREEMENT]
    reading = read(relevance, truth(relevance)[::2])
    assert set(reading.values) == {"1", "3"}
    assert reading.problems == ("relevance: 2 is missing",)
    reading = read(agreement, [*truth(agreement), truth(agreement)[1]])
    assert not reading.values
    assert reading.problems == ("answer_agreement: a2 stands twice",)


@given(st.text(min_size=1))
def test_element_with_an_unknown_key_leaves_its_item_open(key: str) -> None:
    agreement = ASKS[Finding.ANSWER_AGREEMENT]
    first, *others = truth(agreement)
    assume(key not in first)
    assert [*read(agreement, [first | {key: 1}, *others]).values] == [*agreement.items()][1:]
    assert not read(agreement, [first], ("a2",)).values


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


def numbered(*rows: tuple[Any, Any], count: int | None = None) -> dict[str, Any]:
    items = [{"n": n, "text": text} for n, text in rows]
    return {"items": items, "count": len(items) if count is None else count}


@pytest.mark.parametrize(
    "group",
    [
        None,
        "none",
        [{"n": 1, "text": "a"}],
        {"items": [{"n": 1, "text": "a"}]},
        numbered((1, "a"), count=2),
        numbered((1, "a"), (3, "b")),
        numbered((1, "a"), (1, "b")),
        numbered((0, "a")),
        *(numbered((1, text)) for text in (" ", "...", "<text>", None)),
        numbered(("one", "a")),
        {"items": ["a"], "count": 1},
        *(numbered(count=count) for count in (-1, 501, 10**12)),
        numbered(*((n, str(n)) for n in range(1, 502))),
    ],
)
def test_incomplete_list_is_no_list(group: object) -> None:
    reading = read(ASKS[Finding.ENTITIES], group)
    assert not reading.values
    assert len(reading.problems) == 1


@pytest.mark.parametrize(
    "row",
    [
        None,
        {"sentence": 1},
        {"claims": ["a"]},
        *({"sentence": 1, "claims": claims} for claims in ("a", ["a", " "], ["..."], ["<text>"])),
        {"sentence": 1, "claims": [{"text": "a"}]},
    ],
)
def test_sentence_without_valid_claims_is_open(row: object) -> None:
    ask = ASKS[Finding.ANSWER_CLAIMS]
    reading = read(ask, [row, *truth(ask)[1:]])
    assert set(reading.values) == {"2"}
    assert len(reading.problems) == 1


def test_claim_counts_once() -> None:
    """Claims come in the order of the sentences, and a repeated one is one claim."""
    ask = ASKS[Finding.ANSWER_CLAIMS]
    rows = [{"sentence": 2, "claims": ["b", " a "]}, {"sentence": "1", "claims": ["a"]}]
    assert ask.content(read(ask, rows).values) == ("a", "b")


@pytest.mark.parametrize(
    ("texts", "fits"),
    [((), True), (("a?", "b?", "c?"), True), (("a?", "b?"), False), (("a?", "a?", "b?"), False)],
)
def test_questions_are_three_different_ones_or_none(texts: tuple[str, ...], fits: bool) -> None:
    group = {**numbered(*enumerate(texts, start=1)), "noncommittal": False}
    expected = {"whole": Questions(texts, noncommittal=False)} if fits else {}
    assert read(ASKS[Finding.QUESTIONS], group).values == expected


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
    "criterion", [None, 80, {}, *({"score": score} for score in (101, -1, 0.25, "0.9", "good"))]
)
def test_geval_with_a_bad_criterion_is_none(criterion: object) -> None:
    ask = ASKS[Finding.GEVAL]
    for name in ("correctness", "completeness", "consistency"):
        assert not read(ask, {**truth(ask), name: criterion}).values


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
