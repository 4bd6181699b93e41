"""Sentences and claims as words, values, names, and the words that limit what they claim."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from typing import Final, TypeAlias

from rag_eval_hooks.text.folding import fold, folded_tokens, is_content, stem, word_set
from rag_eval_hooks.text.key_terms import phrases
from rag_eval_hooks.text.languages import function_words, language
from rag_eval_hooks.text.measures import Measure, measures
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.short_cache import cache_short

__all__ = [
    "BREAK",
    "BREAKS",
    "LEXICONS",
    "PLACEHOLDER",
    "VALUE",
    "Claim",
    "Item",
    "Lexicon",
    "Sentence",
    "term_of",
    "terms",
]

Item: TypeAlias = "str | Measure"
"""A word, a value, or a break: `,`, `;`, or `&` for "and"."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words of one language that a claim and a sentence may differ in, or must not."""

    joints: frozenset[str]
    denials: frozenset[str]
    free: frozenset[str]
    weak: frozenset[str]
    conditions: frozenset[str]
    limiting: frozenset[str]
    contrasts: frozenset[str]
    behind: frozenset[str]


_DENYING: Final = word_set(
    "non nao niet geen inte ikke ingen nem nie ne нет не ни لا لم لن ليس ليست بدون غير"
)
"""Negations of languages without word lists."""


def _lexicon(lists: Mapping[str, str]) -> Lexicon:
    words = {kind: word_set(listed) for kind, listed in lists.items()}
    restricting = words.pop("restricting")
    words["denials"] |= _DENYING
    words["limiting"] |= restricting
    words["behind"] |= restricting
    return Lexicon(**words)


LEXICONS: Final = {
    code: _lexicon(words)
    for code, words in tomllib.loads(
        files("rag_eval_hooks.judges.heuristic").joinpath("words.toml").read_text("utf-8")
    ).items()
}
_NONE: Final = frozenset[str]()
LEXICONS[""] = Lexicon(_NONE, _DENYING, *[_NONE] * 6)
"""By code of the language, the empty one for all others."""
_COUNT_WORDS: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8",
    "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
}  # fmt: skip
BREAKS: Final = (",", ";", "&")
VALUE: Final = "#"
"""Stands for every value among words."""
BREAK: Final = re.compile(r"[,;:()\u2013\u2014\"\u201c\u201d]|\s-\s")
_NEGATED: Final = re.compile(r"(\w)n't\b")
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|https?://[^\s<>()]+")
PLACEHOLDER: Final = re.compile(r"<[A-Z][A-Z_]{0,40}_[0-9]{1,6}>")
"""What redaction leaves of a value: `<EMAIL_1>`."""
_LABEL: Final = re.compile(r"(?:passage|document|source|chunk|context)s? [0-9]+", re.IGNORECASE)
_OPENERS: Final = ".!?:;\"'\u201c\u2018(*-\u2013\u2014"
_BARE: Final = 3  # words; in an answer as short as this a capital means a name


def terms(text: str) -> list[str]:
    """Return stems of the content words of a text, in order."""
    return [term for word in folded_tokens(fold(text)) if (term := term_of(word))]


@cache_short(16_384)
def term_of(word: str) -> str:
    """Return the term of a folded word, empty for a word without content."""
    if not is_content(word):
        return ""
    if word[0].isdigit():
        return word.replace(",", "")
    return _COUNT_WORDS.get(word) or stem(word)


class Sentence:
    """One sentence, taken apart once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: Sequence[str] = folded_tokens(fold(text))
        known = function_words(self.words)
        self.chain = [t for word in self.words if (t := term_of(word)) and word not in known]
        self.terms = frozenset(self.chain)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighboring words."""
        return frozenset(pairwise(self.words))

    @cached_property
    def language(self) -> str | None:
        """Code of its language, None if unknown."""
        return language(self.words)

    @cached_property
    def measures(self) -> Sequence[Measure]:
        """Its quantities, in order."""
        return measures(self.text)

    @cached_property
    def numbers(self) -> frozenset[Number]:
        """Its numbers as values."""
        return frozenset(numbers(self.text))

    @cached_property
    def _items(self) -> dict[str, Sequence[Item]]:
        return {}

    def items(self, code: str) -> Sequence[Item]:
        """Return its words, breaks and values in order, without the free words of a language."""
        if code not in self._items:
            self._items[code] = list(self._made_items(LEXICONS[code]))
        return self._items[code]

    def _made_items(self, lexicon: Lexicon) -> Iterator[Item]:
        at = 0
        for measure in self.measures:
            yield from _words(self.text[at : measure.start], lexicon)
            yield measure
            at = measure.end
        yield from _words(self.text[at:], lexicon)


def _words(text: str, lexicon: Lexicon) -> Iterator[str]:
    at, kept = 0, lexicon.limiting | lexicon.conditions | lexicon.weak | lexicon.denials
    for mark in [*BREAK.finditer(text), None]:
        part = text[at : mark.start() if mark else len(text)]
        for word in folded_tokens(_NEGATED.sub(r"\1 not", fold(part))):
            word = {"cannot": "not", "wo": "will", "ca": "can"}.get(word, word)
            if word in lexicon.joints or word in lexicon.contrasts:
                yield "&"
            elif word in kept:
                yield word
            elif word not in lexicon.free:
                yield term_of(word) or word
        if mark:
            yield "," if mark[0] in ',()"\u201c\u201d' else ";"
            at = mark.end()


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to check."""

    sentence: Sentence
    names: dict[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> Claim:
        """Return the claim of a text."""
        sentence = Sentence(text)
        return cls(sentence, dict(_names(sentence)))


def _names(sentence: Sentence) -> Iterable[tuple[str, frozenset[str]]]:
    text = sentence.text
    short = len(text.split()) <= _BARE
    nouns = not short and sentence.language == "de"
    measured = {word for measure in sentence.measures for word in measure.text.split()}
    for phrase in dict.fromkeys(phrases(text)):
        parts = frozenset(terms(phrase)) & sentence.terms
        if not parts or f"{phrase}:" in text or _LABEL.fullmatch(phrase):
            continue
        if nouns and sum(part.isalpha() for part in parts) == 1:
            continue
        if (len(parts) > 1 or short or not _opens(text, phrase)) and measured.isdisjoint(
            phrase.split()
        ):
            yield phrase, parts
    for address in _ADDRESS.findall(text) if "@" in text or "://" in text else ():
        yield address, frozenset(terms(address)) & sentence.terms
    for value in PLACEHOLDER.findall(text) if "<" in text else ():
        yield value, frozenset(terms(value)) & sentence.terms


def _opens(text: str, word: str) -> bool:
    """Return whether a word may be capitalized only because it comes first."""
    before = text[: text.find(word)].rstrip()
    return not word.isupper() and (not before or before[-1] in _OPENERS)
