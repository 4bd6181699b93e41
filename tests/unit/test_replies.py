"""Laws of reading a model's reply: a valid element is taken, nothing is guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks.findings import Finding, Questions, Rating
from rag_eval_hooks.prompts import Ask, Items, Reading
from rag_eval_hooks.prompts.elements import NO_QUOTE, NO_REASON, NOT_QUOTED
from tests.servers.brain import prompt_data, truthful_reply
from tests.servers.samples import DECOMPOSE, GRADE, LONG_VERIFY, RATE, VERIFY, WHOLE_VERIFY

DECOMPOSITION = DECOMPOSE.ask()
VERIFICATION = WHOLE_VERIFY.ask()
RATING = RATE.ask()
ASKS: tuple[Ask, ...] = (DECOMPOSITION, VERIFICATION, RATING)
Row = dict[str, Any]


def truth(ask: Ask) -> dict[str, Any]:
    prompt = ask.prompt(ask.items())
    return truthful_reply({"messages": [{"role": "user", "content": prompt.user_with_shape}]})


def read(ask: Ask, reply: object, items: Items | None = None) -> Reading:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return ask.read(ask.items() if items is None else items, text)


def changed(name: str, position: int, **values: Any) -> dict[str, Any]:
    reply = truth(VERIFICATION)
    reply[name][position] |= values
    return reply


def grouped(ask: Ask, kind: Finding, group: object) -> Reading:
    return read(ask, {**truth(ask), kind.value: group})


@pytest.mark.parametrize("ask", ASKS)
def test_reading_a_full_reply_settles_every_item(ask: Ask) -> None:
    reading = read(ask, truth(ask))
    assert reading.problems == ()
    assert {kind: set(found) for kind, found in reading.values.items()} == {
        kind: set(keys) for kind, keys in ask.items().items()
    }
    turned = {n: g[::-1] if isinstance(g, list) else g for n, g in reversed(truth(ask).items())}
    volunteered = {**turned, "faithfulness": 0.85}
    assert read(ask, volunteered) == reading


@pytest.mark.parametrize("ask", ASKS)
def test_reply_cut_anywhere_keeps_its_complete_items(ask: Ask) -> None:
    text = json.dumps(truth(ask))
    whole = read(ask, text)
    counts = []
    for end in range(2, len(text)):
        reading = read(ask, text[:end])
        assert reading.cut
        assert not reading.flawed
        for kind, contents in reading.values.items():
            assert contents.items() <= whole.values[kind].items()
        counts.append(sum(map(len, reading.values.values())))
    assert counts == sorted(counts)
    assert counts[-1] >= sum(map(len, whole.values.values())) - 1


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
    ("answer_agreement", "id"): ["r1"],
    ("relevance", "chunk"): [0, 4, True],
    ("relevance", "rating"): [0.25, "0.9"],
    ("entities_found", "id"): ["e5"],
}


@pytest.mark.parametrize(("name", "key"), UNFIT)
def test_element_that_does_not_fit_leaves_its_own_item_open(name: str, key: str) -> None:
    kind = Finding(name)
    for value in UNFIT[name, key]:
        text = json.dumps(changed(name, 0, **{key: value})).replace("Infinity", "1e999")
        reading = read(VERIFICATION, text)
        assert set(reading.values[kind]) == set(VERIFICATION.items()[kind][1:]), value
        assert len(reading.problems) == 1


@pytest.mark.parametrize(("name", "key"), SPOILING)
def test_unknown_number_or_other_scale_spoils_its_group(name: str, key: str) -> None:
    """The model may have renumbered or rescaled them all."""
    for value in SPOILING[name, key]:
        reading = read(VERIFICATION, changed(name, 1, **{key: value}))
        assert Finding(name) not in reading.values, value
        assert len(reading.values) == len(VERIFICATION.items()) - 1
        assert len(reading.problems) == 1


def test_missing_or_doubled_element_leaves_its_own_item_open() -> None:
    reply = truth(VERIFICATION)
    del reply["relevance"][1]
    reply["answer_agreement"].append(reply["answer_agreement"][0])
    reading = read(VERIFICATION, reply)
    assert set(reading.values[Finding.RELEVANCE]) == {"1", "3"}
    assert set(reading.values[Finding.ANSWER_AGREEMENT]) == {"a2"}
    assert set(reading.problems) == {
        "relevance: 2 is missing",
        "answer_agreement: a1 stands twice",
    }


def test_settled_item_is_unknown_when_asked_again() -> None:
    reply = {"answer_agreement": truth(VERIFICATION)["answer_agreement"][:1]}
    assert not read(VERIFICATION, reply, {Finding.ANSWER_AGREEMENT: ("a2",)}).values


def test_chunks_support_a_claim_together_only_where_none_does_alone() -> None:
    kind = Finding.ANSWER_SUPPORT
    both = read(VERIFICATION, changed("answer_support", 0, together=True)).values[kind]["a1"]
    assert both.supporting == {1}
    assert not both.together
    joint = {"verdict": "supported", "together": True, "quote": "tulips ... the tower is white"}
    jointly = read(VERIFICATION, changed("answer_support", 1, **joint)).values[kind]["a2"]
    assert jointly.support(3).supported
    assert not any(jointly.support(3).by_chunk)
    alone = replace(VERIFY, chunks=VERIFY.chunks[1:2]).ask()
    reply = truth(alone)
    reply["answer_support"][0] |= joint
    assert set(read(alone, reply).values[kind]) == {"a2"}


def test_part_of_long_contexts_names_chunks_that_state_a_part() -> None:
    part = replace(LONG_VERIFY.ask(), shown=(1, 2), partial=True)
    found = read(part, truth(part)).values[Finding.ANSWER_SUPPORT]["a1"]
    assert (found.supporting, found.partly, found.together) == (set(), {1, 2}, True)
    reply = truth(part)
    reply["answer_support"][1]["partly"] = [3]
    assert Finding.ANSWER_SUPPORT not in read(part, reply).values


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"quote": "words that nobody wrote"}, NOT_QUOTED),
        ({"quote": "Records say ... that the moon is round"}, NOT_QUOTED),
        *(({"quote": empty}, NO_QUOTE) for empty in ("", "...", "<text>", None)),
        *(({"reason": empty}, NO_REASON) for empty in ("", "…", "<text>", None)),
    ],
)
def test_verdict_without_grounds_is_flawed(values: Row, warning: str) -> None:
    reading = read(VERIFICATION, changed("answer_support", 0, **values))
    kind = Finding.ANSWER_SUPPORT
    assert set(reading.values[kind]) == {"a2"}
    assert reading.flawed[kind]["a1"].support(3).warning == warning
    assert reading.problems == (f"answer_support: a1: {warning}",)


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
    reading = grouped(DECOMPOSITION, Finding.ENTITIES, group)
    assert set(reading.values) == DECOMPOSE.wanted - {Finding.ENTITIES}
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
    rows = [row, *truth(DECOMPOSITION)["answer_claims"][1:]]
    reading = grouped(DECOMPOSITION, Finding.ANSWER_CLAIMS, rows)
    assert set(reading.values[Finding.ANSWER_CLAIMS]) == {"2"}
    assert len(reading.problems) == 1


def test_claim_counts_once() -> None:
    """Claims come in the order of the sentences, and a repeated one is one claim."""
    rows = [{"sentence": 2, "claims": ["b", " a "]}, {"sentence": "1", "claims": ["a"]}]
    reading = grouped(DECOMPOSITION, Finding.ANSWER_CLAIMS, rows)
    kind = Finding.ANSWER_CLAIMS
    assert DECOMPOSITION.content(kind, reading.values[kind]) == ("a", "b")


PIECES = ["It opened.", "Why?", "Dr. A. Lee, 3.5 m", "- item", "# Head", "東京。", "```py", "e.g."]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12), st.sampled_from(" \n"))
def test_no_word_of_a_text_is_outside_its_sentences(parts: list[str], between: str) -> None:
    text = between.join(parts)
    ask = replace(DECOMPOSE, answer=text).ask()
    user = ask.prompt(ask.items()).user
    shown = prompt_data({"messages": [{"role": "user", "content": user}]})["answer"]
    assert "".join("".join(shown.values()).split()) == "".join(text.split())
    assert tuple(shown) == ask.items()[Finding.ANSWER_CLAIMS]


@pytest.mark.parametrize(
    ("texts", "fits"),
    [((), True), (("a?", "b?", "c?"), True), (("a?", "b?"), False), (("a?", "a?", "b?"), False)],
)
def test_questions_are_three_different_ones_or_none(texts: tuple[str, ...], fits: bool) -> None:
    group = {**numbered(*enumerate(texts, start=1)), "noncommittal": False}
    reading = grouped(DECOMPOSITION, Finding.QUESTIONS, group)
    expected = {"whole": Questions(texts, noncommittal=False)} if fits else None
    assert reading.values.get(Finding.QUESTIONS) == expected


def test_problems_hold_no_content() -> None:
    reply = changed("answer_support", 0, id="SECRET")
    reply["relevance"][0]["rating"] = "SECRET"
    reply["entities_found"] = "SECRET"
    problems = read(VERIFICATION, reply).problems
    assert len(problems) == 3
    assert "SECRET" not in " ".join(problems)


STEPS = {Finding.DIRECT_RELEVANCE: (0, 0.25, 0.5, 0.75, 1)}
STEPS |= dict.fromkeys((Finding.CORRECTNESS, Finding.ALIGNMENT, Finding.ATTITUDE), (1, 2, 3, 4, 5))


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize(
    "value", [0, 0.25, 1, 1.0, 5, 6, 3.5, 0.3, 0.7499, -0.25, 75, True, "half", None, [0.5]]
)
def test_rating_between_the_steps_is_not_rounded(kind: Finding, value: Any) -> None:
    fits = not isinstance(value, bool | str | list) and value in STEPS[kind]
    for same in (value, str(value)) if fits else (value,):
        found = grouped(RATING, kind, {"reason": "so", "value": same}).values.get(kind)
        step: Any = float(value) if fits else None
        content = step if kind is Finding.DIRECT_RELEVANCE else fits and Rating(step, "so")
        assert found == ({"whole": content} if fits else None)


CRITERIA = ("correctness", "completeness", "consistency")


@pytest.mark.parametrize(
    "criterion", [None, 80, {}, *({"score": score} for score in (101, -1, 0.25, "0.9", "good"))]
)
def test_geval_with_a_bad_criterion_is_none(criterion: object) -> None:
    for name in CRITERIA:
        group = {**truth(RATING)["geval"], name: criterion}
        assert Finding.GEVAL not in grouped(RATING, Finding.GEVAL, group).values


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
    items = {kind: (template,)}
    grading = GRADE.ask()
    assert {n for n in range(-1, 6) if read(grading, {kind.value: n}, items).values} == steps
    for same in (2, 2.0, "2", " 2 ", "2.0"):
        assert read(grading, {kind.value: same}, items).values == {kind: {template: 2}}
    for wrong in (1.5, "two", "2 of 4", True, None, [2], {"rating": 2}):
        reading = read(grading, {kind.value: wrong}, items)
        assert not reading.values
        assert len(reading.problems) == 1
