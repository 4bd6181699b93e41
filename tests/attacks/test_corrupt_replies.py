"""Corrupt replies: over all findings, none makes a wrong one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.brain import truthful_reply
from tests.servers.corruptions import HARMLESS, KINDS, corrupted
from tests.servers.samples import AGREEMENTS, DECOMPOSE, GRADE, LONG_VERIFY, PARTS, RATE, VERIFY
from tests.support.judge_task import JudgeTask
from tests.support.size import size

TASKS: Mapping[str, JudgeTask] = {
    "decompose": DECOMPOSE,
    "verify": VERIFY,
    "agree": replace(VERIFY, wanted=frozenset(AGREEMENTS)),
    "verify in parts": LONG_VERIFY,
    "rate": RATE,
    "grade": GRADE,
}
OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"verify_tokens": 100},
    {"verify_tokens": 60},
)
RUNS = size(500, 3_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which replies are corrupted, and how: one call, counted from 1, or all for None."""

    kind: str
    call: int | None
    draw: random.Random

    @classmethod
    def at(cls, number: int, calls: int) -> Plan:
        draw = random.Random(number)
        passing = (number // len(KINDS)) % 2 == 0
        return cls(
            list(KINDS)[number % len(KINDS)], draw.randint(1, calls) if passing else None, draw
        )


class CorruptChat:
    """A model that tells the truth in replies that get corrupted on the way."""

    name = "corrupt:test"

    def __init__(self, plan: Plan | None = None) -> None:
        self.plan = plan
        self.calls = 0

    async def complete(self, prompt: Prompt) -> str:
        self.calls += 1
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        reply = truthful_reply(body)
        plan = self.plan
        if plan is None or plan.call not in (None, self.calls):
            return json.dumps(reply, ensure_ascii=False)
        return corrupted(plan.kind, reply, plan.draw)

    async def aclose(self) -> None:
        pass


@dataclass(slots=True)
class Tally:
    """Verdicts by corruption and by whether it was lasting, those that are wrong, and all names."""

    counts: dict[tuple[str, bool], Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)

    def add(self, plan: Plan, name: str, verdict: str) -> None:
        key = (plan.kind, plan.call is None)
        self.counts.setdefault(key, Counter())[verdict] += 1
        self.seen.add(name)
        if verdict == "wrong":
            self.wrong.append(f"{plan.kind} {plan.call}: {name}")


def bare(content: Any) -> Any:
    if is_dataclass(content) and not isinstance(content, type):
        names = [f.name for f in fields(content) if f.name not in ("reason", "quote", "warning")]
        return {name: bare(getattr(content, name)) for name in names}
    return [bare(part) for part in content] if isinstance(content, tuple) else content


def judged(kind: Finding, found: Any, true: Any) -> str:
    if isinstance(found, NotScored):
        return "absent" if found.cause is Cause.JUDGE_FAILED and found.detail else "wrong"
    if kind in GRADE.wanted and None in found and found != (None, None):
        # One valid rating of the two is enough.
        return "right" if all(a in (None, b) for a, b in zip(found, true, strict=True)) else "wrong"
    if isinstance(found, tuple) and len(found) == len(true):
        # An item whose reply cannot be read is unsure, and no verdict.
        pairs = zip(found, true, strict=True)
        return "right" if all(_is_open(a) or bare(a) == bare(b) for a, b in pairs) else "wrong"
    if kind in _CLAIMS and set(found) < set(true):
        # Claims of a sentence that cannot be read are missing, with a warning.
        return "absent"
    return "right" if bare(found) == bare(true) else "wrong"


_CLAIMS = (Finding.ANSWER_CLAIMS, Finding.REFERENCE_CLAIMS)


def _is_open(verdict: Any) -> bool:
    return not getattr(verdict, "sure", True)


async def ask(task: JudgeTask, chat: CorruptChat, options: Mapping[str, Any]) -> Findings:
    return await task.by(LLMJudge(chat, **options))


async def over_findings(runs: int) -> Tally:
    tally = Tally()
    truth: dict[tuple[str, int], tuple[Findings, int]] = {}
    for number in range(runs):
        name = list(TASKS)[number % len(TASKS)]
        option = number % len(OPTIONS)
        if (name, option) not in truth:
            chat = CorruptChat()
            truth[name, option] = (await ask(TASKS[name], chat, OPTIONS[option]), chat.calls)
        true, calls = truth[name, option]
        plan = Plan.at(number // 2, calls)
        found = await ask(TASKS[name], CorruptChat(plan), OPTIONS[option])
        for kind in TASKS[name].wanted:
            verdict = judged(kind, getattr(found, kind.value), getattr(true, kind.value))
            tally.add(plan, kind.value, verdict)
    return tally


def check(tally: Tally) -> None:
    assert tally.wrong == []
    assert set(tally.counts) == {(kind, lasting) for kind in KINDS for lasting in (0, 1)}
    for (kind, lasting), counts in tally.counts.items():
        if not lasting or kind in HARMLESS:
            assert counts["absent"] == 0, kind
            assert counts["right"] > 0


async def test_no_corruption_makes_a_wrong_finding() -> None:
    tally = await over_findings(RUNS)
    assert tally.seen == {kind.value for kind in PARTS}
    check(tally)
