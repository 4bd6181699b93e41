"""Content on spans: whole below the limit, cut and valid JSON above it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.capture import RunKind, content
from rag_eval_hooks.capture.content import plain
from rag_eval_hooks.redaction.redactor import Content, Session
from tests.support.story import Story

ALPHABETS = ("abc de", 'x"\\ \n\t', "äöü ß€", "猫は眠る 。", "🚢🐈 x", "\ud83d x", "<>&{}[]")
KEYS = (
    "gen_ai.system_instructions",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "input.value",
)


def text(source: random.Random, longest: int = 2000) -> str:
    return "".join(source.choices(source.choice(ALPHABETS), k=source.randrange(1, longest)))


def message(source: random.Random) -> dict[str, Any]:
    role = source.choice(["user", "assistant", "tool"])
    parts = [{"type": "text", "content": text(source)} for _ in range(source.randrange(1, 4))]
    return {"role": role, "parts": parts}


def content_of(key: str, source: random.Random) -> Content:
    if key == "gen_ai.system_instructions":
        return [{"type": "text", "content": text(source)} for _ in range(source.randrange(1, 5))]
    if key.endswith("messages"):
        return [message(source) for _ in range(source.randrange(1, 60))]
    if key.endswith("arguments"):
        return {text(source, 9): source.choice([text(source), 3, None, [text(source)]])}
    return text(source)


@pytest.mark.parametrize("seed", range(60))
def test_content_is_bounded_and_stays_json(seed: int) -> None:
    """At any length of the limit: no attribute is longer, JSON is JSON, and a cut is marked."""
    source = random.Random(seed)
    key = source.choice(KEYS)
    value = content_of(key, source)
    limit = source.choice([40, 100, 500, 3000, 20_000])
    written = plain({key: value}, limit)[key]
    assert isinstance(written, str)
    assert len(written) <= limit
    written.encode("utf-8")
    if isinstance(value, str):
        whole = len(value) <= limit
        assert written == value.encode("utf-8", "replace").decode() if whole else "[...]" in written
        return
    read = json.loads(written)
    full = plain({key: value}, 10_000_000)[key]
    if len(str(full)) <= limit:
        assert written == full
    elif isinstance(value, list):
        # What is left of a long conversation is its end.
        roles = [one.get("role") for one in value if isinstance(one, dict)]
        assert [one.get("role") for one in read] == roles[len(roles) - len(read) :]


@pytest.mark.parametrize("key", KEYS[:3])
def test_a_redaction_of_everything_leaves_the_structure(key: str) -> None:
    """Roles, types and names are the framework's; every text, and no other field, is replaced."""
    source = random.Random(key)
    call = {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"query": "secret"}}
    parts = [{"type": "text", "content": "secret"}, call]
    value: Content = (
        parts if "system" in key else [{**message(source), "parts": parts, "role": "user"}]
    )
    redacted = Session([], [lambda _field, _text: "gone"], None).attributes({key: value})
    written = plain(redacted, 20_000)[key]
    assert "secret" not in str(written)
    read = json.loads(str(written))
    seen = read if "system" in key else read[0]["parts"]
    assert seen[0] == {"type": "text", "content": "gone"}
    assert seen[1] == {**call, "arguments": {"gone": "gone"}}


@given(st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=6))
def test_content_of_model_whose_prompt_was_taken_away_is_its_answer(roles: list[str]) -> None:
    """A step that masks documents takes them out of the prompts of its own models."""
    story = Story()
    model = story.run("model", story.root, RunKind.MODEL)
    story.recorder.prompt(model, [f"{n} {role}" for n, role in enumerate(roles)], roles)
    places = [n for n, role in enumerate(roles) if role == "user"]
    assert model.user_text == (f"{places[-1]} user" if places else "")
    model.prompt, model.text = (), "an answer"
    assert model.user_text == ""
    assert content.content_of(model, (), None)["output.value"] == "an answer"
