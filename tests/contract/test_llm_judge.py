"""Laws of `LLMJudge`: it asks for what is open, keeps what it has, and guesses nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from rag_eval_hooks.errors import ConfigError, JudgeError, JudgeTimeout
from rag_eval_hooks.findings import Finding, Findings, GEval, Questions, Rating, Stance, Verdict
from rag_eval_hooks.judges.base import Judge
from rag_eval_hooks.judges.llm import LLMJudge
from rag_eval_hooks.prompts import PROMPTS_VERSION, ReplyError
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored
from rag_eval_hooks.tasks import Decompose
from rag_eval_hooks.usage import Usage
from tests.servers.brain import prompt_data
from tests.servers.samples import (
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
from tests.support.brain_chat import USED, BrainChat, Reply, body, right, verify, without


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
    """One call is about the chunks and one about text against text; items keep their order."""
    chat = BrainChat()
    findings = await LLMJudge(chat).verify(WHOLE_VERIFY)
    found = {kind: verdicts(getattr(findings, kind.value)) for kind in WHOLE_VERIFY.wanted}
    assert found == {
        Finding.ANSWER_SUPPORT: [(True, False, False), (False, False, False)],
        Finding.REFERENCE_SUPPORT: [(True, False, False), (False, False, True)],
        Finding.ANSWER_AGREEMENT: [True, False],
        Finding.REFERENCE_AGREEMENT: [True, False],
        Finding.RELEVANCE: [True, False, False],
        Finding.RELEVANCE_TO_ANSWER: [True, False, False],
        Finding.ENTITIES_FOUND: [True, True, True, False],
    }
    assert [set(groups) & {*AGREEMENTS} for groups in chat.groups] == [set(), {*AGREEMENTS}]
    assert ["chunks" in prompt_data(body(prompt)) for prompt in chat.prompts] == [True, False]


async def test_only_open_items_are_asked_again() -> None:
    """Valid items are kept; the second request is about the rest, and says what was wrong."""
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
    wanted = WHOLE_VERIFY.wanted - {Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER}
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
    verified = await verify(BrainChat(), wanted=WHOLE_VERIFY.wanted, reference=None)
    rated = await LLMJudge(BrainChat()).rate(replace(RATE, reference=None))
    graded = await LLMJudge(BrainChat()).grade(replace(GRADE, answer=None))
    for absent in (
        decomposed.entities,
        verified.answer_agreement,
        rated.geval,
        graded.groundedness_ratings,
    ):
        assert isinstance(absent, NotScored)
        assert absent.cause is Cause.MISSING_INPUT
    assert not isinstance(verified.answer_support, NotScored)
    assert rated.direct_relevance == 0.5
    assert graded.context_ratings == (2, 2)


async def test_findings_that_nobody_asked_for_stay_untouched() -> None:
    """A judge fills the wanted fields only, so that findings can be merged."""
    findings = await verify(BrainChat(), wanted=frozenset({Finding.RELEVANCE}))
    assert findings.merged(Findings()) == findings
    assert Findings().merged(findings).answer_support == Findings().answer_support


async def test_it_is_a_judge() -> None:
    """An `LLMJudge` names its model and prompts, and closes the model."""
    chat = BrainChat()
    judge = LLMJudge(chat)
    assert isinstance(judge, Judge)
    assert (judge.name, judge.annotator_kind) == ("brain:test", AnnotatorKind.LLM)
    assert judge.version == PROMPTS_VERSION
    await judge.aclose()
    assert chat.closed


async def test_absences_hold_no_content() -> None:
    """The detail of a failure holds no word of sample or reply."""
    chat = BrainChat([lambda _reply: "SECRET words about tulips"])
    findings = await verify(chat)
    for kind in VERIFY_PARTS:
        finding = getattr(findings, kind.value)
        assert "SECRET" not in finding.detail
        assert "ulips" not in finding.detail


async def test_a_rating_holds_every_rubric() -> None:
    """All wanted ratings come from one call without contexts; the model's total is ignored."""
    chat = BrainChat()
    findings = await LLMJudge(chat).rate(RATE)
    assert findings.direct_relevance == 0.5
    reasons = "correctness: by claims; completeness: by claims; consistency: by claims"
    assert findings.geval == GEval(50, 50, 100, reasons)
    assert findings.classification == Verdict(False, "by claims")
    assert findings.correctness == Rating(3, "by claims")
    assert findings.alignment == Rating(3, "by claims")
    assert findings.attitude == Rating(5, "by claims")
    assert len(chat.prompts) == 1
    assert "chunks" not in prompt_data(body(chat.prompts[0]))


