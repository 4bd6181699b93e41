"""Laws for texts that are not English: sentences, claims, entities, keywords, support."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import asyncio

import pytest

from rag_eval_hooks.findings import Finding, Findings, Stance, made
from rag_eval_hooks.judges.heuristic import LocalJudge
from rag_eval_hooks.text.key_terms import entities
from rag_eval_hooks.text.sentences import is_question
from tests.support.judge_task import JudgeTask


def decomposed(answer: str, *wanted: Finding) -> Findings:
    task = JudgeTask(wanted=frozenset(wanted), question="?", answer=answer, reference=answer)
    return asyncio.run(task.by(LocalJudge()))


@pytest.mark.parametrize("question", ["你去过吗？", "どこですか？", "أين تقع؟", "Ist das wahr?"])
def test_questions_are_told_by_the_mark_of_any_script(question: str) -> None:
    assert is_question(question)
    assert made(decomposed(question, Finding.ANSWER_CLAIMS).answer_claims) == ()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("1. 北京是首都。\n2. 上海是最大的城市。", ("北京是首都。", "上海是最大的城市。")),
        ("東京は首都です。大阪は商業の都市です。", ("東京は首都です。", "大阪は商業の都市です。")),
        ("النيل طويل. القاهرة كبيرة.", ("النيل طويل.", "القاهرة كبيرة.")),
        (
            "Der Turm ist 368 m hoch; er steht seit 1969 am Alexanderplatz.",
            ("Der Turm ist 368 m hoch", "er steht seit 1969 am Alexanderplatz."),
        ),
    ],
    ids=["chinese", "japanese", "arabic", "german"],
)
def test_each_statement_is_a_claim(answer: str, expected: tuple[str, ...]) -> None:
    assert made(decomposed(answer, Finding.ANSWER_CLAIMS).answer_claims) == expected


IDS = ["chinese", "japanese", "arabic", "german"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("中华人民共和国成立于1949年10月1日。", ["1949年10月1日"]),
        ("東京タワーは1958年12月23日に完成した。", ["1958年12月23日"]),
        ("تأسست القاهرة عام 969.", ["969"]),
        ("Am 17. Juli 1954 kam Angela Merkel an.", ["Angela Merkel", "17. Juli 1954"]),
        ("北京", ["北京"]),
    ],
)
def test_entities_of_any_script(text: str, expected: list[str]) -> None:
    """Dates and numbers are entities in any script, names where it has capitals or stand alone."""
    assert entities(text) == expected


@pytest.mark.parametrize(
    ("refusal", "statement"),
    [
        ("我不知道。", "北京是首都。"),
        ("申し訳ありませんが、わかりません。", "東京は首都です。"),
        ("لا أعرف الجواب.", "القاهرة عاصمة مصر."),
        ("Das weiß ich leider nicht.", "Der Turm ist 368 m hoch."),
    ],
    ids=IDS,
)
def test_a_refusal_is_indistinct(refusal: str, statement: str) -> None:
    """A text that only says that it does not know states nothing, in any language."""
    assert made(decomposed(refusal, Finding.STANCE).stance) == Stance(True, True)
    assert made(decomposed(statement, Finding.STANCE).stance) == Stance(False, False)


@pytest.mark.parametrize(
    ("question", "right", "wrong", "reference"),
    [
        ("中国的首都是哪里？", "中国的首都是北京。", "中国的首都是上海。", "北京"),
        ("日本の首都はどこですか？", "首都は東京です。", "首都は大阪です。", "東京"),
        ("ما هي عاصمة مصر؟", "عاصمة مصر هي القاهرة.", "عاصمة مصر هي أسوان.", "القاهرة"),
        ("Wie hoch ist der Turm?", "Der Turm ist 368 m hoch.", "Er ist 300 m hoch.", "368 m"),
    ],
    ids=IDS,
)
def test_answers_are_classified(question: str, right: str, wrong: str, reference: str) -> None:
    """An answer is correct when it states the reference, in any language."""
    verdicts = []
    for answer in (right, wrong):
        task = JudgeTask(
            wanted=frozenset({Finding.CLASSIFICATION}),
            question=question,
            answer=answer,
            reference=reference,
        )
        verdicts.append(made(asyncio.run(task.by(LocalJudge())).classification).holds)
    assert verdicts == [True, False]
