"""Laws for texts that are not English: sentences, claims, entities, keywords, support."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import asyncio
import subprocess
import sys
from decimal import Decimal

import pytest

from rag_eval_hooks.findings import Finding, Findings, Stance, Support, made
from rag_eval_hooks.judges.local import LocalJudge
from rag_eval_hooks.text.key_terms import Searched, entities, keywords
from rag_eval_hooks.text.numbers import Number
from rag_eval_hooks.text.sentences import is_question, sentences
from tests.support.judge_task import JudgeTask


def decomposed(answer: str, *wanted: Finding) -> Findings:
    task = JudgeTask(wanted=frozenset(wanted), question="?", answer=answer, reference=answer)
    return asyncio.run(task.by(LocalJudge()))


def support(claim: str, *chunks: str) -> Support:
    task = JudgeTask(
        wanted=frozenset({Finding.ANSWER_SUPPORT}),
        question="?",
        chunks=chunks,
        answer_claims=(claim,),
    )
    return made(asyncio.run(task.by(LocalJudge())).answer_support)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "长城很长。它始建于公元前7世纪！你去过吗？",
            ["长城很长。", "它始建于公元前7世纪！", "你去过吗？"],
        ),
        (
            "「富士山は高い。」と彼は言った。標高は3,776メートルです。",
            ["「富士山は高い。」", "と彼は言った。", "標高は3,776メートルです。"],
        ),
        (
            "القاهرة عاصمة مصر. أين تقع؟ تقع على النيل.",
            ["القاهرة عاصمة مصر.", "أين تقع؟", "تقع على النيل."],
        ),
        (
            "Am 3. Oktober feiert man z. B. in Berlin. Dr. Meier kam um 8.30 Uhr. Ist das wahr?",
            [
                "Am 3. Oktober feiert man z. B. in Berlin.",
                "Dr. Meier kam um 8.30 Uhr.",
                "Ist das wahr?",
            ],
        ),
    ],
    ids=["chinese", "japanese", "arabic", "german"],
)
def test_sentences_end_where_the_script_ends_them(text: str, expected: list[str]) -> None:
    """Each script's own stops end sentences; abbreviations, ordinals and decimals do not."""
    assert sentences(text) == expected


@pytest.mark.parametrize("question", ["你去过吗？", "どこですか？", "أين تقع؟", "Ist das wahr?"])
def test_questions_are_told_by_the_mark_of_any_script(question: str) -> None:
    """A question mark of any script makes a question, and a question is no claim."""
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
    """Claims are the statements of the answer, list markers and joining stops cut off."""
    assert made(decomposed(answer, Finding.ANSWER_CLAIMS).answer_claims) == expected


SUPPORTED = [
    ("长城始建于公元前7世纪。", "长城的修建始于公元前7世纪，历时很久。", "故宫位于北京的中心。"),
    ("富士山の標高は3776メートルです。", "富士山は標高3,776メートルの山です。", "琵琶湖は湖です。"),
    ("يبلغ طول النيل 6650 كيلومترا.", "طول نهر النيل يبلغ ٦٦٥٠ كيلومترا.", "مصر دولة أفريقية."),
    (
        "Das Radio wurde im Jahr 1931 in Köln gebaut.",
        "1931 wurde das Radio in Köln gebaut, von einer kleinen Firma.",
        "Der Dom steht seit Jahrhunderten.",
    ),
]
IDS = ["chinese", "japanese", "arabic", "german"]


@pytest.mark.parametrize(("claim", "chunk", "other"), SUPPORTED, ids=IDS)
def test_the_chunk_that_states_a_claim_supports_it(claim: str, chunk: str, other: str) -> None:
    """A claim is supported by the chunk that says it in other order or digits, and by no other."""
    assert support(claim, other, chunk).by_chunk == (False, True)


@pytest.mark.parametrize(
    ("claim", "chunk", "named"),
    [
        ("长城始建于公元前8世纪。", SUPPORTED[0][1], "8"),
        ("富士山の標高は3777メートルです。", SUPPORTED[1][1], "3777"),
        ("يبلغ طول النيل 6651 كيلومترا.", SUPPORTED[2][1], "6651"),
        ("Das Radio wurde im Jahr 1932 in Köln gebaut.", SUPPORTED[3][1], "1932"),
    ],
    ids=IDS,
)
def test_a_wrong_number_is_named(claim: str, chunk: str, named: str) -> None:
    """A number that the chunk lacks breaks the claim in any language, and is the reason."""
    found = support(claim, chunk)
    assert not found.supported
    assert named in found.reason


@pytest.mark.parametrize(
    ("claim", "chunk"),
    [
        ("长城不是新的。", "长城是新的。"),
        ("富士山は高くない。", "富士山は高くなる。"),
        ("القاهرة ليست عاصمة مصر.", "القاهرة عاصمة مصر."),
        ("Der Turm ist nicht hoch.", "Der Turm ist hoch."),
        ("Der Turm ist hoch.", "Der Turm ist nicht hoch."),
    ],
)
def test_a_denial_is_no_support(claim: str, chunk: str) -> None:
    """A statement that the other side denies is not supported."""
    assert not support(claim, chunk).supported


def test_a_german_noun_is_no_name() -> None:
    """A capital proves no name in German: a noun that the chunk words otherwise is no conflict."""
    found = support("Die Mine wurde im Jahr 1895 geschlossen.", "1895 wurde die Mine geschlossen.")
    assert found.supported


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
    ("text", "held", "missing"),
    [
        ("北京是中国的首都", "首都", "上海"),
        ("東京は日本の首都です", "東京", "大阪"),
        ("القاهرة عاصمة مصر", "القاهرة", "النيل"),
        ("Die Straßen von München", "münchen", "berlin"),
    ],
    ids=IDS,
)
def test_keywords_of_any_script_are_found(text: str, held: str, missing: str) -> None:
    """The keywords of a text are in the text; a word that it lacks is not."""
    searched = Searched.of(text)
    assert keywords(text)
    assert all(searched.holds(keyword) for keyword in keywords(text))
    assert searched.holds(held)
    assert not searched.holds(missing)


def test_digits_of_any_script_are_one_number() -> None:
    """A value is a keyword however its digits are written."""
    for text in ("6650", "６６５０", "٦٦٥٠", "६६५०"):
        assert Number(Decimal(6650)) in keywords(text)


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


_OFFLINE = """
import asyncio, sys
from rag_eval_hooks.findings import Finding, made
from rag_eval_hooks.judges.local import LocalJudge
from tests.support.judge_task import JudgeTask

def refuse(event, _):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise AssertionError(event)

sys.addaudithook(refuse)
claim, chunk = sys.argv[1:]
wanted = frozenset({Finding.ANSWER_SUPPORT})
task = JudgeTask(wanted=wanted, question="?", chunks=(chunk,), answer_claims=(claim,))
found = made(asyncio.run(task.by(LocalJudge())).answer_support)
sys.exit(0 if found[0].supported else 1)
"""


@pytest.mark.parametrize(("claim", "chunk", "other"), SUPPORTED, ids=IDS)
def test_no_language_needs_a_download(claim: str, chunk: str, other: str) -> None:
    """A fresh process judges a text of any of these languages without opening a connection."""
    assert (
        subprocess.run([sys.executable, "-c", _OFFLINE, claim, chunk], check=False).returncode == 0
    )
    assert (
        subprocess.run([sys.executable, "-c", _OFFLINE, claim, other], check=False).returncode == 1
    )