async def test_grades_come_from_two_templates_each() -> None:
    """No call holds both templates of a grade; the swapped one sees the texts the other way."""
    chat = BrainChat()
    findings = await LLMJudge(chat).grade(GRADE)
    assert findings.accuracy_ratings == (2, 4)
    assert findings.context_ratings == (2, 2)
    assert findings.groundedness_ratings == (1, 1)
    contexts = {"context_ratings", "groundedness_ratings"}
    assert sorted(map(sorted, chat.groups)) == [["accuracy_ratings"]] * 2 + [sorted(contexts)] * 2


async def test_independent_grades_give_the_same_in_six_calls() -> None:
    """A call for each template of each grade, at the same time where nothing is staggered."""
    chat = BrainChat()
    judge = LLMJudge(chat, nvidia_calls="independent", stagger=False)
    findings = await judge.grade(GRADE)
    paired = await LLMJudge(BrainChat()).grade(GRADE)
    assert replace(findings, usage={}) == replace(paired, usage={})
    assert sorted(chat.groups) == [[kind.value] for kind in sorted(GRADE.wanted) for _ in "12"]
    assert chat.peak == 6


def for_calls(**changes: Any) -> Callable[[Reply], Reply]:
    return lambda reply: {**reply, **{k: v for k, v in changes.items() if k in reply}}


async def test_one_valid_rating_of_two_is_enough() -> None:
    """A template without a valid rating leaves the other's; nothing is rounded."""
    chat = BrainChat([right, for_calls(accuracy_ratings=3)])
    wanted = frozenset({Finding.ACCURACY_RATINGS})
    findings = await LLMJudge(chat).grade(replace(GRADE, wanted=wanted))
    assert findings.accuracy_ratings == (2, None)
    assert len(chat.prompts) == 1 + 3
    assert "wants one of (0, 2, 4)" in chat.prompts[-1].user


async def test_two_invalid_ratings_are_none() -> None:
    """Without a valid rating the grade has failed; the other grades stand."""
    chat = BrainChat([for_calls(context_ratings=1.5)])
    findings = await LLMJudge(chat).grade(GRADE)
    assert isinstance(findings.context_ratings, NotScored)
    assert findings.context_ratings.cause is Cause.JUDGE_FAILED
    assert findings.accuracy_ratings == (2, 4)


@pytest.mark.parametrize("option", [{}, {"nvidia_calls": "independent"}, {"calls": "single"}])
async def test_nothing_retrieved_has_the_lowest_grades(option: dict[str, Any]) -> None:
    """No chunk answers and grounds nothing: that needs no call."""
    chat = BrainChat()
    wanted = frozenset({Finding.CONTEXT_RATINGS, Finding.GROUNDEDNESS_RATINGS})
    findings = await LLMJudge(chat, **option).grade(replace(GRADE, chunks=(), wanted=wanted))
    assert findings.context_ratings == findings.groundedness_ratings == (0, 0)
    assert chat.prompts == []


async def test_single_calls_ask_for_one_finding_each() -> None:
    """For small models every finding has a call of its own, with the same result."""
    chat = BrainChat()
    single, fused = LLMJudge(chat, calls="single", stagger=False), LLMJudge(BrainChat())
    for alone, together in [
        (await single.decompose(DECOMPOSE), await fused.decompose(DECOMPOSE)),
        (await single.verify(WHOLE_VERIFY), await fused.verify(WHOLE_VERIFY)),
        (await single.rate(RATE), await fused.rate(RATE)),
    ]:
        assert replace(alone, usage={}) == replace(together, usage={})
    wanted = sorted(DECOMPOSE.wanted | WHOLE_VERIFY.wanted | RATE.wanted)
    assert sorted(chat.groups) == [[kind.value] for kind in wanted]
    assert chat.peak == len(WHOLE_VERIFY.wanted)


