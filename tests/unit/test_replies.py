"""Laws of reading a model's reply: what fits is taken, nothing is guessed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.findings import Finding, GEval, Questions, Rating
from rag_eval_hooks.prompts import Ask, Items, Reading, ReplyError
from rag_eval_hooks.prompts.elements import NO_QUOTE, NO_REASON, NOT_QUOTED, EntityList
from rag_eval_hooks.prompts.reading import parse
from rag_eval_hooks.prompts.reply_json import reply_json
from tests.servers.brain import prompt_data, truthful_reply
from tests.servers.samples import DECOMPOSE, GRADE, LONG_VERIFY, RATE, VERIFY, WHOLE_VERIFY

DECOMPOSITION = DECOMPOSE.ask()
VERIFICATION = WHOLE_VERIFY.ask()
RATING = RATE.ask()
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
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 2}}',
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1,}',
        '{"a": 1 "b": 2}',
        "{'a': 1}",
        '<think>{"a": 1}</think>',
        '<think>{"a": 1}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_holds_no_object_is_refused(text: str) -> None:
    """No object, duplicate keys, NaN and broken JSON are no reply, nor are thoughts."""
    with pytest.raises(ReplyError):
        reply_json(text)


@pytest.mark.parametrize(
    "around",
    [
        '<think>so {maybe} or {"answer_support": []}</think>{}',
        "I think it is supported.</think>\n{}",
        "<THINKING>\nhm\n</THINKING>\n\n```json\n{}\n```",
        "{} <think>was that right? {no}</think>",
        "As said in [2], {see there}: {}",
        "{}\n{}",
        '[{}, {"a": 1}]',
        '{"note": 1} {}',
    ],
)
def test_thoughts_and_drafts_without_verdicts_mean_nothing(around: str) -> None:
    """Text that a model writes around its verdicts changes none of them."""
    text = json.dumps(truth(VERIFICATION))
    assert read(VERIFICATION, around.replace("{}", text)) == read(VERIFICATION, text)


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_reply_begun_again_within_itself_is_refused(ask: Ask, whole: bool) -> None:
    """A reply that breaks off before a group and begins again leaves every item open."""
    text = json.dumps(truth(ask))
    second = text if whole else text[: text.index(":") + 1]
    for name in list(truth(ask))[1:]:
        begun = text[: text.index(f'"{name}": ') + len(f'"{name}": ')]
        with pytest.raises(ReplyError, match="begun again"):
            read(ask, begun + second)


@pytest.mark.parametrize("rating", [0.25, "0.9", 0.999])
def test_a_rating_of_another_scale_spoils_all(rating: object) -> None:
    """A rating between 0 and 1, where 100 is the most, leaves all ratings of its group open."""
    reply = truth(VERIFICATION)
    reply["relevance"][1]["rating"] = rating
    reading = read(VERIFICATION, reply)
    assert Finding.RELEVANCE not in reading.values
    assert Finding.RELEVANCE_TO_ANSWER in reading.values
    graded = truth(RATING)
    graded["geval"]["completeness"]["score"] = rating
    assert Finding.GEVAL not in read(RATING, graded).values


def contrary(value: Any) -> Any:
    """Return the value with every truth value turned around."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, dict):
        return {key: contrary(part) for key, part in value.items()}
    return [contrary(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("seed", range(20))
def test_two_objects_that_differ_leave_the_item_open(ask: Ask, seed: int) -> None:
    """Of two verdicts on one item none is taken; items on which the objects agree are."""
    rng = random.Random(seed)
    whole = read(ask, truth(ask))
    kind = rng.choice(list(whole.values))
    other = {kind.value: truth(ask)[kind.value]}
    texts = [json.dumps(truth(ask)), json.dumps(contrary(other))]
    rng.shuffle(texts)
    reading = read(ask, "\n".join(texts))
    for name, contents in reading.values.items():
        assert all(whole.values[name][key] == content for key, content in contents.items())


@pytest.mark.parametrize("ask", ASKS)
def test_a_reply_cut_anywhere_keeps_its_complete_items(ask: Ask) -> None:
    """Items before a cut are taken, the one that it hits is not, and nothing is made up."""
    text = json.dumps(truth(ask))
    whole = read(ask, text)
    counts = []
    for end in range(2, len(text)):
        reading = read(ask, text[:end])
        assert reading.cut
        assert not reading.flawed
        for kind, contents in reading.values.items():
            for key, content in contents.items():
                assert content == whole.values[kind][key]
        counts.append(sum(map(len, reading.values.values())))
    assert counts == sorted(counts)
    assert counts[-1] >= sum(map(len, whole.values.values())) - 1


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
        ("answer_agreement", {"verdict": "yes"}),
        ("answer_agreement", {"verdict": True}),
        ("answer_agreement", {"verdict": None}),
        ("answer_agreement", {"verdict": "unsure"}),
        ("answer_agreement", {"verdict": "<supported | contradicted | not_stated>"}),
        ("answer_agreement", {"quote": ["tower"]}),
        ("answer_support", {"together": "no"}),
        ("answer_support", {"chunks": []}),
        ("answer_support", {"chunks": 1}),
        ("answer_support", {"chunks": [True]}),
        ("answer_support", {"chunks": ["one"]}),
        ("answer_support", {"chunks": [1.5]}),
        ("answer_support", {"chunks": [2]}),
        ("answer_support", {"verdict": "contradicted"}),
        ("answer_support", {"verdict": "not_stated"}),
        ("relevance", {"rating": 101}),
        ("relevance", {"rating": -1}),
        ("relevance", {"rating": True}),
        ("relevance", {"rating": "80 of 100"}),
        ("relevance", {"rating": "<number>"}),
        ("relevance", {"rating": 1e999}),
        ("relevance", {"useful": "yes"}),
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
        ("answer_support", {"chunks": [0]}),
        ("answer_support", {"chunks": [4]}),
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
    reply = {"answer_agreement": truth(VERIFICATION)["answer_agreement"][:1]}
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
    joint = {"verdict": "supported", "together": True, "quote": "tulips ... the tower is white"}
    jointly = read(VERIFICATION, changed("answer_support", 1, **joint)).values[kind]["a2"]
    assert jointly.support(3).supported
    assert not any(jointly.support(3).by_chunk)
    alone = replace(VERIFY, chunks=VERIFY.chunks[1:2]).ask()
    reply = truth(alone)
    reply["answer_support"][0] |= joint
    assert set(read(alone, reply).values[kind]) == {"a2"}


SAME: list[Callable[[dict[str, Any]], dict[str, Any]]] = [
    lambda row: row | {"chunks": [str(number) for number in row["chunks"]]},
    lambda row: row | {"chunks": [float(number) for number in row["chunks"]]},
    lambda row: row | {"chunks": row["chunks"] * 2},
    lambda row: row | {"verdict": row["verdict"].upper().replace("_", " ")},
    lambda row: row | {"confidence": 0.3, "note": None},
    lambda row: {key: value for key, value in row.items() if key != "together"},
    lambda row: row if row["chunks"] else {k: v for k, v in row.items() if k != "chunks"},
    lambda row: row | {"quote": f'"{row["quote"].upper()}."' if row["quote"] else ""},
    lambda row: row | {"quote": row["quote"].replace(" ", "\n  ")},
]


@pytest.mark.parametrize("change", SAME)
def test_what_is_no_guess_is_read(change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Numbers as texts, surplus keys, absent options, other spacing: one can mean but one thing."""
    reply = truth(VERIFICATION)
    reply["answer_support"] = [change(row) for row in reply["answer_support"]]
    reading = read(VERIFICATION, reply)
    assert not reading.problems
    before = read(VERIFICATION, truth(VERIFICATION)).values[Finding.ANSWER_SUPPORT]
    found = reading.values[Finding.ANSWER_SUPPORT]
    assert {key: replace(one, quote="") for key, one in found.items()} == {
        key: replace(one, quote="") for key, one in before.items()
    }


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        ({"quote": "words that nobody wrote"}, NOT_QUOTED),
        ({"quote": "Records say ... that the moon is round"}, NOT_QUOTED),
        ({"quote": ""}, NO_QUOTE),
        ({"quote": "..."}, NO_QUOTE),
        ({"quote": "<text>"}, NO_QUOTE),
        ({"quote": None}, NO_QUOTE),
        ({"reason": ""}, NO_REASON),
        ({"reason": None}, NO_REASON),
        ({"reason": "…"}, NO_REASON),
        ({"reason": "<text>"}, NO_REASON),
    ],
)
def test_a_verdict_without_its_grounds_is_flawed(values: dict[str, Any], warning: str) -> None:
    """A quote that stands nowhere, and a missing quote or reason, are worth one more ask."""
    reading = read(VERIFICATION, changed("answer_support", 0, **values))
    kind = Finding.ANSWER_SUPPORT
    assert set(reading.values[kind]) == {"a2"}
    assert reading.flawed[kind]["a1"].support(3).warning == warning
    assert reading.problems == (f"answer_support: a1: {warning}",)


@pytest.mark.parametrize(
    "ask", [*ASKS, replace(GRADE, wanted=frozenset({Finding.CONTEXT_RATINGS})).ask()]
)
def test_an_echo_of_the_shape_is_no_reply(ask: Ask) -> None:
    """A model that repeats the shape that it was shown has judged nothing."""
    items = ask.items()
    if Finding.CONTEXT_RATINGS in ask.kinds:
        items = dict.fromkeys(items, ("1",))
    prompt = ask.prompt(items)
    for echo in (prompt.example, json.loads(prompt.user_with_shape.rpartition("shape: ")[2])):
        reading = ask.read(items, json.dumps(echo))
        assert not any(reading.values.values())
        assert not any(reading.flawed.values())


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
        {"items": [{"n": 1, "text": "..."}], "count": 1},
        {"items": [{"n": 1, "text": "<text>"}], "count": 1},
        {"items": [{"n": 1, "text": None}], "count": 1},
        {"items": [{"n": "one", "text": "a"}], "count": 1},
        {"items": ["a"], "count": 1},
        {"items": [], "count": -1},
        {"items": [{"n": n, "text": str(n)} for n in range(1, 502)], "count": 501},
    ],
)
def test_an_incomplete_list_is_no_list(group: object) -> None:
    """A list whose numbers do not run from 1 to its count is asked for again as a whole."""
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "entities": group})
    assert set(reading.values) == DECOMPOSE.wanted - {Finding.ENTITIES}
    assert len(reading.problems) == 1


@pytest.mark.parametrize(
    "row",
    [
        None,
        {"sentence": 1},
        {"sentence": 1, "claims": "a"},
        {"sentence": 1, "claims": ["a", " "]},
        {"sentence": 1, "claims": ["..."]},
        {"sentence": 1, "claims": ["<text>"]},
        {"sentence": 1, "claims": [{"text": "a"}]},
        {"claims": ["a"]},
    ],
)
def test_every_sentence_must_appear(row: object) -> None:
    """A sentence that is left out, or whose claims do not fit, is asked for again alone."""
    reply = truth(DECOMPOSITION)
    reply["answer_claims"] = [row, *reply["answer_claims"][1:]]
    reading = read(DECOMPOSITION, reply)
    assert set(reading.values[Finding.ANSWER_CLAIMS]) == {"2"}
    assert len(reading.problems) == 1
    twice = truth(DECOMPOSITION)
    twice["answer_claims"] += twice["answer_claims"][:1]
    assert set(read(DECOMPOSITION, twice).values[Finding.ANSWER_CLAIMS]) == {"2"}
    unknown = truth(DECOMPOSITION)
    unknown["answer_claims"] += [{"sentence": 3, "claims": ["a"]}]
    assert Finding.ANSWER_CLAIMS not in read(DECOMPOSITION, unknown).values


def test_a_claim_counts_once() -> None:
    """Claims come in the order of the sentences, and a repeated one is one claim."""
    rows = [{"sentence": 2, "claims": ["b", " a "]}, {"sentence": "1", "claims": ["a"]}]
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "answer_claims": rows})
    kind = Finding.ANSWER_CLAIMS
    assert DECOMPOSITION.content(kind, reading.values[kind]) == ("a", "b")


@pytest.mark.parametrize("seed", range(30))
def test_no_word_of_a_text_is_outside_its_sentences(seed: int) -> None:
    """The numbered sentences hold every character of the text but white space."""
    rng = random.Random(seed)
    parts = [
        "It opened.",
        "Why?",
        "Dr. A. Lee, 3.5 m",
        "- item",
        "# Head",
        "東京。",
        "```py",
        "e.g. x",
    ]
    text = rng.choice([" ", "\n", "\n\n"]).join(rng.choices(parts, k=rng.randint(1, 12)))
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
    """Fewer, more or equal questions are asked for again."""
    rows = [{"n": n, "text": text} for n, text in enumerate(texts, start=1)]
    group = {"items": rows, "count": len(rows), "noncommittal": False}
    reading = read(DECOMPOSITION, {**truth(DECOMPOSITION), "questions": group})
    expected = {"whole": Questions(texts, noncommittal=False)} if fits else None
    assert reading.values.get(Finding.QUESTIONS) == expected


def test_problems_hold_no_content() -> None:
    """Problems are told without words of the reply, which may repeat words of the sample."""
    reply = changed("answer_support", 0, id="SECRET")
    reply["relevance"][0]["rating"] = "SECRET"
    reply["entities_found"] = "SECRET"
    problems = read(VERIFICATION, reply).problems
    assert len(problems) == 3
    assert "SECRET" not in " ".join(problems)


def test_a_part_speaks_of_its_own_chunks() -> None:
    """A part of long contexts also names the chunks that state a part of a claim."""
    part = replace(LONG_VERIFY.ask(), shown=(1, 2), partial=True)
    sorting = read(part, truth(part)).values[Finding.ANSWER_SUPPORT]["a1"]
    assert (sorting.supporting, sorting.partly, sorting.together) == (set(), {1, 2}, True)
    reply = truth(part)
    reply["answer_support"][1]["partly"] = [3]
    assert Finding.ANSWER_SUPPORT not in read(part, reply).values


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


@pytest.mark.parametrize("value", [0, 0.25, 0.5, 0.75, 1, 1.0, "0.5"])
def test_direct_relevance_has_five_steps(value: float) -> None:
    """Each of the five steps is taken as it is."""
    group = {"reason": "", "value": value}
    reading = read(RATING, {**truth(RATING), "direct_relevance": group})
    assert reading.values[Finding.DIRECT_RELEVANCE] == {"whole": float(value)}


@pytest.mark.parametrize("value", [0.3, 0.7499, 2, -0.25, 75, True, "half", None, [0.5]])
def test_nothing_between_the_steps_is_rounded(value: object) -> None:
    """A relevance outside its five steps is asked for again."""
    group = {"reason": "", "value": value}
    reading = read(RATING, {**truth(RATING), "direct_relevance": group})
    assert Finding.DIRECT_RELEVANCE not in reading.values
    assert len(reading.problems) == 1


@pytest.mark.parametrize("kind", [Finding.CORRECTNESS, Finding.ALIGNMENT, Finding.ATTITUDE])
@pytest.mark.parametrize(("value", "fits"), [(1, True), (5, True), (0, False), (6, False),
                                             (3.5, False), (4.0, True), (True, False),
                                             ("4", True), ("b", False), (None, False)])  # fmt: skip
def test_a_step_is_a_whole_number_from_1_to_5(kind: Finding, value: Any, fits: bool) -> None:
    """Anything else is asked for again."""
    group = {"reason": "so", "value": value}
    reading = read(RATING, {**truth(RATING), kind.value: group})
    expected = {"whole": Rating(float(value), "so")} if fits else None
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
    [None, 80, {"score": 101, "reason": ""}, {"score": -1, "reason": ""}, {"score": "good"}, {}],
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
    grading = GRADE.ask()
    taken = {n for n in range(-1, 6) if read(grading, {kind.value: n}, items).values}
    assert taken == steps
    for same in (2.0, "2", " 2 ", "2.0"):
        assert read(grading, {kind.value: same}, items).values == {kind: {template: 2}}
    for wrong in (1.5, "two", "2 of 4", True, None, [2], {"rating": 2}):
        reading = read(grading, {kind.value: wrong}, items)
        assert not reading.values
        assert len(reading.problems) == 1
    assert read(grading, {kind.value: 2}, items).values == {kind: {template: 2}}


@pytest.mark.parametrize("count", [501, 10**12, 1e308])
def test_a_count_beyond_reason_is_refused_at_once(count: float) -> None:
    """No list of so many numbers is made: a judge's slip must not take the host's memory."""
    with pytest.raises(ReplyError, match="count"):
        parse(EntityList, {"items": [], "count": count})
