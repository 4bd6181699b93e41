"""Splits chunks into sentences, and finds the sentence that covers a claim best."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from rag_eval_hooks.text.folding import (
    cache_short,
    fold,
    folded_tokens,
    is_content,
    language,
    stem,
    toml_of,
    word_set,
)
from rag_eval_hooks.text.key_terms import Searched, phrases
from rag_eval_hooks.text.measures import Measure, measures
from rag_eval_hooks.text.sentences import sentences, strip_marker

Item: TypeAlias = "str | Measure"  # a word, a value, a break, or `!` for a negation


class Lexicon(NamedTuple):
    joints: frozenset[str] = frozenset()
    denials: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    limiting: frozenset[str] = frozenset()


LEXICONS: Final = {
    code: Lexicon(**{kind: word_set(words) for kind, words in lists.items()})
    for code, lists in toml_of("words.toml", __package__).items()
}
BREAKS: Final = (",", ";", "&")
DENIAL: Final = "!"


def _items_by_word(lexicon: Lexicon) -> dict[str, str]:
    kept = lexicon.limiting | lexicon.conditions | lexicon.weak
    items = dict.fromkeys(lexicon.free, "") | {word: word for word in kept}
    items |= dict.fromkeys(lexicon.denials | LEXICONS[""].denials, DENIAL)
    return items | dict.fromkeys(lexicon.joints, "&")


_ITEMS: Final = {code: _items_by_word(lexicon) for code, lexicon in LEXICONS.items()}
VALUE: Final = "#"  # represents any `Measure`
BREAK: Final = re.compile(r"[,;:()\u2013\u2014\"\u201c\u201d]|\s-\s")
_NEGATED: Final = re.compile(r"(\w)n't\b")
_WHOLE: Final = {"cannot": "not", "wo": "will", "ca": "can"}
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|https?://[^\s<>()]+")
PLACEHOLDER: Final = re.compile(r"<[A-Z][A-Z_]{0,40}_[0-9]{1,6}>")  # a placeholder of redaction
_LABEL: Final = re.compile(r"(?:passage|document|source|chunk|context)s? [0-9]+", re.IGNORECASE)
_OPENERS: Final = ".!?:;\"'\u201c\u2018(*-\u2013\u2014"
_BARE: Final = 3  # words; in a text up to this length, a capital letter marks a name


def terms(text: str) -> list[str]:
    return [term for word in folded_tokens(fold(text)) if (term := _term_of(word))]


@cache_short(16_384)
def _term_of(word: str) -> str:
    if not is_content(word):
        return ""
    return word.replace(",", "") if word[0].isdigit() else stem(word)


def is_small(item: Item) -> bool:
    return isinstance(item, str) and item not in BREAKS and not is_content(item)


def starts(kinds: Iterable[str]) -> list[str]:
    words = [kind for kind in kinds if len(kind) > 2 and kind.isalpha()]
    # A sentence may contain "will" as "won't", which starts with other letters.
    return [word[:3] for word in words if word not in _WHOLE.values()]


class Sentence:
    def __init__(self, text: str) -> None:
        self.text = text
        self.words: Sequence[str] = folded_tokens(fold(text))
        self.chain = [term for word in self.words if (term := _term_of(word))]
        self.terms = frozenset(self.chain)
        self._items: dict[str, Sequence[Item]] = {}
        self._kinds: dict[str, frozenset[str]] = {}

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset(pairwise(self.words))

    @cached_property
    def language(self) -> str | None:
        return language(self.words)

    @cached_property
    def measures(self) -> Sequence[Measure]:
        return measures(self.text)

    @cached_property
    def names(self) -> dict[str, frozenset[str]]:
        found = [*self._capitalized(), *_ADDRESS.findall(self.text)]
        found += PLACEHOLDER.findall(self.text)
        return {name: frozenset(terms(name)) & self.terms for name in found}

    @cached_property
    def named(self) -> frozenset[str]:
        return frozenset[str]().union(*self.names.values())

    def items(self, code: str) -> Sequence[Item]:
        if code not in self._items:
            at, found = 0, list[Item]()
            for measure in self.measures:
                found += [*_words(self.text[at : measure.start], _ITEMS[code]), measure]
                at = measure.end
            self._items[code] = [*found, *_words(self.text[at:], _ITEMS[code])]
        return self._items[code]

    @cached_property
    def joined(self) -> str:
        return " ".join(self.words)

    def kinds(self, code: str) -> frozenset[str]:
        if code not in self._kinds:
            kinds = (VALUE if isinstance(one, Measure) else one for one in self.items(code))
            self._kinds[code] = frozenset(kinds)
        return self._kinds[code]

    def _capitalized(self) -> Iterator[str]:
        short = len(self.text.split()) <= _BARE
        nouns = not short and self.language == "de"
        for phrase in phrases(self.text):
            parts = frozenset(terms(phrase)) & self.terms
            if not parts or f"{phrase}:" in self.text or _LABEL.fullmatch(phrase):
                continue
            if nouns and sum(part.isalpha() for part in parts) == 1:
                continue
            if len(parts) > 1 or short or not _opens(self.text, phrase):
                yield phrase


def _opens(text: str, word: str) -> bool:
    before = text[: text.find(word)].rstrip()
    return not word.isupper() and (not before or before[-1] in _OPENERS)


def _words(text: str, items: Mapping[str, str]) -> Iterator[str]:
    at = 0
    for mark in [*BREAK.finditer(text), None]:
        part = fold(text[at : mark.start() if mark else len(text)])
        for word in folded_tokens(_NEGATED.sub(r"\1 not", part) if "n't" in part else part):
            word = _WHOLE.get(word, word)
            item = items.get(word)
            if item is None:
                item = _term_of(word) or word
            if item:
                yield item
        if mark:
            yield "," if mark[0] in ',()"\u201c\u201d' else ";"
            at = mark.end()


_TAG: Final = re.compile(r"[\[\u3010](?=[^\[\]\s]{0,80}[0-9._/#:-])[^\[\]\s]{1,80}[\]\u3011]")
_K1, _B = 1.2, 0.75  # usual constants of BM25


class SplitText:
    def __init__(self, text: str) -> None:
        self.text = text
        bare = (strip_marker(one) for one in sentences(_TAG.sub(" ", text)))
        self.sentences: Sequence[Sentence] = [Sentence(one) for one in bare if one]
        self.words = [word for one in self.sentences for word in one.words]
        self.language = language(self.words)
        self.index: dict[str, list[int]] = {}
        for at, sentence in enumerate(self.sentences):
            for term in sentence.terms:
                self.index.setdefault(term, []).append(at)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*(one.pairs for one in self.sentences))

    @cached_property
    def measures(self) -> Sequence[Measure]:
        return [measure for one in self.sentences for measure in one.measures]

    @cached_property
    def holds_entity(self) -> Callable[[str], bool]:
        return Searched.of(self.text).holds_entity

    @cached_property
    def casefolded(self) -> str:
        return "\n".join(one.text.casefold() for one in self.sentences)

    @cached_property
    def _heads(self) -> frozenset[str]:
        return frozenset(term[:4] for term in self.index if len(term) > 3)

    def has_form(self, term: str) -> bool:
        return term in self.index or (len(term) > 3 and term[:4] in self._heads)


class Chunks(tuple[SplitText, ...]):
    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*(passage.pairs for passage in self))

    @cached_property
    def measures(self) -> Sequence[Measure]:
        every = (measure for passage in self for measure in passage.measures)
        return list({(one.text, one.unit, one.dates): one for one in every}.values())

    def bm25(self, wanted: Iterable[str]) -> Sequence[float]:
        """Return the BM25 score of each chunk for the terms in `wanted`, scaled to [0, 1]."""
        weight, scores = dict[str, float](), list[float]()
        for term in dict.fromkeys(wanted):
            holding = sum(term in passage.index for passage in self)
            weight[term] = math.log(1 + (len(self) - holding + 0.5) / (holding + 0.5))
        best = sum(weight.values()) * (_K1 + 1)
        mean = sum(len(p.words) for p in self) / (len(self) or 1) or 1.0
        for passage in self:
            norm = _K1 * (1 - _B + _B * len(passage.words) / mean)
            found = ((len(passage.index.get(term, ())), w) for term, w in weight.items())
            score = sum(w * n * (_K1 + 1) / (n + norm) for n, w in found)
            scores.append(score / best if best else 0.0)
        return scores


class Closest(NamedTuple):
    score: float  # share of the claim's terms that the sentence contains
    sentence: Sentence | None  # None if no sentence contains a term of the claim

    @property
    def text(self) -> str:
        return self.sentence.text if self.sentence else ""


def closest(wanted: Collection[str], passage: SplitText) -> Closest:
    held = Counter(at for term in wanted for at in passage.index.get(term, ()))
    if not held:
        return Closest(0.0, None)
    best = max(sorted(held), key=held.__getitem__)
    return Closest(held[best] / len(wanted), passage.sentences[best])
