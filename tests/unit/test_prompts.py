"""Laws of the prompts: what is asked, what is data, what stays the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts import PROMPTS_VERSION, SPECS, TEMPLATES, Prompt, Unit
from rag_eval_hooks.prompts.elements import parse
from rag_eval_hooks.prompts.specs import SYSTEM_TEXTS
from rag_eval_hooks.sample import Field
from tests.servers.brain import prompt_data
from tests.servers.samples import GRADE, PARTS, VERIFY
from tests.support.judge_task import JudgeTask

_WORDINGS = {"prompts.4": "ee922cbd947b"}
FULL = replace(VERIFY, wanted=frozenset(PARTS))
WITH_CONTEXTS = sorted(kind for kind, spec in SPECS.items() if Field.CONTEXTS in spec.shows)


def prompts_of(kind: Finding, task: JudgeTask = FULL) -> list[Prompt]:
    ask = task.ask(kind)
    is_grade = SPECS[kind].unit is Unit.TEMPLATE
    parts = [(one,) for one in TEMPLATES] if is_grade else [tuple(ask.items())]
    return [ask.prompt(keys) for keys in parts]


def data_of(prompt: Prompt) -> dict[str, Any]:
    return prompt_data({"messages": [{"role": "user", "content": prompt.user}]})


@pytest.mark.parametrize("kind", WITH_CONTEXTS)
def test_all_prompts_with_contexts_share_a_beginning(kind: Finding) -> None:
    (first,) = prompts_of(Finding.ANSWER_SUPPORT)
    shared = first.user[: first.user.index("</data ") + len("</data 000000000000>")]
    for prompt in prompts_of(kind):
        assert (prompt.schema, prompt.name) == (first.schema, first.name)
        assert prompt.prefix == first.prefix == f"{SYSTEM_TEXTS['judging']}\n{shared}"
        assert prompt.user.startswith(shared)
        assert all(chunk in shared for chunk in VERIFY.chunks)


@pytest.mark.parametrize("kind", sorted(GRADE.wanted))
def test_each_grade_has_two_templates(kind: Finding) -> None:
    first, second = prompts_of(kind)
    wordings = [prompt.user.split(f"- {kind.value}: ")[1] for prompt in (first, second)]
    assert wordings[0] != wordings[1]
    if kind is Finding.ACCURACY_RATINGS:
        one, other = data_of(first), data_of(second)
        assert one == {
            "question": FULL.question,
            "candidate": FULL.answer,
            "standard": FULL.reference,
        }
        assert other == {**one, "candidate": FULL.reference, "standard": FULL.answer}


def test_a_part_shows_its_chunks_under_their_own_numbers() -> None:
    for kind in (Finding.ANSWER_SUPPORT, Finding.RELEVANCE):
        ask = replace(FULL.ask(kind), shown=(1, 3))
        prompt = ask.prompt(tuple(ask.items()))
        assert data_of(prompt)["chunks"] == {"1": VERIFY.chunks[0], "3": VERIFY.chunks[2]}
        assert ("chunks not shown here" in prompt.user) is (kind is Finding.ANSWER_SUPPORT)
    assert tuple(ask.items()) == ("1", "3")


@pytest.mark.parametrize(
    ("reference", "target"), [("given", "arrive at the reference"), (None, "answer the question")]
)
def test_relevance_never_sees_the_answer(reference: str | None, target: str) -> None:
    task = replace(FULL, reference=reference, answer="SEEN")
    (prompt,) = prompts_of(Finding.RELEVANCE, task)
    assert f"helps to {target}." in prompt.user
    assert "SEEN" not in prompt.user
    (prompt,) = prompts_of(Finding.RELEVANCE_TO_ANSWER, task)
    assert "helps to arrive at the answer." in prompt.user
    assert "given" not in str(data_of(prompt))


def _objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if schema.get("type") == "object":
        yield schema
    parts = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    for part in [*parts, *filter(None, [schema.get("items")])]:
        yield from _objects(part)


@pytest.mark.parametrize("kind", sorted(SPECS))
def test_schemas_are_strict(kind: Finding) -> None:
    """Every object requires all of its keys and allows no other; grounds come before verdicts."""
    for prompt in prompts_of(kind):
        for found in _objects(prompt.schema):
            assert found["additionalProperties"] is False
            keys = found["required"]
            assert keys == list(found["properties"])
            if "reason" in keys:
                decided = {"verdict", "useful", "rating", "found", "value", "score", "correct"}
                assert all(keys.index(key) > keys.index("reason") for key in decided & {*keys})


def _examples(text: str) -> Iterator[tuple[Finding, Any]]:
    for line in re.findall(r"^\{.*\}$", text, re.MULTILINE):
        yield from ((Finding(name), group) for name, group in json.loads(line).items())


@pytest.mark.parametrize("name", SYSTEM_TEXTS)
def test_worked_examples_have_the_shape_of_the_reply(name: str) -> None:
    text = SYSTEM_TEXTS[name]
    assert text.count("Example ") in (2, 3)
    examples = list(_examples(text))
    assert len(examples) >= 2
    for kind, group in examples:
        spec = SPECS[kind]
        assert spec.system == name
        for element in group if spec.unit.key else [group]:
            read = parse(spec.element, element)
            assert set(element) == set(type(read).model_fields)
    assert re.search(r"\b(?:ist|kann|kostet|und)\b", text)


def test_a_new_wording_is_a_new_version() -> None:
    asks = [prompt for kind in SPECS for prompt in prompts_of(kind)]
    text = "\n".join(prompt.system + prompt.user_with_shape for prompt in asks)
    digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    assert _WORDINGS[PROMPTS_VERSION] == digest
