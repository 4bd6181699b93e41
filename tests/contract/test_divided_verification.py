"""Verification of long contexts in parts, by an LLM judge."""

from __future__ import annotations

from dataclasses import replace

from rag_eval_hooks.findings import Finding
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.brain import prompt_data
from tests.servers.samples import AGREEMENTS, LONG_VERIFY, VERIFY_PARTS, verdicts
from tests.support.brain_chat import BrainChat, Reply, body

PARTED = {"verify_tokens": 100}
"""Two chunks in a part; all four take 180."""


async def test_long_contexts_are_verified_in_parts() -> None:
    """Parts are asked about at the same time and give what one call would have given."""
    chat = BrainChat()
    whole = await LLMJudge(BrainChat()).verify(LONG_VERIFY)
    parted = await LLMJudge(chat, **PARTED).verify(LONG_VERIFY)  # type: ignore[arg-type]
    for kind in LONG_VERIFY.wanted:
        assert getattr(parted, kind.value) == getattr(whole, kind.value)
    shown = [list(prompt_data(body(prompt)).get("chunks", ())) for prompt in chat.prompts]
    assert shown == [["1", "2"], [], ["3", "4"]]
    assert chat.peak == 3
    assert [len({*AGREEMENTS} & set(groups)) for groups in chat.groups] == [0, 2, 0]


async def test_a_claim_spread_over_parts_is_found_together() -> None:
    """A claim whose halves stand in different parts is asked about by these chunks alone."""
    chat = BrainChat()
    chunks = (LONG_VERIFY.chunks[0], *LONG_VERIFY.chunks[2:])
    task = replace(LONG_VERIFY, chunks=chunks, wanted=frozenset({Finding.ANSWER_SUPPORT}))
    findings = await LLMJudge(chat, verify_tokens=60).verify(task)
    assert not isinstance(findings.answer_support, NotScored)
    assert [found.together for found in findings.answer_support] == [True, False]
    assert verdicts(findings.answer_support) == [(False,) * 3] * 2
    last = prompt_data(body(chat.prompts[-1]))
    assert list(last["chunks"]) == ["1", "3"]
    assert list(last["answer_claims"]) == ["a1"]
    assert len(chat.prompts) == 3 + 1


async def test_a_half_of_a_claim_is_not_the_claim() -> None:
    """A claim of which only one half stands anywhere is not asked about again."""
    chat = BrainChat()
    task = replace(LONG_VERIFY, chunks=LONG_VERIFY.chunks[:1] + LONG_VERIFY.chunks[2:3])
    findings = await LLMJudge(chat, verify_tokens=60).verify(task)
    assert not isinstance(findings.answer_support, NotScored)
    assert [found.supported for found in findings.answer_support] == [False, False]
    assert len(chat.prompts) == 2 + 1


async def test_a_part_that_fails_leaves_no_half_verdict() -> None:
    """Support by some of the parts is no support; relevance of one part is no relevance."""

    def second_fails(reply: Reply) -> Reply:
        return {k: v for k, v in reply.items() if "answer_agreement" in reply}

    chat = BrainChat([second_fails])
    findings = await LLMJudge(chat, **PARTED).verify(LONG_VERIFY)  # type: ignore[arg-type]
    for kind in VERIFY_PARTS:
        absent = getattr(findings, kind.value)
        assert isinstance(absent, NotScored)
        assert absent.cause is Cause.JUDGE_FAILED
    assert verdicts(findings.answer_agreement) == [False, False]  # type: ignore[arg-type]


async def test_a_claim_that_stays_open_is_not_unsupported() -> None:
    """A spread claim whose last request gets no reply has unknown support."""

    def no_joint(reply: Reply) -> Reply:
        rows = reply["answer_support"]
        return {"answer_support": rows if "partly" in rows[0] else []}

    task = replace(LONG_VERIFY, wanted=frozenset({Finding.ANSWER_SUPPORT}))
    chunks = (task.chunks[0], *task.chunks[2:])
    judge = LLMJudge(BrainChat([no_joint]), verify_tokens=60)
    findings = await judge.verify(replace(task, chunks=chunks))
    assert isinstance(findings.answer_support, NotScored)
    assert findings.answer_support.cause is Cause.JUDGE_FAILED


async def test_an_entity_in_any_part_is_found() -> None:
    """An entity is found by the part that holds it, and missing only if no part does."""
    wanted = frozenset({Finding.ENTITIES_FOUND})
    entities = ("lamp burns", "steep, wrote", "Norway")
    task = replace(LONG_VERIFY, wanted=wanted, entities=entities)
    judge = LLMJudge(BrainChat(), **PARTED)  # type: ignore[arg-type]
    findings = await judge.verify(task)
    assert verdicts(findings.entities_found) == [True, True, False]  # type: ignore[arg-type]


async def test_single_calls_of_long_contexts_ask_one_finding_of_one_part() -> None:
    """Both options together: a call for each finding and part, agreements once."""
    chat = BrainChat()
    judge = LLMJudge(chat, calls="single", **PARTED)  # type: ignore[arg-type]
    parted = await judge.verify(LONG_VERIFY)
    whole = await LLMJudge(BrainChat()).verify(LONG_VERIFY)
    assert replace(parted, usage={}) == replace(whole, usage={})
    assert all(len(groups) == 1 for groups in chat.groups)
    assert len(chat.prompts) == 5 * 2 + 2
