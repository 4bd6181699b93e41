"""Laws of `LLMJudge`: it asks for what is open, keeps what it has, and guesses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.errors import JudgeError, JudgeTimeout
from rag_eval_hooks.findings import Decompose, Finding, Findings, Questions
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import PROMPTS_VERSION, Prompt, ReplyError
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from tests.servers.brain import prompt_data, truthful_reply
from tests.servers.samples import DECOMPOSE, VERIFY, VERIFY_PARTS, verdicts

Reply = dict[str, Any]
Step = Callable[[Reply], Reply | str] | Exception


def right(reply: Reply) -> Reply:
    return reply


def without(name: str, position: int) -> Callable[[Reply], Reply]:
    def changed(reply: Reply) -> Reply:
        rows = reply[name]
        return {**reply, name: rows[:position] + rows[position + 1 :]}

    return changed


class BrainChat:
    """A model that tells the truth, changed by one step per call; the last step repeats."""

    name = "brain:test"

    def __init__(self, steps: Sequence[Step] = (right,)) -> None:
        self._steps = list(steps)
        self.prompts: list[Prompt] = []
        self.closed = False

    async def complete(self, prompt: Prompt) -> str:
        self.prompts.append(prompt)
        step = self._steps[min(len(self.prompts), len(self._steps)) - 1]
        if isinstance(step, Exception):
            raise step
        reply = step(truthful_reply(body(prompt)))
        return reply if isinstance(reply, str) else json.dumps(reply)

    async def aclose(self) -> None:
        self.closed = True


def body(prompt: Prompt) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt.user_with_shape}]}


async def verify(chat: BrainChat, **changes: Any) -> Findings:
    return await LLMJudge(chat).verify(replace(VERIFY, **changes))


async def test_a_decomposition_holds_what_the_model_said() -> None:
    """All wanted parts come from one call."""
    chat = BrainChat()
    findings = await LLMJudge(chat).decompose(DECOMPOSE)
    assert findings.answer_claims == (*VERIFY.answer_claims[:1], "Its lamp burns oil")
    assert findings.reference_claims == VERIFY.reference_claims
    assert isinstance(findings.questions, Questions)
    assert len(findings.questions.texts) == 3
    assert len(chat.prompts) == 1


async def test_a_verification_holds_one_verdict_per_item() -> None:
    """All wanted verdicts come from one call, in the order of the items."""
    chat = BrainChat()
    findings = await verify(chat)
    found = {kind: verdicts(getattr(findings, kind.value)) for kind in VERIFY_PARTS}
    assert found == {
        Finding.ANSWER_SUPPORT: [(True, False, False), (False, False, False)],
        Finding.REFERENCE_SUPPORT: [(True, False, False), (False, False, True)],
        Finding.ANSWER_AGREEMENT: [True, False],
        Finding.REFERENCE_AGREEMENT: [True, False],
        Finding.RELEVANCE: [True, False, False],
        Finding.ENTITIES_FOUND: [True, True, True, False],
    }
    assert len(chat.prompts) == 1


async def test_only_open_items_are_asked_again() -> None:
    """What was valid is kept; the second ask is about the rest, and says what was wrong."""
    chat = BrainChat([without("answer_support", 1), right])
    findings = await verify(chat)
    again = chat.prompts[1]
    assert prompt_data(body(again))["answer_claims"] == {"a2": VERIFY.answer_claims[1]}
    assert list(again.schema["properties"]) == ["answer_support"]
    assert "a2 is missing" in again.user
    assert verdicts(findings.answer_support)[1] == (False, False, False)  # type: ignore[arg-type]
    assert len(chat.prompts) == 2


async def test_what_never_fits_costs_only_its_own_finding() -> None:
    """After the last attempt the finding concerned is `judge_failed`, the others stand."""
    chat = BrainChat([without("relevance", 0), lambda _reply: {"relevance": []}])
    findings = await verify(chat)
    assert isinstance(findings.relevance, NotScored)
    assert findings.relevance.cause is Cause.JUDGE_FAILED
    others = [getattr(findings, kind.value) for kind in VERIFY_PARTS]
    assert sum(isinstance(finding, NotScored) for finding in others) == 1
    assert len(chat.prompts) == 3


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_a_task_is_asked_a_limited_number_of_times(attempts: int) -> None:
    """A model that never replies with JSON is asked `attempts` times in all."""
    chat = BrainChat([lambda _reply: "I cannot say."])
    findings = await LLMJudge(chat, attempts=attempts).verify(VERIFY)
    assert len(chat.prompts) == attempts
    absent = [getattr(findings, kind.value) for kind in VERIFY_PARTS]
    assert all(isinstance(f, NotScored) and f.cause is Cause.JUDGE_FAILED for f in absent)


@pytest.mark.parametrize(
    ("error", "cause"),
    [(JudgeError("HTTP 401"), Cause.JUDGE_FAILED), (JudgeTimeout("30 s"), Cause.TIMEOUT)],
)
async def test_a_lost_connection_keeps_what_was_made(error: JudgeError, cause: Cause) -> None:
    """A transport failure ends the asking; findings that were complete by then stand."""
    chat = BrainChat([without("answer_support", 0), error])
    findings = await verify(chat)
    assert findings.answer_support == NotScored(cause, str(error))
    assert verdicts(findings.relevance) == [True, False, False]  # type: ignore[arg-type]
    assert len(chat.prompts) == 2


async def test_an_unreadable_reply_is_asked_again() -> None:
    """A refusal or a reply cut at the token limit is one failed attempt, no more."""
    chat = BrainChat([ReplyError("it was a refusal"), right])
    findings = await LLMJudge(chat).decompose(DECOMPOSE)
    assert "it was a refusal" in chat.prompts[1].user
    assert findings.reference_claims == VERIFY.reference_claims


async def test_entities_that_stand_in_a_chunk_are_not_asked_about() -> None:
    """Folded and as whole words an entity is found without the model."""
    chat = BrainChat()
    entities = ("VÁRNE", "ada  lorne", "1841")
    wanted = frozenset({Finding.ENTITIES_FOUND})
    findings = await verify(chat, wanted=wanted, entities=entities)
    assert verdicts(findings.entities_found) == [True] * 3  # type: ignore[arg-type]
    assert chat.prompts == []


@pytest.mark.parametrize(
    ("entity", "chunk"),
    [("36", "365 days"), ("36", "It fell to -36 degrees"), ("36", "36.5 metres"), ("Ann", "Anne")],
)
async def test_a_part_of_a_word_is_asked_about(entity: str, chunk: str) -> None:
    """A number or name inside a longer one does not count as found literally."""
    chat = BrainChat([lambda _reply: {"entities_found": [{"id": "e1", "found": False}]}])
    wanted = frozenset({Finding.ENTITIES_FOUND})
    findings = await verify(chat, wanted=wanted, entities=(entity,), chunks=(chunk,))
    assert verdicts(findings.entities_found) == [False]  # type: ignore[arg-type]
    assert len(chat.prompts) == 1


async def test_no_items_need_no_call() -> None:
    """No claims and no entities: empty findings, and nothing is asked."""
    chat = BrainChat()
    wanted = frozenset(VERIFY_PARTS) - {Finding.RELEVANCE}
    findings = await verify(chat, wanted=wanted, answer_claims=(), reference_claims=(), entities=())
    assert [getattr(findings, kind.value) for kind in wanted] == [()] * 5
    assert chat.prompts == []


async def test_a_blank_answer_claims_nothing() -> None:
    """A blank answer holds no claims, answers no question and evades; nothing is asked."""
    chat = BrainChat()
    wanted = frozenset({Finding.ANSWER_CLAIMS, Finding.QUESTIONS})
    findings = await LLMJudge(chat).decompose(Decompose(wanted=wanted, question="q", answer=" "))
    assert findings.answer_claims == ()
    assert findings.questions == Questions((), noncommittal=True)
    assert chat.prompts == []


async def test_a_missing_text_is_missing_input() -> None:
    """A finding about a text that the task lacks is no failure of the judge."""
    decomposed = await LLMJudge(BrainChat()).decompose(replace(DECOMPOSE, reference=None))
    verified = await verify(BrainChat(), reference=None)
    for absent in (decomposed.entities, verified.answer_agreement):
        assert isinstance(absent, NotScored)
        assert absent.cause is Cause.MISSING_INPUT
    assert not isinstance(verified.answer_support, NotScored)


async def test_findings_that_nobody_asked_for_stay_untouched() -> None:
    """A judge fills the wanted fields only, so that findings can be merged."""
    findings = await verify(BrainChat(), wanted=frozenset({Finding.RELEVANCE}))
    assert findings.merged(Findings()) == findings
    assert Findings().merged(findings).answer_support == Findings().answer_support


async def test_it_is_a_judge() -> None:
    """It says who judged and by which prompts, and closes its model."""
    chat = BrainChat()
    judge = LLMJudge(chat)
    assert isinstance(judge, Judge)
    assert (judge.name, judge.annotator_kind) == ("brain:test", AnnotatorKind.LLM)
    assert judge.version == PROMPTS_VERSION
    await judge.aclose()
    assert chat.closed


async def test_absences_hold_no_content() -> None:
    """What is said about a failure holds no word of sample or reply."""
    chat = BrainChat([lambda _reply: "SECRET words about tulips"])
    findings = await verify(chat)
    for kind in VERIFY_PARTS:
        finding = getattr(findings, kind.value)
        assert "SECRET" not in finding.detail
        assert "ulips" not in finding.detail
