"""Sentences and claims as terms, numbers, names and negations."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from rag_eval_hooks.text.folding import fold, folded_tokens, has_cjk, is_content, stem, word_set
from rag_eval_hooks.text.key_terms import Searched, phrases
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.sentences import sentences

__all__ = ["Claim", "Passage", "Unit", "as_written", "terms"]

_COUNT_WORDS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30",
    "forty": "40", "fifty": "50", "hundred": "100",
}  # fmt: skip
_NOT_BEFORE = word_set(
    "no not never cannot avoid avoids avoiding "
    "without neither nor none nothing nobody nowhere unable lack lacks "
    "nicht kein keine keinen keinem keiner nie niemals ohne weder "
    "لا لم لن ليس ليست غير بدون "
    "ne pas jamais sans нет не ни без"
)
_NOT_BEFORE_CJK = frozenset("不没沒未無无")
_NOT_AFTER = frozenset(("ない", "せん", "なか", "않다", "않는", "없다", "없는", "아니"))
_NOT_MEANT = frozenset(("only", "just", "merely", "nur", "less", "doubt", "matter"))
_GERMAN = word_set(
    "der das ein eine einen einem einer und ist sind wurde wurden hat haben nicht von vom mit im "
    "auf fur den dem des bei nach zu zum zur als auch aus uber sich wird werden"
)
_ENGLISH = word_set("the a an of and is are were has have not with on for at by to it that be")
_WRITTEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W_](?:[^\s,;:()\"]*[^\W_])?")
_OPEN_BEFORE = frozenset(("or", "may", "might"))
_IF = frozenset(("if", "unless", "whether", "wenn", "falls", "ob"))
_MAY = re.compile(r"(?<=\w[\s,])May\b|\bMay(?=,? [0-9])")
_BARE = 3  # words; in an answer as short as this a capital means a name
_SCOPE = 2  # content words that a negation reaches


class Unit:
    """One sentence.

    Attributes:
        text: As written.
        words: Its folded tokens, in order.
        terms: Stems of its content words; numbers are terms too.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: Sequence[str] = folded_tokens(fold(text))
        self.terms = frozenset([*_terms(self.words), *_month(text)])

    @cached_property
    def written(self) -> dict[str, str]:
        """For each term the word as written; Chinese, Japanese and Korean terms stay bigrams."""
        found: dict[str, str] = {}
        for word in _WRITTEN.findall(self.text):
            for term in terms(word):
                found.setdefault(term, term if has_cjk(word) else word)
        return found

    @cached_property
    def numbers(self) -> frozenset[Number]:
        """Its numbers as values."""
        return frozenset(numbers(self.text))

    @cached_property
    def denied(self) -> frozenset[str]:
        """All terms that its negations reach."""
        return frozenset().union(*self.negated)

    @cached_property
    def affirmed(self) -> frozenset[str]:
        """The terms that stand outside the reach of every negation, there at least."""
        reached = Counter(term for scope in self.negated for term in scope)
        return frozenset(Counter(_terms(self.words)) - reached)

    @cached_property
    def negated(self) -> tuple[frozenset[str], ...]:
        """For each negation, the terms that it reaches."""
        return _negations(self.words, self.text)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to check.

    Attributes:
        unit: The claim as a sentence.
        names: Terms of each capitalised phrase, by the phrase as written. None are a label
            before a colon, and a single word that owes its capital to opening the claim or to
            being a German noun.
    """

    unit: Unit
    names: dict[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> Claim:
        """Return the claim of a text."""
        unit = Unit(text)
        short = len(text.split()) <= _BARE
        nouns = not short and _is_german(unit.words)
        names = {
            phrase: frozenset(terms(phrase))
            for phrase in dict.fromkeys(phrases(text))
            if f"{phrase}:" not in text
            and not (nouns and _is_one_word(phrase))
            and (" " in phrase or short or not _opens(text, phrase))
        }
        if month := _month(text):
            names["May"] = frozenset(month)
        return cls(unit, names)


def _month(text: str) -> list[str]:
    """Return the month of May as a term; the verb, a stop word, never is one."""
    return ["may"] if "May" in text and _MAY.search(text) else []


def _is_german(words: Sequence[str]) -> bool:
    """Return whether German function words outnumber English ones."""
    found = frozenset(words)
    return len(found & _GERMAN) > len(found & _ENGLISH)


def _is_one_word(phrase: str) -> bool:
    return sum(not part.isdecimal() for part in phrase.split()) == 1


def _opens(text: str, word: str) -> bool:
    """Return whether a word may be capitalised only because it comes first."""
    before = text[: text.find(word)].rstrip()
    return not word.isupper() and (not before or before[-1] in ".!?:;\"'“‘(*-–—")


class Passage:
    """A text as the sentences in which claims are looked up."""

    def __init__(self, text: str) -> None:
        self.units: Sequence[Unit] = [Unit(sentence) for sentence in sentences(text)]

    @cached_property
    def index(self) -> dict[str, list[int]]:
        """For each term the sentences that hold it, ascending."""
        index: defaultdict[str, list[int]] = defaultdict(list)
        for at, unit in enumerate(self.units):
            for term in unit.terms:
                index[term].append(at)
        return index

    @cached_property
    def numbers(self) -> frozenset[Number]:
        """All numbers of the text."""
        return frozenset().union(*(unit.numbers for unit in self.units))

    @cached_property
    def denied(self) -> frozenset[str]:
        """All terms that some negation reaches."""
        return frozenset().union(*(unit.denied for unit in self.units))

    @cached_property
    def searched(self) -> Searched:
        """The text, ready to be searched for entities."""
        return Searched([word for unit in self.units for word in unit.words], self.numbers)

    def has_number(self, number: Number) -> bool:
        """Return whether the text states the value, in digits or as a word."""
        return number in self.numbers or (not number.percent and str(number) in self.index)


def as_written(wanted: Collection[str], *units: Unit) -> str:
    """Return terms as a readable list, written and ordered as in the first unit that holds them."""
    words: dict[str, str] = {}
    for unit in units:
        for term, word in unit.written.items():
            if term in wanted:
                words.setdefault(term, word)
    return ", ".join(dict.fromkeys([*words.values(), *sorted(set(wanted) - words.keys())]))


def terms(text: str) -> list[str]:
    """Return stems of the content words of a text, in order."""
    return _terms(folded_tokens(fold(text)))


def _terms(words: Iterable[str]) -> list[str]:
    return [term for word in words if (term := _term(word))]


@lru_cache(maxsize=16_384)
def _term(word: str) -> str:
    """Return the term of a word, empty for a word without content."""
    if not is_content(word):
        return ""
    if word[0].isdigit():
        return word.replace(",", "")
    return _COUNT_WORDS.get(word) or stem(word)


def _negations(words: Sequence[str], text: str) -> tuple[frozenset[str], ...]:
    if _NOT_BEFORE.isdisjoint(words) and text.isascii() and "n't" not in text:
        return ()
    found = []
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if following in _NOT_MEANT or following.isdigit() or _is_open(words, at):
            continue
        if word in _NOT_BEFORE or word.endswith("n't") or word[0] in _NOT_BEFORE_CJK:
            if at or not text[:4].casefold().startswith("no,"):
                found.append(_reached(words[at + 1 : at + 8]))
        elif word in _NOT_AFTER:
            found.append(_reached(words[max(0, at - 4) : at][::-1]))
    return tuple(scope for scope in found if scope)


def _is_open(words: Sequence[str], at: int) -> bool:
    """Return whether a negation denies nothing: "may or may not", "if you do not"."""
    return not _OPEN_BEFORE.isdisjoint(words[max(0, at - 1) : at]) or not _IF.isdisjoint(
        words[max(0, at - 3) : at]
    )


def _reached(words: Sequence[str]) -> frozenset[str]:
    return frozenset(_terms(words)[:_SCOPE])
