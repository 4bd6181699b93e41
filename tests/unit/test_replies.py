"""Laws of reading a model's reply: what fits is taken, nothing is guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.findings import Finding, GEval, Questions, Rating
from rag_eval_hooks.prompts import (
    Ask,
    DecomposeAsk,
    GradeAsk,
    Items,
    RateAsk,
    Reading,
    ReplyError,
    VerifyAsk,
)
from rag_eval_hooks.prompts.replies import one_object
from rag_eval_hooks.prompts.verdict_elements import Sorting
from tests.servers.brain import truthful_reply
from tests.servers.samples import DECOMPOSE, GRADE, LONG_VERIFY, RATE, VERIFY

DECOMPOSITION = DecomposeAsk(DECOMPOSE)
VERIFICATION = VerifyAsk(VERIFY)
RATING = RateAsk(RATE)
ASKS: tuple[Ask, ...] = (DECOMPOSITION, VERIFICATION, RATING)


def truth(ask: Ask) -> dict[str, Any]:
    prompt = ask.prompt(ask.items())
    return truthful_reply({"messages": [{"role": "user", "content": prompt.user_with_shape}]})


def read(ask: Ask, reply: object, items: Items | None = None) -> Reading:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return ask.read(ask.items() if items is None else items, text)


@pytest.mark.parametrize("ask", ASKS)
def test_a_full_reply_settles_every_item(ask: Ask) -> None:
    """A reply with one valid element per item leaves nothing open."""
    reading = read(ask, truth(ask))
    assert reading.problems == ()
    assert {kind: set(found) for kind, found in reading.values.items()} == {
        kind: set(keys) for kind, keys in ask.items().items()
    }


@pytest.mark.parametrize("around", ["{}", "Here you are:\n{}\nThat is all.", "```json\n{}\n```"])
def test_text_around_one_object_is_passed_over(around: str) -> None:
    """Prose or a fence around the only object does not change what it says."""
    text = json.dumps(truth(VERIFICATION))
    assert read(VERIFICATION, around.replace("{}", text)) == read(VERIFICATION, text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would say 85 of 100, all claims are supported.",
        "[1, 2]",
        '[{"a": 1}]',
        'true {"a": 1} {"a": 2}',
        '{"a": 1}\n{"a": 1}',
        'see [1]: {"a": 1}',
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 2}}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1,}',
        "{'a': 1}",
        '{"a": 1}}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_is_not_one_object_is_refused(text: str) -> None:
    """No object, two objects, duplicate keys, NaN and broken JSON are no reply."""
    with pytest.raises(ReplyError):
        one_object(text)


@pytest.mark.parametrize("ask", ASKS)
def test_a_reply_cut_anywhere_is_refused(ask: Ask) -> None:
    """However much of a reply is missing at its end, no part of the rest is taken."""
    text = json.dumps(truth(ask))
    for end in range(len(text)):
        with pytest.raises(ReplyError):
            read(ask, text[:end])


def test_the_order_of_elements_means_nothing() -> None:
    """Verdicts are told apart by id, not by place."""
    reply = truth(VERIFICATION)
    turned = {name: group[::-1] for name, group in reversed(reply.items())}
    assert read(VERIFICATION, turned) == read(VERIFICATION, reply)


def changed(name: str, position: int, **values: Any) -> dict[str, Any]:
    reply = truth(VERIFICATION)
    reply[name][position] = {**reply[name][position], **values}
    return reply


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("answer_agreement", {"holds": "yes"}),
        ("answer_agreement", {"holds": 1}),
        ("answer_agreement", {"holds": None}),
        ("answer_agreement", {"score": 5}),
        ("answer_support", {"together": "no"}),
        ("answer_support", {"supporting": [1, 1], "not_supporting": [2, 3]}),
        ("answer_support", {"supporting": [1], "not_supporting": [2]}),
        ("answer_support", {"supporting": [1, 2], "not_supporting": [2, 3]}),
        ("answer_support", {"supporting": ["1"], "not_supporting": [2, 3]}),
        ("answer_support", {"supporting": [True], "not_supporting": [2, 3]}),
        ("relevance", {"rating": 101}),
        ("relevance", {"rating": -1}),
        ("relevance", {"rating": True}),
        ("relevance", {"rating": "80"}),
        ("relevance", {"rating": 1e999}),
        ("relevance", {"useful": "true"}),
        ("entities_found", {"found": 0}),
    ],
)
def test_an_element_that_does_not_fit_leaves_its_own_item_open(
    name: str, values: dict[str, Any]
) -> None:
    """A wrong type or an impossible value costs one item; its neighbours are taken."""
    reading = read(
        VERIFICATION, json.dumps(changed(name, 0, **values)).replace("Infinity", "1e999")
    )
    kind = Finding(name)
    assert set(reading.values[kind]) == set(VERIFICATION.items()[kind][1:])
    assert len(reading.problems) == 1


def test_a_missing_element_leaves_its_own_item_open() -> None:
    """The verdicts that are there stand, though one is missing."""
    reply = truth(VERIFICATION)
    del reply["relevance"][1]
    reading = read(VERIFICATION, reply)
    assert set(reading.values[Finding.RELEVANCE]) == {"1", "3"}
    assert reading.problems == ("relevance: 2 is missing",)


def test_a_doubled_element_is_no_verdict() -> None:
    """Of two verdicts on one item neither is taken, even if they agree."""
    reply = truth(VERIFICATION)
    reply["answer_agreement"].append(reply["answer_agreement"][0])
    reading = read(VERIFICATION, reply)
    assert set(reading.values[Finding.ANSWER_AGREEMENT]) == {"a2"}
    assert reading.problems == ("answer_agreement: a1 stands twice",)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("answer_support", {"id": "a3"}),
        ("answer_support", {"id": 1}),
        ("answer_support", {"supporting": [0], "not_supporting": [1, 2]}),
        ("answer_support", {"supporting": [4], "not_supporting": [1, 2, 3]}),
        ("answer_agreement", {"id": "r1"}),
        ("relevance", {"chunk": 0}),
        ("relevance", {"chunk": 4}),
        ("relevance", {"chunk": True}),
        ("entities_found", {"id": "e5"}),
    ],
)
def test_an_unknown_number_spoils_its_group(name: str, values: dict[str, Any]) -> None:
    """One id that was not asked for: the model may have renumbered them all."""
    reading = read(VERIFICATION, changed(name, 1, **values))
    assert Finding(name) not in reading.values
    assert len(reading.values) == len(VERIFICATION.items()) - 1
    assert len(reading.problems) == 1


def test_a_settled_item_is_unknown_when_asked_again() -> None:
    """A re-ask for the second claim is not answered by a verdict on the first."""
    reply = {"answer_agreement": [{"id": "a1", "holds": True, "reason": ""}]}
    reading = VERIFICATION.read({Finding.ANSWER_AGREEMENT: ("a2",)}, json.dumps(reply))
    assert not reading.values


def test_what_was_not_asked_is_ignored() -> None:
    """A group that the judge volunteers, such as a total, changes nothing."""
    reply = {**truth(VERIFICATION), "faithfulness": 0.85}
    assert read(VERIFICATION, reply) == read(VERIFICATION, truth(VERIFICATION))


def test_a_chunk_alone_is_not_several() -> None:
    """Chunks support a claim together only where none does alone, and there are several."""
    kind = Finding.ANSWER_SUPPORT
    both = read(VERIFICATION, changed("answer_support", 0, together=True)).values[kind]["a1"]
    assert both.supporting == {1}
    assert not both.together
    jointly = read(VERIFICATION, changed("answer_support", 1, together=True)).values[kind]["a2"]
    assert jointly.support(3).supported
    assert not any(jointly.support(3).by_chunk)
    alone = VerifyAsk(replace(VERIFY, chunks=VERIFY.chunks[1:2]))
    reply = truth(alone)
    reply["answer_support"][0]["together"] = True
    assert set(read(alone, reply).values[kind]) == {"a2"}


@pytest.mark.parametrize(
    "group",
    [
        None,
        "none",
        [{"n": 1, "text": "a"}],
        {"items": [{"n": 1, "text": "a"}]},
        {"items": [{"n": 1, "text": "a"}], "count": 2},
        {"items": [{"n": 1, "text": "a"}, {"n": 3, "text": "b"}], "count": 2},
        {"items": [{"n": 1, "text": "a"}, {"n": 1, "text": "b"}], "count": 2},
        {"items": [{"n": 0, "text": "a"}], "count": 1},
        {"items": [{"n": 1, "text": " "}], "count": 1},
        {"items": [{"n": 1, "text": None}], "count": 1},
        {"items": [{"n": "1", "text": "a"}], "count": 1},
        {"items": [{"n": 1, "text": "a", "why": "b"}], "count": 1},
        {"items": ["a"], "count": 1},
        {"items": [], "count": -1},
        {"items": [{"n": n, "text": str(n)} for n in range(1, 502)], "count": 501},
    ],
)
def test_an_incomplete_list_is_no_list(group: object) -> None:
    """A list whose numbers do not run from 1 to its count is asked for again as a whole."""
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "answer_claims": group})
    assert set(reading.values) == DECOMPOSE.wanted - {Finding.ANSWER_CLAIMS}
    assert len(reading.problems) == 1


def test_a_claim_counts_once() -> None:
    """Claims come in the order of their numbers, and a repeated one is one claim."""
    rows = [{"n": 3, "text": "b"}, {"n": 1, "text": "a"}, {"n": 2, "text": " a "}]
    group = {"items": rows, "count": 3}
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "answer_claims": group})
    assert reading.values[Finding.ANSWER_CLAIMS] == {"whole": ("a", "b")}


@pytest.mark.parametrize(
    ("texts", "fits"),
    [((), True), (("a?", "b?", "c?"), True), (("a?", "b?"), False), (("a?", "a?", "b?"), False)],
)
def test_questions_are_three_different_ones_or_none(texts: tuple[str, ...], fits: bool) -> None:
    """Fewer, more or equal questions are asked for again."""
    rows = [{"n": n, "text": text} for n, text in enumerate(texts, start=1)]
    group = {"items": rows, "count": len(rows), "noncommittal": False}
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "questions": group})
    expected = {"whole": Questions(texts, noncommittal=False)} if fits else None
    assert reading.values.get(Finding.QUESTIONS) == expected


def test_problems_hold_no_content() -> None:
    """What is wrong is told without words of the reply, which may repeat words of the sample."""
    reply = changed("answer_support", 0, id="SECRET")
    reply["relevance"][0]["SECRET"] = "SECRET"
    reply["entities_found"] = "SECRET"
    problems = read(VERIFICATION, reply).problems
    assert len(problems) == 3
    assert "SECRET" not in " ".join(problems)


def test_a_part_speaks_of_its_own_chunks() -> None:
    """A part of long contexts sorts exactly the chunks that it shows, into three lists."""
    part = VerifyAsk(LONG_VERIFY, shown=(1, 2), partial_view=True)
    reading = read(part, truth(part))
    assert reading.values[Finding.ANSWER_SUPPORT]["a1"] == Sorting(
        frozenset(), partly=frozenset({1, 2}), together=True
    )
    reply = truth(part)
    reply["answer_support"][1]["not_supporting"] = [1, 3]
    assert Finding.ANSWER_SUPPORT not in read(part, reply).values
    reply["answer_support"][1] |= {"not_supporting": [1], "partly": [1, 2]}
    assert set(read(part, reply).values[Finding.ANSWER_SUPPORT]) == {"a1"}


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "answer", "indistinct": False}, {"id": "answer", "indistinct": True}],
        [{"id": "answer", "indistinct": 0}, {"id": "reference", "indistinct": "no"}],
        [{"id": "answer", "indistinct": True}, {"id": "question", "indistinct": True}],
        {"answer": False, "reference": False},
    ],
)
def test_a_stance_is_said_once_for_each_text(rows: object) -> None:
    """A doubled, mistyped or misplaced stance is not taken, nor is any beside a misplaced one."""
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "stance": rows})
    assert not reading.values.get(Finding.STANCE)
    assert reading.problems


@pytest.mark.parametrize("value", [0, 0.25, 0.5, 0.75, 1, 1.0])
def test_direct_relevance_has_five_steps(value: float) -> None:
    """Each of the five steps is taken as it is."""
    group = {"reason": "", "value": value}
    reading = read(RATING, {**truth(RATING), "direct_relevance": group})
    assert reading.values[Finding.DIRECT_RELEVANCE] == {"whole": value}


@pytest.mark.parametrize("value", [0.3, 0.7499, 2, -0.25, 75, True, "0.5", None, [0.5]])
def test_nothing_between_the_steps_is_rounded(value: object) -> None:
    """A relevance outside its five steps is asked for again."""
    group = {"reason": "", "value": value}
    reading = read(RATING, {**truth(RATING), "direct_relevance": group})
    assert Finding.DIRECT_RELEVANCE not in reading.values
    assert len(reading.problems) == 1


@pytest.mark.parametrize("kind", [Finding.CORRECTNESS, Finding.ALIGNMENT, Finding.ATTITUDE])
@pytest.mark.parametrize(("value", "fits"), [(1, True), (5, True), (0, False), (6, False),
                                             (3.5, False), (4.0, False), (True, False),
                                             ("4", False), (None, False)])  # fmt: skip
def test_a_step_is_a_whole_number_from_1_to_5(kind: Finding, value: Any, fits: bool) -> None:
    """Anything else is asked for again."""
    group = {"reason": "so", "value": value}
    reading = read(RATING, {**truth(RATING), kind.value: group})
    expected = {"whole": Rating(value, "so")} if fits else None
    assert reading.values.get(kind) == expected


def test_a_total_that_the_judge_volunteers_is_ignored() -> None:
    """Of a GEval only the three criteria count, however many sums stand beside them."""
    scores = {name: {"reason": name[:3], "score": n} for n, name in enumerate(
        ("correctness", "completeness", "consistency"))}  # fmt: skip
    group = {**scores, "final_score": 99, "overall": {"score": 99}}
    reading = read(RATING, {**truth(RATING), "geval": group, "final_score": 99})
    expected = GEval(0, 1, 2, "correctness: cor; completeness: com; consistency: con")
    assert reading.values[Finding.GEVAL] == {"whole": expected}


@pytest.mark.parametrize(
    "consistency",
    [None, 80, {"score": 101, "reason": ""}, {"score": -1, "reason": ""}, {"score": "80"}, {}],
)
def test_a_geval_with_a_bad_criterion_is_none(consistency: object) -> None:
    """Two criteria of three are no GEval, and nothing stands in for the third."""
    reply = truth(RATING)
    reply["geval"]["consistency"] = consistency
    assert Finding.GEVAL not in read(RATING, reply).values


@pytest.mark.parametrize("word", ["CORRECT", 1, None])
def test_a_class_is_said_as_yes_or_no(word: object) -> None:
    """A classification in any other form is asked for again."""
    group = {"reason": "", "correct": word}
    reading = read(RATING, {**truth(RATING), "classification": group})
    assert Finding.CLASSIFICATION not in reading.values


@pytest.mark.parametrize(
    ("kind", "steps"),
    [
        (Finding.ACCURACY_RATINGS, {0, 2, 4}),
        (Finding.CONTEXT_RATINGS, {0, 1, 2}),
        (Finding.GROUNDEDNESS_RATINGS, {0, 1, 2}),
    ],
)
@pytest.mark.parametrize("template", ["1", "2"])
def test_a_grade_is_in_its_set(kind: Finding, steps: set[int], template: str) -> None:
    """A rating of the set is taken; all else is invalid: nothing is rounded or converted."""
    items = {kind: (template,)}
    grading = GradeAsk(GRADE)
    taken = {n for n in range(-1, 6) if read(grading, {kind.value: n}, items).values}
    assert taken == steps
    for wrong in (2.0, "2", True, None, [2], {"rating": 2}):
        reading = read(grading, {kind.value: wrong}, items)
        assert not reading.values
        assert len(reading.problems) == 1
    assert read(grading, {kind.value: 2}, items).values == {kind: {template: 2}}
