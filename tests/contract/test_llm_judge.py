"""Laws of `LLMJudge`: it asks for what is open, keeps what it has, and guesses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest

from rag_eval_hooks.errors import ConfigError, JudgeError, JudgeTimeout
from rag_eval_hooks.findings import UNREAD, Finding, Stance
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import SPECS, ReplyError
from rag_eval_hooks.sample import Field
from rag_eval_hooks.score import Cause, NotScored
from tests.servers.brain import prompt_data
from tests.servers.samples import DECOMPOSE, GRADE, RATE, VERIFY, WHOLE_VERIFY, verdicts
from tests.support.brain_chat import USED, BrainChat, Reply, body, right, verify, without
from tests.support.judge_task import JudgeTask

SUPPORT = frozenset({Finding.ANSWER_SUPPORT})
RELEVANCE = frozenset({Finding.RELEVANCE})
ALL = JudgeTask(
    wanted=DECOMPOSE.wanted | WHOLE_VERIFY.wanted | RATE.wanted | GRADE.wanted,
    **{f.name: getattr(VERIFY, f.name) for f in fields(VERIFY) if f.name != "wanted"},
)


async def test_every_finding_has_calls_of_its_own() -> None:
    chat = BrainChat()
    findings = await ALL.by(LLMJudge(chat))
    expected = [[kind.value] for kind in ALL.wanted - GRADE.wanted]
    expected += [[kind.value] for kind in GRADE.wanted for _template in "12"]
    assert sorted(chat.groups) == sorted(expected)
    assert not any(isinstance(getattr(findings, kind), NotScored) for kind in ALL.wanted)
    assert findings.answer_claims == (*VERIFY.answer_claims[:1], "Its lamp burns oil")


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
        await task.by(LLMJudge(chat, attempts=1))
        sent = " ".join(prompt.user for prompt in chat.prompts)
        shown = {name for name, mark in marks.items() if mark in sent}
        allowed = {*SPECS[kind].shows}
        assert shown == (allowed | {Field.QUESTION} if Field.CONTEXTS in allowed else allowed)


def only(kind: Finding) -> frozenset[Finding]:
    return frozenset({kind})


async def test_only_open_items_are_asked_again() -> None:
    chat = BrainChat([without("answer_support", 1), right])
    findings = await verify(chat, wanted=SUPPORT)
    again = chat.prompts[1]
    assert prompt_data(body(again))["answer_claims"] == {"a2": VERIFY.answer_claims[1]}
    assert "a2 is missing" in again.user
    assert verdicts(findings.answer_support)[1] == (False, False, False)  # type: ignore[arg-type]
    assert len(chat.prompts) == 2


@pytest.mark.parametrize("kind", [Finding.ANSWER_SUPPORT, Finding.RELEVANCE])
async def test_an_item_that_never_fits_is_unsure(kind: Finding) -> None:

    def first_missing(reply: Reply) -> Reply:
        rows = reply[kind.value]
        return {
            kind.value: [row for row in rows if str(row.get("id", row.get("chunk")))[-1] != "1"]
        }

    chat = BrainChat([first_missing])
    findings = await verify(chat, wanted=only(kind))
    first, *others = getattr(findings, kind)
    assert (first.sure, first.reason) == (False, UNREAD)
    assert all(one.sure for one in others)
    assert len(chat.prompts) == 3


async def test_a_finding_is_asked_for_a_limited_number_of_times() -> None:
    for attempts in [1, 2, 4]:
        chat = BrainChat([ReplyError("it was a refusal"), lambda _reply: "SECRET words on tulips"])
        findings = await verify(chat, wanted=SUPPORT, attempts=attempts)
        assert len(chat.prompts) == attempts
        assert all("it was a refusal" in prompt.user for prompt in chat.prompts[1:2])
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


@pytest.mark.parametrize(("missing", "sentences"), [(1, 2), (1, 3), (1, 4), (3, 4)])
async def test_sentences_that_cannot_be_read_cost_their_claims(
    missing: int, sentences: int
) -> None:

    def unread(reply: Reply) -> Reply:
        rows = [row for row in reply["answer_claims"] if row["sentence"] > missing]
        return {"answer_claims": rows}

    answer = " ".join(f"Boat {number} left." for number in range(sentences))
    wanted = only(Finding.ANSWER_CLAIMS)
    task = replace(DECOMPOSE, wanted=wanted, answer=answer)
    findings = await task.by(LLMJudge(BrainChat([unread])))
    if 3 * missing > sentences:
        assert isinstance(findings.answer_claims, NotScored)
        assert findings.answer_claims.cause is Cause.JUDGE_FAILED
    else:
        assert findings.answer_claims == tuple(
            f"Boat {number} left" for number in range(missing, sentences)
        )
        (warning,) = findings.warnings[Finding.ANSWER_CLAIMS]
        assert f"{missing} of {sentences}" in warning


async def test_a_missing_text_is_missing_input() -> None:
    for kind in sorted(ALL.wanted):
        for name in SPECS[kind].needs - {Field.CONTEXTS}:
            task = replace(ALL, wanted=only(kind), **{name.value: None})  # type: ignore[arg-type]
            absent = getattr(await task.by(LLMJudge(BrainChat())), kind)
            assert isinstance(absent, NotScored)
            assert absent.cause is Cause.MISSING_INPUT


def for_calls(**changes: Any) -> Callable[[Reply], Reply]:
    return lambda reply: {**reply, **{k: v for k, v in changes.items() if k in reply}}


async def test_stance_is_asked_about_texts_that_say_something() -> None:
    task = replace(
        DECOMPOSE,
        wanted=only(Finding.STANCE),
        answer="I do not know.",
        reference="In 1841.",
    )
    assert (await task.by(LLMJudge(BrainChat()))).stance == Stance(True, False)
    chat = BrainChat()
    findings = await replace(task, answer=" ", reference=None).by(LLMJudge(chat))
    assert findings.stance == Stance(True, False)
    assert chat.prompts == []
    assert (await replace(task, reference="").by(LLMJudge(chat))).stance == Stance(True, True)
    assert len(chat.prompts) == 1
    chat = BrainChat([without("stance", 0), right])
    findings = await replace(DECOMPOSE, wanted=only(Finding.STANCE)).by(LLMJudge(chat))
    assert findings.stance == Stance(False, False)
    assert "reference" not in prompt_data(body(chat.prompts[1]))


def test_a_wrong_option_is_named() -> None:
    for option, value in [
        ("verify_tokens", 0),
        ("verify_tokens", 1.5),
        ("attempts", 0),
        ("attempts", True),
    ]:
        options: Mapping[str, Any] = {option: value}
        with pytest.raises(ConfigError, match=f"^{option} is "):
            LLMJudge(BrainChat(), **options)


async def test_a_chat_with_a_fault_of_its_own_is_not_hidden() -> None:
    chat = BrainChat([right, KeyError("of the user's own"), right])
    with pytest.raises(KeyError):
        await GRADE.by(LLMJudge(chat))
    assert len(chat.prompts) == 6
    assert chat.in_flight == 0


async def test_entity_that_stands_in_a_chunk_is_not_asked_about() -> None:
    for entity, chunk, asked in [
        ("VÁRNE", "The lighthouse of Varne.", False),
        ("ada  lorne", "Ada Lorne, its keeper", False),
        ("36", "365 days", True),
        ("36", "It fell to -36 degrees", True),
        ("36", "36.5 metres", True),
        ("Ann", "Anne", True),
    ]:
        chat = BrainChat([lambda _reply: {"entities_found": [{"id": "e1", "found": False}]}])
        wanted = only(Finding.ENTITIES_FOUND)
        findings = await verify(chat, wanted=wanted, entities=(entity,), chunks=(chunk,))
        assert verdicts(findings.entities_found) == [not asked]  # type: ignore[arg-type]
        assert len(chat.prompts) == asked


async def test_one_valid_rating_of_two_is_enough() -> None:
    chat = BrainChat([right, for_calls(accuracy_ratings=3)])
    findings = await replace(GRADE, wanted=only(Finding.ACCURACY_RATINGS)).by(LLMJudge(chat))
    assert findings.accuracy_ratings == (2, None)
    assert len(chat.prompts) == 1 + 3
    assert "0, 2 or 4" in chat.prompts[-1].user
    findings = await GRADE.by(LLMJudge(BrainChat([for_calls(context_ratings=1.5)])))
    assert isinstance(findings.context_ratings, NotScored)
    assert findings.context_ratings.cause is Cause.JUDGE_FAILED
    assert findings.accuracy_ratings == (2, 4)


async def test_usage_of_requested_findings_includes_failed_calls() -> None:
    chat = BrainChat([without("relevance", 0), right])
    findings = await verify(chat, wanted=RELEVANCE)
    assert findings.usage == {Finding.RELEVANCE: USED + USED}
    findings = await replace(DECOMPOSE, wanted=only(Finding.ENTITIES)).by(LLMJudge(BrainChat()))
    assert findings.usage == {Finding.ENTITIES: USED}
    nothing = await verify(BrainChat(), wanted=only(Finding.ENTITIES_FOUND), entities=())
    assert nothing.usage == {}
    for error in (JudgeTimeout("30 s"), ReplyError("cut")):
        findings = await RATE.by(LLMJudge(BrainChat([error]), attempts=1))
        assert findings.usage == dict.fromkeys(RATE.wanted, USED)
