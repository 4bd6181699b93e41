"""Kinds of question checks, and the evidence of a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rag_eval_hooks.text.keywords import Keyword, Searched
from rag_eval_hooks.text.numbers import Number

__all__ = ["CalculationCheck", "Check", "Evidence", "FactsCheck", "ListCheck"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence that an answer holds a fact: any one of these.

    Attributes:
        words: Words or phrases, found as whole words in any case.
        numbers: Values, found however they are written; the sign and the percent sign count.
        signs: Signs of arithmetic, found between two operands.
    """

    words: tuple[str, ...] = ()
    numbers: tuple[Number, ...] = ()
    signs: tuple[str, ...] = ()

    def stands_in(self, answer: str) -> bool:
        """Return whether the answer holds any of it."""
        searched = Searched.of(answer)
        wanted: tuple[Keyword, ...] = (*self.words, *self.numbers)
        held = any(searched.holds(keyword) for keyword in wanted)
        return held or any(_computes(sign, answer) for sign in self.signs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCheck:
    r"""Which items of the reference's list the answer lists.

    Items are those of Markdown lists, each by its name: the text before a colon or dash. What one
    of the patterns matches is an item too, wherever it stands; a list item that holds such a match
    is known by it alone.

    Attributes:
        question_id: The question.
        patterns: Regular expressions, such as `Rule C-\d+`; case does not matter.
    """

    question_id: str
    patterns: tuple[re.Pattern[str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsCheck:
    """Which facts the answer holds.

    Attributes:
        question_id: The question.
        facts: Evidence by the fact's name.
    """

    question_id: str
    facts: Mapping[str, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalculationCheck:
    """Return whether the answer holds the result of a calculation.

    Attributes:
        question_id: The question.
        facts: Evidence by the fact's name.
        holds: Facts that a correct answer holds.
        lacks: Facts that a correct answer does not hold.
    """

    question_id: str
    facts: Mapping[str, Evidence]
    holds: tuple[str, ...]
    lacks: tuple[str, ...] = ()


Check: TypeAlias = ListCheck | FactsCheck | CalculationCheck


def _computes(sign: str, answer: str) -> bool:
    """Return whether a sign of arithmetic stands between numbers, or alone between words.

    Neither the x of a word nor the asterisk of a Markdown bullet or of bold text computes.
    """
    sign = re.escape(sign)
    between_numbers = rf"[0-9)%]\s?{sign}\s?[-+$\u20ac\u00a3(]*[0-9]"
    between_words = rf"[\w)%][ \t]+{sign}[ \t]+[\w($\u20ac\u00a3]"
    plain = answer.replace("**", "").replace("__", "").replace("`", "")
    return re.search(f"{between_numbers}|{between_words}", plain, re.IGNORECASE) is not None
