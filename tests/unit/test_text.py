"""Laws of the text toolbox."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.text.folding import (
    content_tokens,
    fold,
    squash,
    stem,
    tokens,
    word_count,
)
from rag_eval_hooks.text.key_terms import Searched, entities, keywords, phrases
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.sentences import sentences, strip_marker


def shown(text: str) -> list[str]:
    return [str(number) for number in numbers(text)]


class TestFolding:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Café", "CAFE"),
            ("ＡＢＣ１２３", "abc123"),
            ("Straße", "STRASSE"),
            ("a \t\n b", "A b"),
            ("مَدْرَسَة", "مدرسة"),
            ("don’t", "DON'T"),
        ],
    )
    def test_same_words_fold_alike(self, one: str, other: str) -> None:
        """Texts that differ in case, accents, width, marks or white space fold to one."""
        assert fold(one) == fold(other)

    def test_squash_keeps_accents(self) -> None:
        """Squashing removes case and white space and nothing else."""
        assert squash(" Caf\u00e9  AU lait") == squash("cafe\u0301 au\nlait")
        assert squash("Café") != squash("Cafe")

    @given(st.text(max_size=60))
    def test_folding_twice_is_folding_once(self, text: str) -> None:
        assert fold(fold(text)) == fold(text)


class TestTokens:
    def test_words_numbers_contractions(self) -> None:
        """Words are split at punctuation, numbers and contractions are not."""
        assert tokens("Cornwall's rate isn't 1,118.5%, l'eau A4b") == [
            "cornwall", "rate", "isn't", "1,118.5", "l", "eau", "a4b",
        ]  # fmt: skip

    def test_scripts_without_spaces_become_bigrams(self) -> None:
        assert tokens("北京大学 和") == ["北京", "京大", "大学", "和"]

    def test_stop_words_are_no_content(self) -> None:
        assert content_tokens("The plant und der Baum of it") == ["plant", "baum"]

    @pytest.mark.parametrize(
        ("one", "other"),
        [("processes", "processed"), ("grows", "growing"), ("cities", "city"), ("bats", "bat")],
    )
    def test_inflections_share_a_stem(self, one: str, other: str) -> None:
        """Inflections of one word have one stem."""
        assert stem(one) == stem(other)

    def test_words_are_counted_in_every_script(self) -> None:
        assert word_count("* Rule C-1 applies - now!") == 4
        assert word_count("北京是首都。") == 5
        assert word_count("  ") == 0


class TestNumbers:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("$604", ["604"]),
            ("1,000 and 1000", ["1000", "1000"]),
            ("0.305% 0.305 % 0.305 percent", ["0.305%"] * 3),
            ("0.305", ["0.305"]),
            ("-0.133% \u22120.133%", ["-0.133%"] * 2),
            ("-$604 ($604)", ["-604", "604"]),
            ("COVID-19, 10-20, 10–20, C-1", ["19", "10", "20", "10", "20", "1"]),
            ("A4b, x2y, GPT-4o, 1.2.3, 10.0.0.1, 10², 3½", []),
            ("1990s 3rd 25kg 5m²", ["1990", "3", "25", "5"]),
            ("٣٫٥٪ ５０", ["3.5%", "50"]),
            ("第5章 共604元", ["5", "604"]),
            ("2.5 million", ["2500000"]),
            ("0,305 % 1,5 1.000,50 1.234.567", ["0.305%", "1.5", "1000.5", "1234567"]),
            ("1,2,3", ["1", "2", "3"]),
            ("293 × 2.061 = 604. 293x2", ["293", "2.061", "604", "293", "2"]),
            ("1. one\n2. two 7", ["7"]),
            ("604. That is it.", ["604"]),
            ("9" * 50, []),
        ],
    )
    def test_numbers_are_values(self, text: str, expected: list[str]) -> None:
        """A number is read as the value that it states, whatever its form; identifiers are none."""
        assert shown(text) == expected

    @given(st.decimals(-(10**9), 10**9, places=3), st.booleans())
    def test_grouping_and_percent_round_trip(self, value: Decimal, percent: bool) -> None:
        wanted = [Number(value, percent)]
        sign = "%" * percent
        assert numbers(f"so {value:,}{sign} of it") == wanted
        assert numbers(f"{value}{sign}") == wanted

    @given(st.text(max_size=80))
    def test_any_text_is_read(self, text: str) -> None:
        """No text raises, and every number found is finite and prints as a number again."""
        for number in numbers(text):
            assert number.value.is_finite()
            assert numbers(str(number)) == [number]


class TestSentences:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Mr. Smith paid $3.5 million. He left.", 2),
            ("It is in the U.S. The company left. See No. 5.", 3),
            ("The answer is no. The end.", 2),
            ("J. K. Rowling wrote it.", 1),
            ("Er kam z.B. am 3. Mai. Dann ging er.", 2),
            ("the hotels.The group grew.", 2),
            ("北京是首都。上海很大！对吗？", 3),
            ("هل هذا صحيح؟ نعم. لا", 3),
            ("- one\n- two\n1. three. Four", 4),
            ("A heading\nand a text", 2),
            ("This line is hard-wrapped at a width of sixty columns or\nso by a file.", 1),
            ("  \n ", 0),
        ],
    )
    def test_sentences_are_counted_right(self, text: str, expected: int) -> None:
        """Full stops of abbreviations, initials and decimals end nothing; others do."""
        assert len(sentences(text)) == expected

    @given(st.text(max_size=120))
    def test_nothing_is_lost(self, text: str) -> None:
        """Sentences hold every character of the text but white space, in order."""
        assert "".join("".join(sentences(text)).split()) == "".join(text.split())

    def test_markers_are_stripped(self) -> None:
        """A leading bullet or number is no part of a sentence."""
        assert [strip_marker(s) for s in ("- a", "12) b", "## c", "• d", "e")] == list("abcde")


class TestKeywords:
    def test_the_kinds_of_keyword(self) -> None:
        """Phrases with their number, numbers, and words of four letters are keywords."""
        found = {str(k) for k in keywords("The Territory 118 has a rate change of 0.305%")}
        assert found == {"territory 118", "118", "0.305%", "territory", "rate", "change"}

    def test_phrases_lose_leading_stop_words(self) -> None:
        assert phrases("The Rule C-1 holds. It is of J. K. Rowling") == ["Rule C-1", "J K Rowling"]

    def test_whole_words_are_searched(self) -> None:
        """A keyword inside another word or number is not found."""
        searched = Searched.of("Separate 1604 with Rates, in Territory-118")
        assert not searched.holds("rate")
        assert not searched.holds(Number(Decimal(604)))
        assert searched.holds("territory 118")

    @given(st.text(max_size=80))
    def test_a_text_holds_its_own_keywords(self, text: str) -> None:
        searched = Searched.of(text)
        assert all(searched.holds(keyword) for keyword in keywords(text))


class TestEntities:
    def test_names_dates_numbers(self) -> None:
        """Names, whole dates and numbers are entities, each once."""
        text = "Territory 118 rose 5% on March 5, 1988 in Colorado. Colorado agreed."
        assert entities(text) == ["Territory 118", "Colorado", "March 5, 1988", "5%"]

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
    def test_entities_of_any_script(self, text: str, expected: list[str]) -> None:
        """Dates and numbers are entities in any script, names where it has capitals."""
        assert entities(text) == expected

    def test_a_word_also_written_small_is_no_name(self) -> None:
        assert entities("Symptoms vary. Most symptoms of Lyme pass.") == ["Lyme"]

    def test_entities_are_found_after_folding(self) -> None:
        searched = Searched.of("in SAO PAULO it was 1,000 people")
        assert searched.holds_entity("São Paulo")
        assert searched.holds_entity("1000")
        assert not searched.holds_entity("100")
