"""Facts of an answer that no document states show which texts it used."""

from __future__ import annotations

import pytest

from rag_eval_hooks.capture.contexts.unsaid import Unsaid
from tests.support.variation import Variation, seeds

DOCUMENTS = ["The clock museum opens at ten from Tuesday to Sunday; tours start at noon."]


def said(answer: str, text: str, question: str = "When does it open?") -> bool:
    return Unsaid(answer, question, DOCUMENTS).is_in([text])


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("310 crowns", "{'kind': 'season', 'price': 310, 'currency': 'crowns'}"),
        ("It opens at ten, and a season ticket costs 310 crowns.", "season | 310 | crowns"),
        ("About 1,250,000 people came last year.", "visitors: 1250000"),
        ("The season ticket costs 12.50.", "12.5 per season"),
        ("Delhi", "head office: Delhi"),
        ("季票的价格是310克朗。", "{'种类': '季票', '价格': 310, '货币': '克朗'}"),
        ("It is closed for repairs of the roof until May.", "closed for repairs of the roof"),
    ],
)
def test_facts_that_only_a_text_has_are_known(answer: str, text: str) -> None:
    """By most words, by a few runs of words, or by numbers however they are written."""
    assert said(answer, text)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("It opens at ten from Tuesday to Sunday.", "Say what it is and when, and mention both."),
        ("It opens at ten [1]; tours start at noon [2].", "Cite passages as [1] and [2]."),
        ("The museum opens at ten.", "The pool opens at 06:30."),
        ("It opens at ten, as we said before, dear friend.", "You are a friend of all guests."),
        ("Tours start at noon.", "Tours start at noon."),
        ("", "anything at all"),
        ("It opens at ten.", ""),
    ],
)
def test_turns_of_phrase_are_no_facts(answer: str, text: str) -> None:
    """Words of grammar, markers of sources, and what documents say tell nothing of a text."""
    assert not said(answer, text)


@pytest.mark.parametrize("seed", seeds(9))
def test_a_number_of_the_question_is_nobodys_find(seed: int) -> None:
    """An answer that repeats a number of the user shows no source of it."""
    drawn = Variation(seed)
    number = drawn.chance.randint(1000, 9999)
    answer = f"{drawn.sentence(8)} {number}"
    assert not said(answer, str(number), f"{drawn.sentence(5)} {number}?")
    assert said(answer, f"{number} {drawn.name()}") is True


@pytest.mark.parametrize("seed", seeds(9))
def test_half_of_the_words_are_enough_and_one_of_several_is_not(seed: int) -> None:
    """One word that an answer shares with a text may be a turn of phrase."""
    drawn = Variation(seed)
    words = [drawn.name() for _ in range(4)]
    assert said(" ".join(words), " ".join(words[:2]))
    assert not said(" ".join(words[:2]), words[0])
    assert said(words[0], words[0])
