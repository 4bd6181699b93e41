"""Verification of long contexts in parts, by an LLM judge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag_eval_hooks.findings import Finding, made
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.brain import prompt_data
from tests.servers.samples import AGREEMENTS, LONG_VERIFY, VERIFY_PARTS, verdicts
from tests.support.brain_chat import BrainChat, Reply, body

SUPPORT = frozenset({Finding.ANSWER_SUPPORT})
FAR = replace(LONG_VERIFY, chunks=(LONG_VERIFY.chunks[0], *LONG_VERIFY.chunks[2:]), wanted=SUPPORT)
"""The two chunks that state halves of the first claim are in different parts of 60 tokens."""


@pytest.mark.parametrize("kind", [*VERIFY_PARTS, *AGREEMENTS])
async def test_long_contexts_are_verified_in_parts(kind: Finding) -> None:
    chat = BrainChat()
    task = replace(LONG_VERIFY, wanted=frozenset({kind}))
    whole = await task.by(LLMJudge(BrainChat()))
    parted = await task.by(LLMJudge(chat, verify_tokens=100))
    assert getattr(parted, kind.value) == getattr(whole, kind.value)
    shown = [list(prompt_data(body(prompt)).get("chunks", ())) for prompt in chat.prompts]
    assert shown == ([[]] if kind in AGREEMENTS else [["1", "2"], ["3", "4"]])


async def test_a_claim_spread_over_parts_is_found_together() -> None:
    chat = BrainChat()
    findings = await FAR.by(LLMJudge(chat, verify_tokens=60))
    assert [found.together for found in made(findings.answer_support)] == [True, False]
    assert verdicts(made(findings.answer_support)) == [(False,) * 3] * 2
    last = prompt_data(body(chat.prompts[-1]))
    assert list(last["chunks"]) == ["1", "3"]
    assert list(last["answer_claims"]) == ["a1"]
    assert len(chat.prompts) == 3 + 1


async def test_a_half_of_a_claim_is_not_the_claim() -> None:
    chat = BrainChat()
    chunks = LONG_VERIFY.chunks[:1] + LONG_VERIFY.chunks[2:3]
    findings = await replace(FAR, chunks=chunks).by(LLMJudge(chat, verify_tokens=60))
    assert [found.supported for found in made(findings.answer_support)] == [False, False]
    assert len(chat.prompts) == 2


@pytest.mark.parametrize("kind", VERIFY_PARTS)
async def test_a_part_that_fails_leaves_no_half_verdict(kind: Finding) -> None:

    def first_only(reply: Reply) -> Reply:
        return reply if next(calls, None) else {}

    calls = iter([True])
    task = replace(LONG_VERIFY, wanted=frozenset({kind}))
    judge = LLMJudge(BrainChat([first_only]), verify_tokens=100, stagger=False)
    found = getattr(await task.by(judge), kind)
    if kind in (Finding.ANSWER_SUPPORT, Finding.REFERENCE_SUPPORT):
        assert isinstance(found, NotScored)
        assert found.cause is Cause.JUDGE_FAILED
    elif kind is not Finding.ENTITIES_FOUND:
        assert [one.sure for one in found] == [True, True, False, False]


async def test_a_claim_that_stays_open_is_not_unsupported() -> None:

    def no_joint(reply: Reply) -> Reply:
        rows = reply["answer_support"]
        return {"answer_support": [] if any(row["together"] for row in rows) else rows}

    findings = await FAR.by(LLMJudge(BrainChat([no_joint]), verify_tokens=60))
    assert [found.sure for found in made(findings.answer_support)] == [False, True]


async def test_an_entity_in_any_part_is_found() -> None:
    task = replace(
        LONG_VERIFY,
        wanted=frozenset({Finding.ENTITIES_FOUND}),
        entities=("lamp burns", "steep, wrote", "Norway"),
    )
    findings = await task.by(LLMJudge(BrainChat(), verify_tokens=100))
    assert verdicts(made(findings.entities_found)) == [True, True, False]
