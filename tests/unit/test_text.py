"""Laws of the text toolbox: what a text is read as, in any script, and which answers refuse."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.metrics.graphrag import DontKnow, dont_know_phrase
from rag_eval_hooks.text.folding import fold, squash, stem, tokens
from rag_eval_hooks.text.key_terms import Searched, entities, keywords
from rag_eval_hooks.text.measures import Number, agree, measures, numbers
from rag_eval_hooks.text.sentences import sentences


def shown(text: str) -> list[str]:
    return [str(number) for number in numbers(text)]


def sentence_count(text: str) -> int:
    return len(sentences(text))


READINGS: list[tuple[Callable[[str], Any], str, Any]] = [
    (tokens, "Cornwall's rate isn't 1,118.5%, l'eau A4b",
     ["cornwall", "rate", "isn't", "1,118.5", "l", "eau", "a4b"]),
    (tokens, "北京大学 和", ["北京", "京大", "大学", "和"]),
    (shown, "-0.133% \u22120.133% 0.305 percent", ["-0.133%", "-0.133%", "0.305%"]),
    (shown, "COVID-19, 10-20, C-1, A4b, GPT-4o, 1.2.3, 3½", ["19", "10", "20", "1"]),
    (shown, "٣٫٥٪ ５０ 第5章 1.000,50 1.234.567", ["3.5%", "50", "5", "1000.5", "1234567"]),
    (shown, f"1. ten\n2. 20 of 30\n3. 1'234'567 of {'1' * 41}", ["20", "30", "1234567"]),
    (sentence_count, "It is in the U.S. The company left. See No. 5.", 3),
    (sentence_count, "Er kam z.B. am 3. Mai. Dann ging er.", 2),
    (sentence_count, "北京是首都。上海很大！对吗？", 3),
    (sentence_count, "This line is hard-wrapped at a width of sixty columns or\nso by a file.", 1),
    (sentence_count, "هل هذا صحيح؟ نعم. لا", 3),
    (sentence_count, "- one\n- two\n1. three. Four", 4),
    (entities, "Territory 118 rose 5% on March 5, 1988 in Colorado. Colorado agreed.",
     ["Territory 118", "Colorado", "March 5, 1988", "5%"]),
    (entities, "中华人民共和国成立于1949年10月1日。", ["1949年10月1日"]),
]  # fmt: skip


def test_text_of_any_script_is_read_as_expected() -> None:
    for read, text, expected in READINGS:
        assert read(text) == expected, text


def test_forms_of_one_text_become_equal() -> None:
    for change, one, other in (
        (fold, "Café", "CAFE"),
        (fold, "ＡＢＣ１２３", "abc123"),
        (fold, "Straße", "STRASSE"),
        (fold, "مَدْرَسَة", "مدرسة"),
        (fold, "don’t", "DON'T"),
        (squash, " Caf\u00e9  AU lait", "cafe\u0301 au\nlait"),
        (stem, "processes", "processed"),
        (stem, "cities", "city"),
    ):
        assert change(one) == change(other)
    assert squash("Café") != squash("Cafe")


@given(st.decimals(-(10**9), 10**9, places=3), st.booleans())
def test_number_with_grouping_and_percent_round_trips(value: Decimal, percent: bool) -> None:
    wanted, sign = [Number(value, percent)], "%" * percent
    assert numbers(f"so {value:,}{sign} of it") == wanted
    assert numbers(f"{value}{sign}") == wanted


def test_quantities_agree_in_any_unit_date_or_spelling() -> None:
    for said, stated, do in (
        ("2 hours and 30 minutes", "150 minutes", True),
        ("20 °C", "68 °F", True),
        ("1.2 million", "1,234,567", True),
        ("about 1,200", "1,234", True),
        ("1,200", "1,234", False),
        ("5 March 1988", "from 5 to 7 March 1988", True),
        ("122", "a hundred and twenty-two", True),
    ):
        (one,) = measures(said)
        assert any(agree(one, other) for other in measures(stated)) is do, said


@given(st.text(max_size=120))
def test_any_text_is_read_whole(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert all(numbers(str(number)) == [number] for number in numbers(text))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    searched = Searched.of(text)
    assert all(searched.holds(keyword) for keyword in keywords(text))


def test_answer_refuses_if_its_main_clause_does() -> None:
    for answer, refuses in (
        ("I found nothing about this in the files.", True),
        ("I found nothing wrong with the file.", False),
        ("Dazu finde ich leider keine Angaben im Text.", True),
        ("Selon le document, la réponse est inconnue.", True),
        ("No puedo responder a esta pregunta.", True),
        ("Laut den Unterlagen ist die Antwort nicht bekannt.", True),
        ("Thank you for your question. I do not know.", True),
        ("Unknown.", True),
        ("The sources are silent. Please ask the author.", True),
        ("Sorry, but the sources do not cover this. However, it opened in 1990.", False),
        ("I don\N{RIGHT SINGLE QUOTATION MARK}t know the answer to that.", True),
        ("The context does not mention the price. Therefore, I am unable to answer.", True),
        ("The author is unknown, but the poem dates from the tenth century.", False),
        ("I'm not sure, but I think that it was 1990.", False),
        ("“I do not know,” said Alice, and she went through the door.", False),
    ):
        assert (dont_know_phrase(answer, DontKnow.REFUSAL) is not None) is refuses, answer
