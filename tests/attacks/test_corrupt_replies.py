"""Corrupt replies: over all findings, none makes a wrong one."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from rag_eval_hooks.findings import Finding, Findings
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts.prompt import Prompt
from rag_eval_hooks.score import Cause, NotScored
from tests.support.judge_task import JudgeTask
from tests.support.servers.brain import truthful_reply
from tests.support.servers.corruptions import HARMLESS, KINDS, corrupted
from tests.support.servers.samples import (
    AGREEMENTS,
    DECOMPOSE,
    GRADE,
    LONG_VERIFY,
    PARTS,
    RATE,
    VERIFY,
)
from tests.support.size import size

TASKS: Mapping[str, JudgeTask] = {
    "decompose": DECOMPOSE,
    "verify": VERIFY,
    "agree": replace(VERIFY, wanted=frozenset(AGREEMENTS)),
    "verify in parts": LONG_VERIFY,
    "rate": RATE,
    "grade": GRADE,
}
OPTIONS: Sequence[Mapping[str, Any]] = ({}, {"window": 100}, {"window": 60})
RUNS = size(300, 3_000)


class CorruptChat:
    name = "corrupt:test"

    def __init__(self, kind: str = "", call: int | None = 0, seed: int = 0) -> None:
        self.kind, self.call, self.draw = kind, call, random.Random(seed)
        self.calls = 0

    async def complete(self, prompt: Prompt) -> str:
        self.calls += 1
        body = {"messages": [{"role": "user", "content": prompt.user_with_shape}]}
        reply = truthful_reply(body)
        if self.call not in (None, self.calls):
            return json.dumps(reply, ensure_ascii=False)
        return corrupted(self.kind, reply, self.draw)

    async def aclose(self) -> None: ...


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


async def test_no_corruption_makes_a_wrong_finding() -> None:
    counts: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    truth: dict[tuple[str, int], tuple[Findings, int]] = {}
    wrong, seen = [], set()
    for number in range(RUNS):
        name, option = list(TASKS)[number % len(TASKS)], number % len(OPTIONS)
        task, options = TASKS[name], OPTIONS[option]
        if (name, option) not in truth:
            chat = CorruptChat()
            truth[name, option] = (await task.by(LLMJudge(chat, **options)), chat.calls)
        true, calls = truth[name, option]
        draw = number // 2
        kind = list(KINDS)[draw % len(KINDS)]
        is_lasting = (draw // len(KINDS)) % 2 == 1
        call = None if is_lasting else random.Random(draw).randint(1, calls)
        found = await task.by(LLMJudge(CorruptChat(kind, call, draw), **options))
        for wanted in task.wanted:
            verdict = judged(wanted, getattr(found, wanted), getattr(true, wanted))
            counts[kind, is_lasting][verdict] += 1
            seen.add(wanted.value)
            if verdict == "wrong":
                wrong.append(f"{kind} {call}: {wanted}")
    assert wrong == []
    assert seen == {kind.value for kind in PARTS}
    assert set(counts) == {(kind, lasting) for kind in KINDS for lasting in (False, True)}
    for (kind, is_lasting), verdicts in counts.items():
        if not is_lasting or kind in HARMLESS:
            assert verdicts["absent"] == 0, kind
            assert verdicts["right"] > 0, kind