async def test_stance_is_asked_about_texts_that_say_something() -> None:
    """A blank text is indistinct, an absent reference is not, and neither is asked about."""
    wanted = frozenset({Finding.STANCE})
    task = replace(DECOMPOSE, wanted=wanted, answer="I do not know.", reference="In 1841.")
    assert (await LLMJudge(BrainChat()).decompose(task)).stance == Stance(True, False)
    chat = BrainChat()
    findings = await LLMJudge(chat).decompose(replace(task, answer=" ", reference=None))
    assert findings.stance == Stance(True, False)
    assert chat.prompts == []
    findings = await LLMJudge(chat).decompose(replace(task, reference=""))
    assert findings.stance == Stance(True, True)
    assert len(chat.prompts) == 1


async def test_half_a_stance_is_asked_again() -> None:
    """The second ask is about the other text alone."""
    chat = BrainChat([without("stance", 0), right])
    findings = await LLMJudge(chat).decompose(DECOMPOSE)
    assert findings.stance == Stance(False, False)
    assert "reference" not in prompt_data(body(chat.prompts[1]))
    assert "- stance: only for answer." in chat.prompts[1].user


async def test_without_a_reference_both_relevances_are_one() -> None:
    """Two equal questions about chunks are one request, whose cost is divided."""
    chat = BrainChat()
    wanted = frozenset({Finding.RELEVANCE, Finding.RELEVANCE_TO_ANSWER})
    findings = await verify(chat, wanted=wanted, reference=None)
    assert chat.groups == [["relevance"]]
    assert findings.relevance == findings.relevance_to_answer
    assert findings.usage == dict.fromkeys(wanted, USED.share(2))


async def test_relevance_to_the_answer_is_judged_by_the_answer() -> None:
    """A chunk that only helps to the reference is of no use for the answer."""
    findings = await LLMJudge(BrainChat()).verify(LONG_VERIFY)
    assert verdicts(findings.relevance) == [False, True, False, True]  # type: ignore[arg-type]
    by_answer = verdicts(findings.relevance_to_answer)  # type: ignore[arg-type]
    assert by_answer == [False, True, False, False]


async def test_usage_is_divided_among_what_a_call_asked_for() -> None:
    """Every call's usage goes in equal parts to its findings, and none of it is lost."""
    chat = BrainChat([without("relevance", 0), right])
    findings = await verify(chat)
    first = USED.share(len(VERIFY_PARTS))
    expected = dict.fromkeys(VERIFY_PARTS, first) | {Finding.RELEVANCE: first + USED}
    assert findings.usage == expected
    assert sum(used.calls for used in findings.usage.values()) == pytest.approx(2)


def failure(error: Exception, usage: Usage) -> Exception:
    error.usage = usage  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    "error",
    [failure(JudgeTimeout("30 s"), USED.share(0.5)), failure(ReplyError("cut"), USED.share(0.5))],  # type: ignore[arg-type]
)
async def test_what_failed_was_used_too(error: Exception) -> None:
    """Absent findings bear their share of calls that gave nothing, retries included."""
    findings = await LLMJudge(BrainChat([error]), attempts=1).rate(RATE)
    assert set(findings.usage) == RATE.wanted
    assert sum(used.calls for used in findings.usage.values()) == pytest.approx(2)
    assert sum(used.input_tokens for used in findings.usage.values()) == pytest.approx(240)


async def test_what_nobody_was_asked_about_took_nothing() -> None:
    """A finding that is known without asking has no usage."""
    findings = await verify(BrainChat(), wanted=frozenset({Finding.ENTITIES_FOUND}), entities=())
    assert findings.usage == {}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("calls", "fast"),
        ("calls", None),
        ("nvidia_calls", "both"),
        ("verify_tokens", 0),
        ("verify_tokens", 1.5),
        ("attempts", 0),
        ("attempts", True),
    ],
)
def test_a_wrong_option_is_named(option: str, value: object) -> None:
    """A value that cannot be used is refused at start-up, with the option's name."""
    options: Mapping[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=f"^{option}: got "):
        LLMJudge(BrainChat(), **options)


async def test_a_chat_with_a_fault_of_its_own_is_not_hidden() -> None:
    """An exception that no model raises comes out, once all calls of the task have ended."""
    chat = BrainChat([right, KeyError("of the user's own"), right])
    with pytest.raises(KeyError):
        await LLMJudge(chat).grade(GRADE)
    assert len(chat.prompts) == 4
    assert chat.in_flight == 0
