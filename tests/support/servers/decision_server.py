"""A decision model that decides by the truthful judge's rules, in two vendors' formats."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.prompts.specs import SPECS
from tests.support.servers.brain import GROUPS, prompt_data
from tests.support.servers.judge_server import JudgeServer, Recorded
from tests.support.servers.loopback import Routes

DECISIONS, SYSTEM_ONE = "/v1/decisions", "/v1/systemone"
_CHUNK = re.compile(
    r"Chunk (\d+) (?:states all of (\w+)|helps to .*?(answer|reference|question))\."
)
_VERDICT = re.compile(r"Judge (\w+) by the (chunks|reference|answer)\.")
_STANCE = re.compile(r"As a reply to the question, the (\w+) is so vague")
_ROLES = re.compile(r"Candidate: the (\w+); standard: the (\w+)\. ")
_RATED = {
    text: kind
    for kind, spec in SPECS.items()
    if spec.levels
    for text in ([spec.instruction] if isinstance(spec.instruction, str) else spec.instruction)
}
Asked: TypeAlias = dict[str, Any]
Answers: TypeAlias = list[dict[str, Any]]


class DecisionServer(JudgeServer):
    """`JudgeServer` with two more routes, which refuse more than `longest` characters."""

    def __init__(
        self,
        *,
        sure: float = 0.97,
        planted: Mapping[str, float] | None = None,
        spoil: Callable[[Answers], Answers] = lambda answers: answers,
        longest: int = 10**9,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._sure, self._planted, self.spoil, self._longest = sure, planted or {}, spoil, longest

    def decisions(self) -> list[Recorded]:
        return [*self.calls(DECISIONS), *self.calls(SYSTEM_ONE)]

    def routes(self) -> Routes:
        return {**super().routes(), DECISIONS: self._decisions, SYSTEM_ONE: self._decisions}

    async def _decisions(self, request: Request) -> Response:
        if len(await request.body()) > self._longest:
            await self.record(request)
            return JSONResponse({"error": {"message": "Request too large"}}, 413)
        return await self.handle(request, self._answered)

    def _answered(self, recorded: Recorded) -> Any:
        body = recorded.body
        data = state_of(body)
        asked = questions_of(body)
        assert 1 <= len(asked) <= 400
        answers = [self._answer(one, data) for one in asked]
        used = {"input_tokens": len(str(body)) // 4, "output_tokens": 0}
        reply = {"model": "decider-1", "usage": {**used, "total_tokens": used["input_tokens"]}}
        answers = self.spoil(answers)
        if recorded.path == DECISIONS:
            return {**reply, "answers": answers}
        return {**reply, "answers": {one["name"]: _system_one(one) for one in answers}}

    def _answer(self, asked: Asked, data: Asked) -> dict[str, Any]:
        text, kind = asked["instructions"], asked["type"]
        base = {"type": kind, "name": asked["name"]}
        if kind == "predicate":
            return {**base, "probability": self._sure if _is_true(text, data) else 1 - self._sure}
        if kind == "choice":
            shares = self._verdict(text, data)
            top = max(shares, key=lambda word: shares[word])
            rows = [{"value": v, "probability": shares[v]} for v in asked["options"]]
            return {**base, "choice": top, "confidence": shares[top], "probabilities": rows}
        levels = [float(label) for label in asked["options"]]
        shares_ = _around(_rating(text, data), levels)
        rows = [
            {"label": label, "value": number, "probability": share}
            for number, (label, share) in enumerate(zip(asked["options"], shares_, strict=True))
        ]
        mean = sum(number * share for number, share in enumerate(shares_))
        return {**base, "score": mean, "confidence": max(shares_), "probabilities": rows}

    def _verdict(self, text: str, data: Asked) -> dict[str, float]:
        found = _VERDICT.fullmatch(text)
        assert found, text
        row = _row(found[1], found[2], data)
        claim = data["claims"][found[1]]
        p = self._planted.get(claim, self._sure if row["verdict"] == "supported" else None)
        p = 1 - self._sure if p is None else p
        rest = {"contradicted": (1 - p) / 4, "not_stated": 3 * (1 - p) / 4}
        return {"supported": p, **rest}


def questions_of(body: Asked) -> list[dict[str, Any]]:
    asked = body["questions"]
    if isinstance(asked, Mapping):
        asked = [{**one, "name": name} for name, one in asked.items()]
    questions = []
    for one in asked:
        rows = one.get("choices") or one.get("levels") or ()
        options = [row.get("value") or row["label"] for row in rows] or [
            *(one.get("criteria") or ())
        ]
        kind = "predicate" if one["type"] == "noul" else one["type"]
        questions.append({**one, "type": kind, "options": options})
    return questions


def text_of(body: Asked) -> str:
    return body["state"] if "state" in body else "\n".join(m["content"] for m in body["input"])


def characters(body: Asked) -> int:
    asked = questions_of(body)
    texts = [text for one in asked for text in (one["name"], one["instructions"], *one["options"])]
    return len(text_of(body)) + sum(map(len, texts))


def state_of(body: Asked) -> dict[str, Any]:
    data = prompt_data({"messages": [{"role": "user", "content": text_of(body)}]})
    claims: dict[str, str] = {}
    for name in ("answer", "reference"):
        if isinstance(data.get(name), Mapping):
            data[f"{name}_claims"] = data[name]
            data[name] = " ".join(data[name].values())
        claims |= data.get(f"{name}_claims", {})
    return {**data, "claims": claims}


def _row(key: str, by: str, data: Asked) -> dict[str, Any]:
    name = "answer" if key.startswith("a") else "reference"
    kind = f"{name}_support" if by == "chunks" else f"{name}_agreement"
    rows: list[dict[str, Any]] = GROUPS[kind]({**data, f"{name}_claims": data["claims"]}, [key])
    return rows[0]


def _is_true(text: str, data: Asked) -> bool:
    if chunk := _CHUNK.fullmatch(text):
        number, claim, purpose = chunk.groups()
        if claim is not None:
            return int(number) in _row(claim, "chunks", data)["chunks"]
        shown = {key: data[key] for key in ("chunks", purpose)}
        return bool(GROUPS["relevance"](shown, [number])[0]["useful"])
    if stance := _STANCE.match(text):
        return bool(GROUPS["stance"](data, [stance[1]])[0]["indistinct"])
    assert text == SPECS[Finding.CLASSIFICATION].question, text
    return bool(GROUPS["classification"](data, None)["correct"])


def _rating(text: str, data: Asked) -> float:
    if text.startswith("Score "):
        _, name, _ = text.split(" ", 2)
        return float(GROUPS["geval"](data, None)[name]["score"])
    if roles := _ROLES.match(text):
        data = {"candidate": data[roles[1]], "standard": data[roles[2]]}
        text = text[roles.end() :]
    value = GROUPS[_RATED[text]](data, None)
    return float(value["value"] if isinstance(value, Mapping) else value)


def _around(value: float, levels: Sequence[float]) -> list[float]:
    shares = [0.0] * len(levels)
    above = next(number for number, level in enumerate(levels) if level >= value)
    below = max(above - 1, 0)
    width = (levels[above] - levels[below]) or 1.0
    shares[below] += (levels[above] - value) / width
    shares[above] += 1 - shares[below] if above != below else 1.0 - shares[below]
    return shares


def _system_one(answer: dict[str, Any]) -> dict[str, Any]:
    kind = answer["type"]
    if kind == "predicate":
        return {"type": "noul", "noul": answer.get("probability")}
    rows = answer.get("probabilities")
    if not isinstance(rows, list):
        return answer
    shares = {str(row["value"]): row["probability"] for row in rows}
    legend = {str(row["value"]): row["label"] for row in rows if "label" in row}
    rest = {k: v for k, v in answer.items() if k != "name"}
    return {**rest, "probabilities": shares, **({"legend": legend} if legend else {})}
