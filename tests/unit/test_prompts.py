"""Laws of prompts and replies: instructions, delimited data, and replies that are not guessed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.findings import Finding, Rating, Stance
from rag_eval_hooks.prompts.ask import TEMPLATES, Ask, Reading
from rag_eval_hooks.prompts.elements import NO_QUOTE, NO_REASON, NOT_QUOTED
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.prompts.specs import PROMPTS_VERSION, SPECS, SYSTEM_TEXTS, Unit
from rag_eval_hooks.sample import Field
from tests.support.judge_task import JudgeTask
from tests.support.servers.brain import truthful_reply
from tests.support.servers.samples import DECOMPOSE, GRADE, PARTS, RATE, VERIFY, WHOLE_VERIFY

_WORDINGS = {"prompts.8": "f1f412ed41ae"}
FULL = replace(VERIFY, wanted=frozenset(PARTS))
WITH_CONTEXTS = sorted(kind for kind, spec in SPECS.items() if Field.CONTEXTS in spec.shows)


def prompts_of(kind: Finding, task: JudgeTask = FULL) -> list[Prompt]:
    ask = task.ask(kind)
    is_grade = SPECS[kind].unit is Unit.TEMPLATE
    parts = [(one,) for one in TEMPLATES] if is_grade else [tuple(ask.items())]
    return [ask.prompt(keys) for keys in parts]


def test_all_prompts_with_contexts_share_a_beginning() -> None:
    (first,) = prompts_of(Finding.ANSWER_SUPPORT)
    shared = first.user[: first.user.index("</data ") + len("</data 000000000000>")]
    assert all(chunk in shared for chunk in VERIFY.chunks)
    for kind in WITH_CONTEXTS:
        for prompt in prompts_of(kind):
            assert (prompt.schema, prompt.name) == (first.schema, first.name), kind
            assert prompt.system == SYSTEM_TEXTS["judging"], kind
            assert prompt.user.startswith(shared), kind


def test_schemas_are_strict_and_grounds_come_before_verdicts() -> None:
    decided = {"verdict", "useful", "rating", "found", "value", "score", "correct"}
    for kind in SPECS:
        for prompt in prompts_of(kind):
            schema = json.dumps(prompt.schema)
            objects = schema.count('"type": "object"')
            assert objects == schema.count('"additionalProperties": false')
            required = list(map(json.loads, re.findall(r'"required": (\[.*?\])', schema)))
            assert len(required) == objects
            for keys in required:
                grounds = keys[: keys.index("reason")] if "reason" in keys else []
                assert decided.isdisjoint(grounds), kind


def test_a_new_wording_is_a_new_version() -> None:
    asks = [prompt for kind in SPECS for prompt in prompts_of(kind)]
    text = "\n".join(prompt.system + prompt.user_with_shape for prompt in asks)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    assert _WORDINGS[PROMPTS_VERSION] == digest


# Laws of reading a model's reply: a valid element is taken, nothing is guessed.


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


def test_reading_a_full_reply_settles_every_item(subtests: pytest.Subtests) -> None:
    for ask in ASKS.values():
        with subtests.test(ask.kind.value):
            group = truth(ask)
            reading = read(ask, group)
            assert reading.problems == ()
            assert set(reading.values) == set(ask.items())
            turned = group[::-1] if isinstance(group, list) else group
            reply = {"faithfulness": 0.85, ask.kind.value: turned}
            assert ask.read(tuple(ask.items()), json.dumps(reply)) == reading
    blank = replace(DECOMPOSE, answer=" ", reference=None).ask(Finding.STANCE)
    assert blank.content({}) == Stance(answer=True, reference=False)


def test_reply_cut_anywhere_keeps_its_complete_items(subtests: pytest.Subtests) -> None:
    for ask in ASKS.values():
        with subtests.test(ask.kind.value):
            text = json.dumps({ask.kind.value: truth(ask)})
            keys = tuple(ask.items())
            whole = ask.read(keys, text).values
            counts = []
            for end in range(2, len(text)):
                reading = ask.read(keys, text[:end])
                assert reading.problems == ("the reply was cut off",)
                assert reading.values.items() <= whole.items()
                counts.append(len(reading.values))
            assert counts == sorted(counts)
            assert counts[-1] == len(whole)


def test_verdict_without_grounds_has_a_warning() -> None:
    cases: list[tuple[Row, str]] = [
        ({"quote": "words that nobody wrote"}, NOT_QUOTED),
        ({"quote": "Records say ... that the moon is round"}, NOT_QUOTED),
        *(({"quote": empty}, NO_QUOTE) for empty in ("", "...", None)),
        *(({"reason": empty}, NO_REASON) for empty in ("", "…", None)),
    ]
    for kind in (Finding.ANSWER_SUPPORT, Finding.ANSWER_AGREEMENT):
        for values, warning in cases:
            reading = changed(ASKS[kind], 0, **values)
            assert [one.warning for one in reading.values.values()] == [warning, ""], values
            assert reading.problems == (f"{kind.value}: a1: {warning}",)


def test_verdict_may_be_written_in_words() -> None:
    for word in ("Not stated.", "not-stated", " NOT_STATED"):
        assert changed(SUPPORT, 1, verdict=word).values["a2"].verdict == "not_stated", word


def test_problems_hold_no_content() -> None:
    readings = [
        changed(SUPPORT, 0, id="SECRET"),
        changed(ASKS[Finding.RELEVANCE], 0, rating="SECRET"),
        read(ASKS[Finding.ENTITIES_FOUND], "SECRET"),
    ]
    assert all(len(reading.problems) == 1 for reading in readings)
    assert "SECRET" not in str([reading.problems for reading in readings])


def test_rating_between_the_steps_is_not_rounded() -> None:
    fifths = dict.fromkeys((Finding.CORRECTNESS, Finding.ALIGNMENT), (1, 2, 3, 4, 5))
    quarters = {Finding.DIRECT_RELEVANCE: (0, 0.25, 0.5, 0.75, 1)}
    wrong = (0.3, 0.7499, -0.25, 3.5, 6, 75, True, "half", None, [0.5])
    for kind, steps in {**fifths, **quarters}.items():
        for value in steps:
            for same in (value, str(value)):
                found = read(ASKS[kind], {"reason": "so", "value": same}).values
                expected = float(value) if kind in quarters else Rating(float(value), "so")
                assert found == {"whole": expected}, (kind, same)
        for bad in wrong:
            assert not read(ASKS[kind], {"reason": "so", "value": bad}).values, (kind, bad)


def test_grade_is_in_its_set() -> None:
    for kind, grades in (
        (Finding.ACCURACY_RATINGS, {0, 2, 4}),
        (Finding.CONTEXT_RATINGS, {0, 1, 2}),
    ):
        ask = GRADE.ask(kind)
        assert {n for n in range(-1, 6) if read(ask, n, ["1"]).values} == grades
        for same in ("2", " 2 ", 2.0):
            assert read(ask, same, ["2"]).values == {"2": 2}, same
        for value in (1.5, "two", "2 of 4", True, None, [2], {"rating": 2}):
            assert not read(ask, value, ["2"]).values, value
