"""Make correct and corrupted replies to each library's prompts, for the judge server."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.servers.brain import holds, sentences, truthful_reply

Body = Mapping[str, Any]


def replier(library: str, corrupted: float = 0.0) -> Callable[[Body], str]:
    # A corrupted reply stops in the middle.
    reply, draw = REPLIES[library], random.Random(19)

    def text(body: Body) -> str:
        made = reply(body)
        whole = made if isinstance(made, str) else json.dumps(made)
        return whole[: len(whole) // 2] if draw.random() < corrupted else whole

    return text


def _ragas(body: Body) -> dict[str, Any]:
    given = json.loads(_between(_prompt(body), "\ninput: ", "\nOutput:"))
    if "answer" in given:
        return {"statements": sentences(given["answer"])}
    rows = [
        {"statement": one, "reason": "looked up", "verdict": int(holds(given["context"], one))}
        for one in given["statements"]
    ]
    return {"statements": rows}


def _deepeval(body: Body) -> dict[str, Any]:
    # No reply contradicts a claim.
    (asked,) = body["response_format"]["json_schema"]["schema"]["properties"]
    prompt = _prompt(body)
    if asked == "truths":
        return {asked: sentences(_between(prompt, "\nText:\n", "\n\nJSON:"))}
    if asked == "claims":
        return {asked: sentences(_between(prompt, "\nAI Output:\n", "\n\nJSON:"))}
    if asked == "reason":
        return {asked: "by claims"}
    truths = _between(prompt, "\nRetrieval Contexts:\n", "\n\nClaims:\n")
    claims = ast.literal_eval(_between(prompt, "\n\nClaims:\n", "\n\nJSON:"))
    verdicts = ["yes" if holds(truths, claim) else "borderline" for claim in claims]
    return {asked: [{"verdict": verdict, "reason": "looked up"} for verdict in verdicts]}


def _trulens(body: Body) -> str | dict[str, Any]:
    prompt = _prompt(body)
    if body["messages"][0]["content"].startswith("Convert the following text"):
        return {"criteria": prompt, "supporting_evidence": "cut off", "score": None}
    if prompt.startswith("ALL STATEMENTS: "):
        return _between(prompt, "ALL STATEMENTS: ", "\n")
    if "\nSTATEMENT: " not in prompt:
        return "\n".join(sentences(prompt))
    source = _between(prompt, "SOURCE: ", "\nSTATEMENT: ")
    statement = _between(prompt, "\nSTATEMENT: ", "\n\n")
    score = 3 if holds(source, statement) else 0
    return {"criteria": statement, "supporting_evidence": "looked up", "score": score}


def _prompt(body: Body) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _between(text: str, begin: str, end: str) -> str:
    return text.rpartition(begin)[2].partition(end)[0]


REPLIES: Mapping[str, Callable[[Body], str | dict[str, Any]]] = {
    "rag-eval-hooks": truthful_reply,
    "ragas": _ragas,
    "deepeval": _deepeval,
    "trulens": _trulens,
}
