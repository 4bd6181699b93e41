"""Laws of the text toolbox: what a text is read as, in any script."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.text.folding import content_tokens, fold, squash, stem, tokens, word_count
from rag_eval_hooks.text.key_terms import Searched, entities, keywords, phrases
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.sentences import sentences, strip_marker


def shown(text: str) -> list[str]:
    return [str(number) for number in numbers(text)]


def key_terms(text: str) -> set[str]:
    return {str(keyword) for keyword in keywords(text)}


def sentence_count(text: str) -> int:
    return len(sentences(text))


READINGS: list[tuple[Callable[[str], Any], str, Any]] = [
    (tokens, "Cornwall's rate isn't 1,118.5%, l'eau A4b",
     ["cornwall", "rate", "isn't", "1,118.5", "l", "eau", "a4b"]),
    (tokens, "北京大学 和", ["北京", "京大", "大学", "和"]),
    (content_tokens, "The plant und der Baum of it", ["plant", "baum"]),
    (word_count, "* Rule C-1 applies - now!", 4),
    (word_count, "北京是首都。", 5),
    (word_count, "  ", 0),
    (shown, "$604", ["604"]),
    (shown, "1,000 and 1000", ["1000", "1000"]),
    (shown, "0.305% 0.305 % 0.305 percent", ["0.305%"] * 3),
    (shown, "-0.133% \u22120.133% 0.305", ["-0.133%", "-0.133%", "0.305"]),
    (shown, "-$604 ($604)", ["-604", "604"]),
    (shown, "COVID-19, 10-20, 10–20, C-1", ["19", "10", "20", "10", "20", "1"]),
    (shown, "A4b, x2y, GPT-4o, 1.2.3, 10.0.0.1, 10², 3½", []),
    (shown, "1990s 3rd 25kg 5m²", ["1990", "3", "25", "5"]),
    (shown, "٣٫٥٪ ５０ 第5章 共604元", ["3.5%", "50", "5", "604"]),
    (shown, "2.5 million", ["2500000"]),
    (shown, "0,305 % 1,5 1.000,50 1.234.567", ["0.305%", "1.5", "1000.5", "1234567"]),
    (shown, "1,2,3", ["1", "2", "3"]),
    (shown, "293 × 2.061 = 604. 293x2", ["293", "2.061", "604", "293", "2"]),
    (shown, "1. one\n2. two 7", ["7"]),
    (shown, "604. That is it.", ["604"]),
    (shown, "9" * 50, []),
    (sentence_count, "Mr. Smith paid $3.5 million. He left.", 2),
    (sentence_count, "It is in the U.S. The company left. See No. 5.", 3),
    (sentence_count, "The answer is no. The end.", 2),
    (sentence_count, "J. K. Rowling wrote it.", 1),
    (sentence_count, "Er kam z.B. am 3. Mai. Dann ging er.", 2),
    (sentence_count, "the hotels.The group grew.", 2),
    (sentence_count, "北京是首都。上海很大！对吗？", 3),
    (sentence_count, "هل هذا صحيح؟ نعم. لا", 3),
    (sentence_count, "- one\n- two\n1. three. Four", 4),
    (sentence_count, "A heading\nand a text", 2),
    (sentence_count, "This line is hard-wrapped at a width of sixty columns or\nso by a file.", 1),
    (sentence_count, "  \n ", 0),
    *((strip_marker, text, text[-1]) for text in ("- a", "12) b", "## c", "• d", "e")),
    (key_terms, "The Territory 118 has a rate change of 0.305%",
     {"territory 118", "118", "0.305%", "territory", "rate", "change"}),
    (phrases, "The Rule C-1 holds. It is of J. K. Rowling", ["Rule C-1", "J K Rowling"]),
    (entities, "Territory 118 rose 5% on March 5, 1988 in Colorado. Colorado agreed.",
     ["Territory 118", "Colorado", "March 5, 1988", "5%"]),
    (entities, "中华人民共和国成立于1949年10月1日。", ["1949年10月1日"]),
    (entities, "東京タワーは1958年12月23日に完成した。", ["1958年12月23日"]),
    (entities, "تأسست القاهرة عام 969.", ["969"]),
    (entities, "Am 17. Juli 1954 kam Angela Merkel an.", ["Angela Merkel", "17. Juli 1954"]),
    (entities, "北京", ["北京"]),
    (entities, "Symptoms vary. Most symptoms of Lyme pass.", ["Lyme"]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "text", "expected"), READINGS)
def test_text_of_any_script_is_read_as_expected(
    read: Callable[[str], Any], text: str, expected: Any
) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("change", "one", "other"),
    [
        (fold, "Café", "CAFE"),
        (fold, "ＡＢＣ１２３", "abc123"),
        (fold, "Straße", "STRASSE"),
        (fold, "a \t\n b", "A b"),
        (fold, "مَدْرَسَة", "مدرسة"),
        (fold, "don’t", "DON'T"),
        (squash, " Caf\u00e9  AU lait", "cafe\u0301 au\nlait"),
        (stem, "processes", "processed"),
        (stem, "grows", "growing"),
        (stem, "cities", "city"),
        (stem, "bats", "bat"),
    ],
)
def test_forms_of_one_text_become_equal(change: Callable[[str], str], one: str, other: str) -> None:
    assert change(one) == change(other)
    assert squash("Café") != squash("Cafe")


@given(st.decimals(-(10**9), 10**9, places=3), st.booleans())
def test_number_with_grouping_and_percent_round_trips(value: Decimal, percent: bool) -> None:
    wanted, sign = [Number(value, percent)], "%" * percent
    assert numbers(f"so {value:,}{sign} of it") == wanted
    assert numbers(f"{value}{sign}") == wanted


@given(st.text(max_size=120))
def test_any_text_is_read_whole(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert all(numbers(str(number)) == [number] for number in numbers(text))
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
    searched = Searched.of(text)
    assert all(searched.holds(keyword) for keyword in keywords(text))


def test_search_finds_whole_words_and_values_after_folding() -> None:
    searched = Searched.of("Separate 1604 with Rates, in Territory-118 of SAO PAULO: 1,000 people")
    held = ("territory 118", Number(Decimal(1604)))
    absent = ("rate", Number(Decimal(604)))
    assert [searched.holds(one) for one in (*held, *absent)] == [True, True, False, False]
    entities_held = [searched.holds_entity(one) for one in ("São Paulo", "1000", "100")]
    assert entities_held == [True, True, False]
