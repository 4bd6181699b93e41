"""In every prompt of every suite, text of a sample stands between delimiters and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from rag_eval_hooks import Context, RagEval, Sample
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts.specs import SYSTEM_TEXTS
from tests.servers.judge_server import JudgeServer

_BLOCK = re.compile(r"<data ([0-9a-f]{12})>\n(.*)\n</data \1>")
MARKS = {name: f"{name.upper()}MARK" for name in ("question", "context", "answer", "reference")}
HIDDEN = "NAMEMARK"
FULL = Sample(
    question=f"Is the {MARKS['question']} ferry free?",
    contexts=(
        Context(
            text=f"The ferry costs 8 {MARKS['context']}. It leaves at noon.",
            id=HIDDEN,
            metadata={HIDDEN: HIDDEN},
        ),
        Context(text=f"The {MARKS['context']} is closed. It opened in 1931."),
    ),
    answer=f"The ferry is free {MARKS['answer']}. It leaves at noon.",
    reference=f"The ferry costs 8 {MARKS['reference']}. It opened in 1931.",
    user_id=HIDDEN,
    session_id=HIDDEN,
    question_id=HIDDEN,
    tags=(HIDDEN,),
    metadata={"note": HIDDEN},
)


def prompts(*, corrupt: bool = False, **options: Any) -> list[dict[str, Any]]:
    with JudgeServer(replies=(lambda _: "{}") if corrupt else None) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", **options)
        with RagEval("all", judge, embedder="none") as evals:
            evals.evaluate(FULL)
        return [request.body for request in server.requests]


def outside(body: dict[str, Any]) -> Iterator[str]:
    for message in body["messages"]:
        content = message["content"]
        if content not in SYSTEM_TEXTS.values():
            assert _BLOCK.search(content), "neither ours nor delimited"
        yield _BLOCK.sub("", content)


@pytest.mark.parametrize("tokens", [12_000, 20])
def test_text_of_a_sample_stands_in_blocks_alone(tokens: int) -> None:
    bodies = prompts(verify_tokens=tokens)
    assert len(bodies) >= 4
    sent = str(bodies)
    assert [mark for mark in MARKS.values() if mark not in sent] == []
    assert HIDDEN not in sent
    for body in bodies:
        rest = "".join(outside(body)) + str({k: v for k, v in body.items() if k != "messages"})
        assert [mark for mark in MARKS.values() if mark in rest] == []


def test_asking_again_quotes_nothing() -> None:
    bodies = prompts(corrupt=True)
    again = [body for body in bodies if "could not be used" in str(body)]
    assert again
    for body in again:
        assert [mark for mark in MARKS.values() if mark in "".join(outside(body))] == []
