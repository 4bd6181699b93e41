"""Sentences and claims as terms, numbers, names and negations."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rag_eval_hooks.judges.local.negations import negations
from rag_eval_hooks.judges.local.terms import term_of, terms, terms_of
from rag_eval_hooks.text.folding import fold, folded_tokens, has_cjk, word_set
from rag_eval_hooks.text.key_terms import Searched, phrases
from rag_eval_hooks.text.languages import function_words, language
from rag_eval_hooks.text.measures import Measure, measures
from rag_eval_hooks.text.numbers import Number, numbers
from rag_eval_hooks.text.sentences import sentences

__all__ = ["Chunks", "Claim", "Passage", "Unit", "as_written", "has_form"]

_GERMAN = word_set(
    "der das ein eine einen einem einer und ist sind wurde wurden hat haben nicht von vom mit im "
    "auf fur den dem des bei nach zu zum zur als auch aus uber sich wird werden"
)
_ENGLISH = word_set("the a an of and is are were has have not with on for at by to it that be")
_WRITTEN = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[^\W_](?:[^\s,;:()\"]*[^\W_])?")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s<>()]*[^\s<>().,;:!?]")
_MAY = re.compile(r"(?<=\w[\s,])May\b|\bMay(?=,? [0-9])")
_LETTER = re.compile(
    r"[A-HJ-Z](?<=[a-z]{3} .)(?:(?<!A)(?![\w'’.])|(?<=A)(?=[ ,.;]+(?:[a-z]+s |$|[,;])))"
)
_LABEL = re.compile(r"(?:passage|document|source|chunk|context)s? [0-9]+", re.IGNORECASE)
_BARE = 3  # words; in an answer as short as this a capital means a name


class Unit:
    """One sentence.

    Attributes:
        text: As written.
        words: Its folded tokens, in order.
        stems: For each word its term, empty for a word without content.
        chain: The terms in order.
        terms: Stems of its content words; numbers are terms too.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.words: Sequence[str] = folded_tokens(fold(text))
        self.stems: Sequence[str] = list(map(term_of, self.words))
        known = function_words(self.words)
        both = zip(self.stems, self.words, strict=True)
        content = [term for term, word in both if term and word not in known]
        self.chain: Sequence[str] = [*content, *_month(text), *_letters(text)]
        self.terms = frozenset(self.chain)

    @cached_property
    def known(self) -> frozenset[str]:
        """Its words."""
        return frozenset(self.words)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """Neighbouring words."""
        return frozenset(pairwise(self.words))

    @cached_property
    def written(self) -> dict[str, str]:
        """For each term the word as written; Chinese, Japanese and Korean terms stay bigrams."""
        found: dict[str, str] = {}
        for word in _WRITTEN.findall(self.text):
            for term in terms(word):
                found.setdefault(term, term if has_cjk(word) else word)
        return found

    @cached_property
    def measures(self) -> Sequence[Measure]:
        """Its quantities, in order."""
        return measures(self.text)

    @cached_property
    def measured(self) -> Sequence[tuple[Measure, Sequence[str]]]:
        """Its quantities with their terms."""
        return [(measure, terms(measure.text)) for measure in self.measures]

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
        return frozenset(Counter(terms_of(self.words)) - reached)

    @cached_property
    def negated(self) -> tuple[frozenset[str], ...]:
        """For each negation, the terms that it reaches."""
        return negations(self.words, self.text)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim to check.

    Attributes:
        unit: The claim as a sentence.
        names: Terms of each address and capitalised phrase, by the phrase as written. None are a
            label before a colon, and a single word that owes its capital to opening the claim or
            to being a German noun.
    """

    unit: Unit
    names: dict[str, frozenset[str]]

    @classmethod
    def of(cls, text: str) -> Claim:
        """Return the claim of a text."""
        unit = Unit(text)
        short = len(text.split()) <= _BARE
        nouns = not short and _is_german(unit.words)
        measured = {word for measure in unit.measures for word in measure.text.split()}
        names = {
            phrase: parts
            for phrase in dict.fromkeys(phrases(text))
            if (parts := frozenset(terms(phrase)) & unit.terms)
            and f"{phrase}:" not in text
            and not _LABEL.fullmatch(phrase)
            and not (nouns and sum(part.isalpha() for part in parts) == 1)
            and (len(parts) > 1 or short or not _opens(text, phrase))
            and measured.isdisjoint(phrase.split())
        }
        if month := _month(text):
            names["May"] = frozenset(month)
        for address in _ADDRESS.findall(text) if "@" in text or "://" in text else ():
            names[address] = frozenset(terms(address)) & unit.terms
        return cls(unit, names)


def _month(text: str) -> list[str]:
    """Return the month of May as a term; the verb, a stop word, never is one."""
    return ["may"] if "May" in text and _MAY.search(text) else []


def _letters(text: str) -> list[str]:
    """Return capital letters that name one of several things, such as A in "model A", as terms."""
    return [f"#{letter}" for letter in _LETTER.findall(text)]


def _is_german(words: Sequence[str]) -> bool:
    """Return whether German function words outnumber English ones."""
    found = frozenset(words)
    return len(found & _GERMAN) > len(found & _ENGLISH)


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
    def measures(self) -> Sequence[tuple[int, Measure]]:
        """All quantities, each behind the number of its sentence."""
        return [(at, measure) for at, unit in enumerate(self.units) for measure in unit.measures]

    @cached_property
    def joined(self) -> str:
        """Its terms, each behind a space."""
        return " " + " ".join(self.index)

    @cached_property
    def language(self) -> str | None:
        """Code of its language, None if unknown."""
        return language([word for unit in self.units for word in unit.words])

    @cached_property
    def numbers(self) -> frozenset[Number]:
        """All numbers of the text."""
        return frozenset().union(*(unit.numbers for unit in self.units))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """Neighbouring words of its sentences."""
        return frozenset().union(*(unit.pairs for unit in self.units))

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


class Chunks(tuple[Passage, ...]):
    """All chunks of a sample, with what claims are compared with in all of them at once."""

    @cached_property
    def counts(self) -> Counter[str]:
        """For each term the number of sentences that hold it."""
        counts: Counter[str] = Counter()
        for passage in self:
            counts.update({term: len(at) for term, at in passage.index.items()})
        return counts

    @cached_property
    def pairs(self) -> frozenset[tuple[str, ...]]:
        """Neighbouring words of all sentences."""
        return frozenset().union(*(passage.pairs for passage in self))

    @cached_property
    def measures(self) -> Sequence[Measure]:
        """All quantities."""
        return [measure for passage in self for _, measure in passage.measures]


def has_form(passage: Passage, part: str) -> bool:
    """Return whether a passage has a term, or a long word with another ending."""
    if part in passage.index:
        return True
    return len(part) > 4 and any(
        abs(len(other) - len(part)) <= 3 and (other.startswith(part) or part.startswith(other))
        for other in passage.index
        if len(other) > 4
    )


def as_written(wanted: Collection[str], *units: Unit) -> str:
    """Return terms as a readable list, written and ordered as in the first unit that holds them."""
    words: dict[str, str] = {}
    for unit in units:
        for term, word in unit.written.items():
            if term in wanted:
                words.setdefault(term, word)
    return ", ".join(dict.fromkeys([*words.values(), *sorted(set(wanted) - words.keys())]))
