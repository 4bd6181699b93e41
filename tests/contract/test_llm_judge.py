"""Laws of LLMJudge: its prompts, its number of calls, its cache, and no guessed finding."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import RagEval, RagEvalConfig
from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.findings import UNREAD, Finding, made
from rag_eval_hooks.judges import choose_judge
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.prompts.elements import NOT_QUOTED
from rag_eval_hooks.prompts.prompt import ReplyError
from rag_eval_hooks.prompts.specs import SPECS
from rag_eval_hooks.sample import Field
from rag_eval_hooks.score import Cause, NotScored
from tests.support.brain_chat import BrainChat, Reply, body, right, verify, without
from tests.support.corpus import samples
from tests.support.judge_task import JudgeTask
from tests.support.servers.brain import prompt_data
from tests.support.servers.judge_server import JudgeServer, PrefixCache
from tests.support.servers.samples import (
    AGREEMENTS,
    DECOMPOSE,
    GRADE,
    LONG_VERIFY,
    RATE,
    VERIFY,
    VERIFY_PARTS,
    WHOLE_VERIFY,
    verdicts,
)

SUPPORT = frozenset({Finding.ANSWER_SUPPORT})
RELEVANCE = frozenset({Finding.RELEVANCE})
ALL = JudgeTask(
    wanted=DECOMPOSE.wanted | WHOLE_VERIFY.wanted | RATE.wanted | GRADE.wanted,
    **{f.name: getattr(VERIFY, f.name) for f in fields(VERIFY) if f.name != "wanted"},
)


async def test_prompt_shows_only_fields_of_its_definition() -> None:
    for kind in sorted(ALL.wanted):
        marks = {name: f"{name}mark" for name in Field if name is not Field.REFERENCE_IDS}
        task = replace(
            ALL,
            wanted=frozenset({kind}),
            **{name.value: mark for name, mark in marks.items() if name is not Field.CONTEXTS},  # type: ignore[arg-type]
            chunks=(marks[Field.CONTEXTS],),
            entities=("Norway",),
        )
        chat = BrainChat()
        await task.by(LLMJudge(chat))
        sent = " ".join(prompt.user for prompt in chat.prompts)
        shown = {name for name, mark in marks.items() if mark in sent}
        allowed = {*SPECS[kind].shows}
        assert shown == (allowed | {Field.QUESTION} if Field.CONTEXTS in allowed else allowed)


@pytest.mark.parametrize("kind", [Finding.ANSWER_SUPPORT, Finding.RELEVANCE])
async def test_an_item_that_never_fits_is_unsure(kind: Finding) -> None:

    def first_missing(reply: Reply) -> Reply:
        rows = reply[kind.value]
        return {
            kind.value: [row for row in rows if str(row.get("id", row.get("chunk")))[-1] != "1"]
        }

    chat = BrainChat([first_missing])
    findings = await verify(chat, wanted=frozenset({kind}))
    first, *others = getattr(findings, kind)
    assert (first.sure, first.reason) == (False, UNREAD)
    assert all(one.sure for one in others)
    assert len(chat.prompts) == 3


async def test_a_finding_is_asked_for_a_limited_number_of_times() -> None:
    chat = BrainChat([ReplyError("the reply was a refusal"), lambda _reply: "SECRET words"])
    findings = await verify(chat, wanted=SUPPORT)
    assert len(chat.prompts) == 3
    assert all("the reply was a refusal" in prompt.user for prompt in chat.prompts[1:2])
    absent = findings.answer_support
    assert isinstance(absent, NotScored)
    assert absent.cause is Cause.JUDGE_FAILED
    assert "SECRET" not in absent.detail
    assert "ulips" not in absent.detail


@pytest.mark.parametrize(
    ("error", "cause"),
    [(JudgeError("HTTP 401"), Cause.JUDGE_FAILED), (JudgeTimeout("30 s"), Cause.TIMEOUT)],
)
async def test_lost_connection_keeps_finished_findings(error: JudgeError, cause: Cause) -> None:
    findings = await verify(BrainChat([without("answer_support", 0), error]), wanted=SUPPORT)
    assert [one.sure for one in findings.answer_support] == [False, True]  # type: ignore[union-attr]
    findings = await verify(BrainChat([error]), wanted=SUPPORT)
    absent = findings.answer_support
    assert isinstance(absent, NotScored)
    assert absent.cause is cause
    assert f"the judge raised {type(error).__name__} at " in absent.detail


@pytest.mark.parametrize("sentences", [2, 3])
async def test_sentences_that_cannot_be_read_cost_their_claims(sentences: int) -> None:
    def unread(reply: Reply) -> Reply:
        rows = [row for row in reply["answer_claims"] if row["sentence"] > 1]
        return {"answer_claims": rows}

    claims = [f"Boat {number} left" for number in range(sentences)]
    wanted, answer = frozenset({Finding.ANSWER_CLAIMS}), "".join(f"{one}. " for one in claims)
    task = replace(DECOMPOSE, wanted=wanted, answer=answer)
    findings = await task.by(LLMJudge(BrainChat([unread])))
    if sentences == 2:
        assert isinstance(findings.answer_claims, NotScored)
    else:
        assert findings.answer_claims == tuple(claims[1:])
        assert "1 of 3" in findings.warnings[Finding.ANSWER_CLAIMS][0]


TEN = ("ragas", "nvidia")


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


async def test_a_forged_quote_is_asked_for_once_more_and_then_a_warning() -> None:
    chat = BrainChat([forged("a2"), right])
    findings = await replace(VERIFY, wanted=SUPPORT).by(LLMJudge(chat))
    asked = [list(prompt_data(body(p))["answer_claims"]) for p in chat.prompts]
    assert asked == [["a1", "a2"], ["a2"]]
    assert [one.warning for one in made(findings.answer_support)] == ["", ""]
    chat = BrainChat([forged("a1")])
    findings = await replace(VERIFY, wanted=SUPPORT).by(LLMJudge(chat))
    assert len(chat.prompts) == 2
    rows = [(one.warning, one.supported) for one in made(findings.answer_support)]
    assert rows == [(NOT_QUOTED, True), ("", False)]


def test_a_prompt_cache_serves_the_contexts() -> None:
    sample = samples(1)[0]
    with JudgeServer(latency=0.15, cache=PrefixCache()) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k")
        with RagEval(TEN, judge=judge, embedder="none") as evals:
            evals.evaluate(sample)
        calls = server.calls()
    contexts = [call for call in calls if "chunks" in prompt_data(call.body)]
    formats = {json.dumps(call.body["response_format"]) for call in contexts}
    size = sum(len(context.text) for context in sample.contexts or ())
    served = [call.cached > size for call in contexts]
    assert len(calls) <= 8 + 1 + 6
    assert len(formats) == 1
    assert served.count(False) == 1


FAR = replace(LONG_VERIFY, chunks=(LONG_VERIFY.chunks[0], *LONG_VERIFY.chunks[2:]), wanted=SUPPORT)
"""The two chunks that state halves of the first claim are in different parts of 60 tokens."""


async def test_long_contexts_are_verified_in_parts() -> None:
    for kind in [*VERIFY_PARTS, *AGREEMENTS]:
        chat = BrainChat()
        task = replace(LONG_VERIFY, wanted=frozenset({kind}))
        whole = await task.by(LLMJudge(BrainChat()))
        parted = await task.by(LLMJudge(chat, window=100))
        pairs = zip(getattr(parted, kind.value), getattr(whole, kind.value), strict=True)
        assert all(one == other or not one.sure for one, other in pairs)
        shown = [list(prompt_data(body(prompt)).get("chunks", ())) for prompt in chat.prompts]
        assert shown == ([[]] if kind in AGREEMENTS else [["1", "2"], ["3", "4"]])


async def test_own_examples_follow_the_examples_of_the_prompts() -> None:
    chat, plain = BrainChat(), LLMJudge(BrainChat())
    judge = LLMJudge(chat, examples={"judging": "Example 4. Ours."})
    await replace(VERIFY, wanted=SUPPORT).by(judge)
    assert all(prompt.system.endswith("\n\nExample 4. Ours.") for prompt in chat.prompts)
    assert judge.version != plain.version


def test_judge_window_is_a_setting_and_small_for_ollama() -> None:
    given = {"ollama:m": (None, 2_000), "openai:m": (None, 60_000), "azure:m": (9, 9)}
    for name, (setting, window) in given.items():
        config = RagEvalConfig(judge=name, judge_window=setting, judge_base_url="http://localhost")
        assert choose_judge(config)._window == window  # type: ignore[attr-defined]


@pytest.mark.parametrize(("window", "calls"), [(60, 2), (40, 0)])
async def test_no_text_beyond_the_window_is_sent(window: int, calls: int) -> None:
    """A model may cut the text without an error, and judge the rest."""
    chat, task = BrainChat(), replace(FAR, wanted=SUPPORT | {Finding.CONTEXT_RATINGS})
    findings = await task.by(LLMJudge(chat, window=window))
    assert "judge_window" in str(findings.context_ratings)
    assert isinstance(findings.answer_support, NotScored) == (not calls)
    assert bool(chat.prompts) == bool(calls)


async def test_a_claim_that_no_part_states_is_unsure() -> None:
    """Several parts may state the claim together."""
    chat = BrainChat()
    findings = await FAR.by(LLMJudge(chat, window=60))
    assert verdicts(made(findings.answer_support)) == [None, None]
    assert len(chat.prompts) == 3
