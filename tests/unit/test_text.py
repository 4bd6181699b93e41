"""Laws of the text toolbox: what a text is read as, in any script, and which answers refuse."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import Context, RagEval, Sample, Score
from rag_eval_hooks.metrics.options import PHRASES, DontKnow, dont_know_phrase
from rag_eval_hooks.score import Cause
from rag_eval_hooks.text.folding import (
    collapse_runs,
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


RUNS = st.sampled_from(" \t\n\u00a0\u3000.-_\"'0x\u0301中")


@given(st.lists(st.tuples(RUNS, st.integers(1, 5000)), max_size=6))
def test_collapse_runs_of_any_character_leaves_bounded_runs(parts: list[tuple[str, int]]) -> None:
    text = "a".join(char * count for char, count in parts)
    assert len(collapse_runs(text)) <= 41 * 2 * len(parts)


@given(st.text(st.characters(exclude_categories=["Cf", "Cs"]), max_size=200))
def test_collapse_runs_without_long_runs_returns_words_unchanged(text: str) -> None:
    assert collapse_runs(text).split() == text.split() or any(
        char * 40 in text for char in set(text)
    )


async def _scored(evals: RagEval, gap: str) -> tuple[float | None, float]:
    answer = f"The last ferry to Oslo{gap}leaves at 22:40."
    contexts = (Context(text="It leaves at 22:40."),)
    sample = Sample(question="When does it leave?", contexts=contexts, answer=answer)
    before = time.process_time()
    outcome = (await evals.aevaluate(sample))["ragas.faithfulness"]
    return getattr(outcome, "value", None), time.process_time() - before


@pytest.mark.parametrize("char", [" ", "\t", "\u00a0"])
async def test_embedded_judge_given_spaces_gives_the_score_of_one_space(char: str) -> None:
    with RagEval(["ragas.faithfulness"], embedder="none") as evals:
        expected, _ = await _scored(evals, " ")
        assert (await _scored(evals, char * 9_000))[0] == expected


DATA = Path(os.environ.get("LABELED_DATA", Path(__file__).parents[3] / "shared/data"))
PLACES = (DATA / "open/refusals.jsonl", DATA / "refusals.jsonl")
LABELLED = next((place for place in PLACES if place.is_file()), None)


def refuses(answer: str) -> bool:
    return dont_know_phrase(answer, DontKnow.REFUSAL) is not None


def holds_phrase(answer: str) -> bool:
    return dont_know_phrase(answer, DontKnow.PHRASES) is not None


@given(st.sampled_from(PHRASES), st.text(max_size=30), st.text(max_size=30))
def test_phrases_are_substrings(phrase: str, before: str, after: str) -> None:
    assert holds_phrase(f"{before} {phrase.upper()} {after}")


@pytest.mark.parametrize(
    ("answer", "refused"),
    [*((short, True) for short in ("None", " n/a ", "NULL", "none."))]
    + [(longer, False) for longer in ("None of them did", "December", "", "nothing at all")],
)
def test_a_short_none_refuses_and_a_longer_one_answers(answer: str, refused: bool) -> None:
    assert holds_phrase(answer) is refused
    assert refuses(answer) is refused


REFUSING = [
    "I don't know.",
    "I don\N{RIGHT SINGLE QUOTATION MARK}t know the answer to that.",
    "Unknown.",
    "I'm not sure.",
    "Sorry, I cannot answer this question.",
    "Based on the context, I cannot determine who wrote it.",
    "There is no information about this in the documents.",
    "The provided context does not mention the price. Therefore, I am unable to answer.",
    "I don't have enough information to answer. Please share the document.",
    "Insufficient data",
    "The answer is not available.",
    "It is unclear from the passages whether she ever returned.",
    "This information is not available in the provided context.",
    "I'm sorry, but that is not covered by the documents.",
    "I don't have that information.",
    "I have no information about that.",
    "Sorry, I can't help with that.",
    "There's nothing about this in the handbook.",
]
ANSWERING = [
    "The Tomb of the Unknown Soldier is in Arlington.",
    "She died of unknown causes.",
    "The author is unknown, but the poem dates from the tenth century.",
    "It is not available in paperback; it came out in cloth in 2004.",
    "This is not covered by the guarantee.",
    "This information is not available to guests, but members find it on the last page.",
    "He told the court that he was not sure whether the door was locked.",
    "The film is not available on streaming services; it came out on DVD in 2004.",
    "I'm not sure, but I think that it was 1990.",
    "I cannot determine the exact year. However, it was built between 1880 and 1890.",
    "It is not possible to recover the files without a backup.",
    "1. Press reset.\n2. Hold the key.\n3. Wait.\nUnable to answer based on given passages.",
    "“I do not know,” said Alice, and she went through the door.",
]


@pytest.mark.parametrize("answer", [*REFUSING, *ANSWERING])
def test_answer_refuses_if_its_main_clause_does(answer: str) -> None:
    assert refuses(answer) is (answer in REFUSING)


@given(st.text(alphabet=st.sampled_from("i cannot know,.;: but*-\n1"), max_size=400))
def test_every_text_is_judged(answer: str) -> None:
    words = dont_know_phrase(answer, DontKnow.REFUSAL)
    assert words is None or words in fold(answer)


@pytest.mark.skipif(LABELLED is None, reason="labelled data: set LABELED_DATA")
def test_on_labelled_answers() -> None:
    assert LABELLED is not None
    rows = [json.loads(line) for line in LABELLED.read_text("utf-8").splitlines()]
    labelled = [(row["answer"], row["labels"]["dont_know"]) for row in rows]
    labelled = [(answer, label) for answer, label in labelled if label is not None]
    assert len(labelled) == 239
    for rule, precision, recall in ((refuses, 0.98, 0.94), (holds_phrase, 0.28, 0.52)):
        found = [label for answer, label in labelled if rule(answer)]
        assert sum(found) / len(found) >= precision
        assert sum(found) / sum(label for _, label in labelled) >= recall


@pytest.mark.parametrize(
    "answer", ["I don't know.", "Die Antwort ist nicht bekannt.", "No se sabe."]
)
def test_a_refusal_says_nothing_of_retrieval(answer: str) -> None:
    sample = Sample(question="When did it open?", contexts=["It has three doors."], answer=answer)  # type: ignore[arg-type]
    names = ("ragas.context_precision", "ragas.context_precision_without_reference")
    with RagEval(names, embedder="none") as evals:
        refused = evals.evaluate(sample)
        judged = evals.evaluate(replace(sample, reference="It opened in 1990."))
    assert [refused[name].cause for name in names] == [Cause.UNDEFINED] * 2  # type: ignore[union-attr]
    assert isinstance(judged[names[0]], Score)
