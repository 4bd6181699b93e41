"""Corrupt answers of a decision model: over all findings, none makes a wrong one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks import DecisionJudge, NotScored
from rag_eval_hooks.findings import ChunkRelevance, Finding, Findings, Support, Verdict
from rag_eval_hooks.prompts.specs import SPECS
from rag_eval_hooks.score import Cause
from tests.support.judge_task import JudgeTask
from tests.support.servers.decision_server import DecisionServer
from tests.support.servers.samples import GRADE, RATE, WHOLE_VERIFY, verdicts

KINDS = ("openai-decisions", "systemone")
DECIDED = frozenset(kind for kind, spec in SPECS.items() if spec.is_decision)
TASKS = [replace(one, wanted=one.wanted & DECIDED) for one in (WHOLE_VERIFY, RATE, GRADE)]
Answers = list[dict[str, Any]]


def share(value: Any) -> Callable[[Answers], Answers]:
    def new(probability: float) -> Any:
        return value(probability) if callable(value) else value

    return lambda answers: [
        {**one, "probability": new(one.get("probability", 0.5))}
        | {"probabilities": [{**row, "probability": new(row["probability"])} for row in rows]}
        for one in answers
        for rows in [one.get("probabilities", ())]
    ]


def shuffled(seed: int) -> Callable[[Answers], Answers]:
    return lambda answers: random.Random(seed).sample(answers, len(answers))


CORRUPTIONS: Mapping[str, Callable[[Answers], Answers]] = {
    "refusals": lambda answers: [{"type": "refusal", "name": one["name"]} for one in answers],
    "every second refused": lambda answers: [
        {"type": "refusal", "name": one["name"]} if at % 2 else one
        for at, one in enumerate(answers)
    ],
    "one missing": lambda answers: [*answers[:1], *answers[2:]],
    "none": lambda _: [],
    "one twice": lambda answers: [*answers[:1], *answers],
    "other names": lambda answers: [{**one, "name": f"x{one['name']}"} for one in answers],
    "other types": lambda answers: [{**one, "type": "essay"} for one in answers],
    "foreign options": lambda answers: [
        {**one, "probabilities": [{"value": "yes", "label": "yes", "probability": 1.0}]}
        for one in answers
    ],
    "a key lacking": lambda answers: [dict([*one.items()][:-1]) for one in answers],
    "another choice": lambda answers: [{**one, "choice": "yes"} for one in answers],
    "no sum": share(lambda p: min(p + 0.2, 1.0)),
    **{str(bad): share(bad) for bad in (float("nan"), float("inf"), 1.5, -0.5, "1", None, True)},
    **{f"shuffled {seed}": shuffled(seed) for seed in range(4)},
}


async def asked(server: DecisionServer, task: JudgeTask, kind: str) -> Findings:
    judge = DecisionJudge(f"{kind}:m", base_url=server.url, api_key="k")
    try:
        return await task.by(judge)
    finally:
        await judge.aclose()


@pytest.mark.parametrize("kind", KINDS)
async def test_corrupt_answer_is_absent_and_never_wrong(kind: str) -> None:
    seen = set()
    with DecisionServer() as server:
        truths = [await asked(server, task, kind) for task in TASKS]
        for name, spoil in CORRUPTIONS.items():
            server.spoil = spoil
            for task, true in zip(TASKS, truths, strict=True):
                found = await asked(server, task, kind)
                for wanted in task.wanted:
                    one, other = getattr(found, wanted), getattr(true, wanted)
                    assert is_right_or_absent(wanted, one, other), (name, wanted)
                    seen.add((name, isinstance(one, NotScored)))
    assert {("none", True), ("every second refused", False)} <= seen
    assert ("none", False) not in seen


def is_right_or_absent(kind: Finding, one: Any, true: Any) -> bool:
    if isinstance(one, NotScored):
        return one.cause is Cause.JUDGE_FAILED and bool(one.detail)
    if kind in GRADE.wanted:
        return all(a in (None, b) for a, b in zip(one, true, strict=True))
    if isinstance(one, Verdict | Support | ChunkRelevance):
        one, true = (one,), (true,)
    if isinstance(one, tuple):
        pairs = zip(verdicts(one), verdicts(true), strict=True)
        return all(a in (None, b) for a, b in pairs)
    return bool(one == true)
