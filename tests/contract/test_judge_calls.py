"""Laws of the calls of `LLMJudge`: how many, about how much, in which order, and asked again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import RagEval
from rag_eval_hooks.findings import Finding, made
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts.elements import NOT_QUOTED
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.brain import prompt_data
from tests.servers.judge_server import JudgeServer
from tests.servers.prefix_cache import PrefixCache
from tests.servers.samples import AGREEMENTS, LONG_VERIFY, VERIFY, VERIFY_PARTS, verdicts
from tests.support.brain_chat import BrainChat, Reply, body, right
from tests.support.corpus import samples

TEN = (
    "ragas.answer_relevancy",
    "ragas.faithfulness",
    "ragas.context_precision",
    "ragas.context_precision_without_reference",
    "ragas.context_recall",
    "ragas.context_entity_recall",
    "ragas.noise_sensitivity",
    "nvidia",
)
SUPPORT = frozenset({Finding.ANSWER_SUPPORT})


@settings(max_examples=40, deadline=None)
@given(claims=st.integers(0, 34), agreeing=st.booleans())
def test_no_call_is_about_more_than_ten_claims(claims: int, agreeing: bool) -> None:
    kind = Finding.ANSWER_AGREEMENT if agreeing else Finding.ANSWER_SUPPORT
    texts = tuple(f"boat {number} left" for number in range(claims))
    chat = BrainChat()
    task = replace(VERIFY, wanted=frozenset({kind}), answer_claims=texts)
    asyncio.run(task.by(LLMJudge(chat)))
    asked = [prompt_data(body(prompt))["answer_claims"] for prompt in chat.prompts]
    assert [key for part in asked for key in part] == [f"a{n}" for n in range(1, claims + 1)]
    sizes = [len(part) for part in asked]
    assert len(sizes) == -(-claims // 10)
    assert not sizes or max(sizes) - min(sizes) <= 1


def forged(*claims: str) -> Any:
    def change(reply: Reply) -> Reply:
        rows = [
            row | {"quote": "nobody wrote this"} if row["id"] in claims else row
            for row in reply["answer_support"]
        ]
        return {**reply, "answer_support": rows}

    return change


async def test_a_forged_quote_is_asked_for_once_more() -> None:
    chat = BrainChat([forged("a2"), right])
    findings = await replace(VERIFY, wanted=SUPPORT).by(LLMJudge(chat))
    assert [list(prompt_data(body(p))["answer_claims"]) for p in chat.prompts] == [
        ["a1", "a2"],
        ["a2"],
    ]
    assert not isinstance(findings.answer_support, NotScored)
    assert [one.warning for one in findings.answer_support] == ["", ""]


async def test_a_quote_that_stays_forged_is_a_warning() -> None:
    for attempts in [1, 2, 3, 5]:
        chat = BrainChat([forged("a1")])
        findings = await replace(VERIFY, wanted=SUPPORT).by(LLMJudge(chat, attempts=attempts))
        assert len(chat.prompts) == min(attempts, 2)
        assert not isinstance(findings.answer_support, NotScored)
        assert [one.warning for one in findings.answer_support] == [NOT_QUOTED, ""]
        assert [one.supported for one in findings.answer_support] == [True, False]


@pytest.mark.parametrize("stagger", [True, False])
def test_a_prompt_cache_serves_the_contexts(stagger: bool) -> None:
    sample = samples(1)[0]
    with JudgeServer(latency=0.15, cache=PrefixCache()) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", stagger=stagger)
        with RagEval(TEN, judge=judge, embedder="none") as evals:
            evals.evaluate(sample)
        calls = server.calls()
    contexts = [call for call in calls if "chunks" in prompt_data(call.body)]
    formats = {json.dumps(call.body["response_format"]) for call in contexts}
    size = sum(len(context.text) for context in sample.contexts or ())
    served = [call.cached > size for call in contexts]
    assert len(calls) <= 8 + 1 + 6
    assert len(formats) == 1
    # The first round asks for two relevances and four grades at once.
    assert served.count(False) == (1 if stagger else 6)


FAR = replace(LONG_VERIFY, chunks=(LONG_VERIFY.chunks[0], *LONG_VERIFY.chunks[2:]), wanted=SUPPORT)
"""The two chunks that state halves of the first claim are in different parts of 60 tokens."""


async def test_long_contexts_are_verified_in_parts() -> None:
    for kind in [*VERIFY_PARTS, *AGREEMENTS]:
        chat = BrainChat()
        task = replace(LONG_VERIFY, wanted=frozenset({kind}))
        whole = await task.by(LLMJudge(BrainChat()))
        parted = await task.by(LLMJudge(chat, verify_tokens=100))
        assert getattr(parted, kind.value) == getattr(whole, kind.value)
        shown = [list(prompt_data(body(prompt)).get("chunks", ())) for prompt in chat.prompts]
        assert shown == ([[]] if kind in AGREEMENTS else [["1", "2"], ["3", "4"]])


async def test_a_claim_spread_over_parts_is_unsure_and_a_half_is_not_the_claim() -> None:
    chat = BrainChat()
    findings = await FAR.by(LLMJudge(chat, verify_tokens=60))
    assert verdicts(made(findings.answer_support)) == [None, (False,) * 3]
    assert len(chat.prompts) == 3
    chunks = LONG_VERIFY.chunks[:1] + LONG_VERIFY.chunks[2:3]
    findings = await replace(FAR, chunks=chunks).by(LLMJudge(chat, verify_tokens=60))
    assert verdicts(made(findings.answer_support)) == [(False,) * 2] * 2


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


async def test_an_entity_in_any_part_is_found() -> None:
    task = replace(
        LONG_VERIFY,
        wanted=frozenset({Finding.ENTITIES_FOUND}),
        entities=("lamp burns", "steep, wrote", "Norway"),
    )
    findings = await task.by(LLMJudge(BrainChat(), verify_tokens=100))
    assert verdicts(made(findings.entities_found)) == [True, True, False]
