"""Chunks as sentences, in which claims are looked up, and the windows that cover a claim best."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import mul
from typing import Final

from rag_eval_hooks.judges.base import Embedder
from rag_eval_hooks.judges.heuristic.sentence import VALUE, Sentence
from rag_eval_hooks.judges.heuristic.values import Derived
from rag_eval_hooks.text.key_terms import Searched
from rag_eval_hooks.text.languages import language
from rag_eval_hooks.text.measures import Measure
from rag_eval_hooks.text.numbers import Number
from rag_eval_hooks.text.sentences import sentences, strip_marker

__all__ = ["NO_VECTORS", "Chunks", "Passage", "Vectors", "Window", "best_window"]

_TAG: Final = re.compile(r"[\[\u3010](?=[^\[\]\s]{0,80}[0-9._/#:-])[^\[\]\s]{1,80}[\]\u3011]")
_SPAN: Final = 3  # sentences in the longest window
_DISCOUNT: Final = 0.95  # factor on the coverage for each sentence of a window after the first
_K1, _B = 1.2, 0.75  # usual constants of BM25


class Passage:
    """A text as the sentences in which claims are looked up, without tags of sources."""

    def __init__(self, text: str) -> None:
        bare = (strip_marker(one) for one in sentences(_TAG.sub(" ", text)))
        self.sentences: Sequence[Sentence] = [Sentence(one) for one in bare if one]

    @cached_property
    def index(self) -> Mapping[str, Sequence[int]]:
        """For each term the sentences that hold it, ascending."""
        index: defaultdict[str, list[int]] = defaultdict(list)
        for at, sentence in enumerate(self.sentences):
            for term in sentence.terms:
                index[term].append(at)
        return dict(index)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighboring words of its sentences."""
        return frozenset().union(*(one.pairs for one in self.sentences))

    @cached_property
    def words(self) -> Sequence[str]:
        """All folded words."""
        return [word for one in self.sentences for word in one.words]

    @cached_property
    def language(self) -> str | None:
        """Code of its language, None if unknown."""
        return language(self.words)

    @cached_property
    def measures(self) -> Sequence[Measure]:
        """All quantities."""
        return [measure for one in self.sentences for measure in one.measures]

    @cached_property
    def numbers(self) -> frozenset[Number]:
        """All numbers as values."""
        return frozenset(number for one in self.sentences for number in one.numbers)

    @cached_property
    def searched(self) -> Searched:
        """The text, ready to be searched for entities."""
        return Searched(self.words, self.numbers)

    @cached_property
    def casefolded(self) -> str:
        """The text of its sentences without case."""
        return "\n".join(one.text.casefold() for one in self.sentences)

    @cached_property
    def _holding(self) -> dict[str, Mapping[str, Sequence[int]]]:
        return {}

    def holding(self, anchors: Sequence[frozenset[str]], code: str) -> Sequence[Sentence]:
        """Return the sentences with a word of the rarest anchor, in order."""
        if code not in self._holding:
            self._holding[code] = self._by_item(code)
        by_item = self._holding[code]
        found = [[at for word in anchor for at in by_item.get(word, ())] for anchor in anchors]
        rarest = min(found, key=len)
        return [self.sentences[at] for at in sorted(set(rarest))]

    def _by_item(self, code: str) -> Mapping[str, Sequence[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at, sentence in enumerate(self.sentences):
            items = sentence.items(code)
            for word in {VALUE if isinstance(item, Measure) else item for item in items}:
                found[word].append(at)
        return dict(found)

    @cached_property
    def heads(self) -> frozenset[str]:
        """The first four letters of its longer terms."""
        return frozenset(term[:4] for term in self.index if len(term) > 3)

    def has_form(self, term: str) -> bool:
        """Return whether the text has a term, or one that begins like it."""
        return term in self.index or (len(term) > 3 and term[:4] in self.heads)

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
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Neighboring words of all sentences."""
        return frozenset().union(*(passage.pairs for passage in self))

    @cached_property
    def measures(self) -> Sequence[Measure]:
        """All distinct quantities."""
        every = (measure for passage in self for measure in passage.measures)
        return list({(one.text, one.unit, one.dates): one for one in every}.values())

    @cached_property
    def derived(self) -> Derived:
        """The values that follow from its quantities."""
        return Derived(self.measures)

    @cached_property
    def values(self) -> frozenset[float]:
        """The numbers of all quantities as written."""
        return frozenset(measure.number for measure in self.measures)

    def bm25(self, wanted: Iterable[str]) -> Sequence[float]:
        """Return the part of the greatest possible BM25 score that each chunk reaches, 0 to 1."""
        weight = {}
        for term in dict.fromkeys(wanted):
            holding = sum(term in passage.index for passage in self)
            weight[term] = math.log(1 + (len(self) - holding + 0.5) / (holding + 0.5))
        best = sum(weight.values()) * (_K1 + 1)
        mean = sum(len(p.words) for p in self) / (len(self) or 1) or 1.0
        return [self._score(passage, weight, mean) / best if best else 0.0 for passage in self]

    def _score(self, passage: Passage, weight: Mapping[str, float], mean: float) -> float:
        norm = _K1 * (1 - _B + _B * len(passage.words) / mean)
        found = ((len(passage.index.get(term, ())), w) for term, w in weight.items())
        return sum(w * n * (_K1 + 1) / (n + norm) for n, w in found)


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive sentences of a chunk that cover a claim best."""

    score: float
    held: frozenset[str]
    sentences: Sequence[Sentence]

    def closest(self) -> Sentence:
        """Return the sentence that holds most of the window's terms."""
        return max(self.sentences, key=lambda one: len(one.terms & self.held))


_NOTHING: Final = Window(0.0, frozenset(), ())


def best_window(weight: Mapping[str, float], passage: Passage) -> Window:
    """Return the window of one to three sentences that covers the weighted terms best."""
    hits: defaultdict[int, list[str]] = defaultdict(list)
    for term in weight:
        for at in passage.index.get(term, ()):
            hits[at].append(term)
    best, where = 0.0, (0, 0)
    for start in sorted(hits):
        held: set[str] = set()
        for size in range(_SPAN):
            held.update(hits.get(start + size, ()))
            covered = math.fsum(weight[term] for term in held) * _DISCOUNT**size
            if covered > best:
                best, where = covered, (start, start + size + 1)
    if not best:
        return _NOTHING
    found = passage.sentences[slice(*where)]
    stated = frozenset(weight).intersection(chain.from_iterable(one.terms for one in found))
    return Window(best / sum(weight.values()), stated, found)


class Vectors:
    """Normalized vectors by text; a text without one has no cosine."""

    def __init__(self, by_text: Mapping[str, Sequence[float]]) -> None:
        self._by_text = by_text

    @classmethod
    async def of(cls, embedder: Embedder, texts: Iterable[str]) -> Vectors:
        """Return the vectors of the distinct texts, from one call.

        Raises:
            JudgeError: The embedder failed.
        """
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return NO_VECTORS
        vectors = await embedder.embed(distinct)
        return cls(dict(zip(distinct, map(_normalized, vectors), strict=True)))

    def best(self, text: str, passage: Passage) -> float | None:
        """Return the greatest cosine of the text and a sentence of the passage, in [-1, 1]."""
        vector = self._by_text.get(text)
        if vector is None:
            return None
        others = (self._by_text.get(one.text) for one in passage.sentences)
        return max((sum(map(mul, vector, other)) for other in others if other), default=None)


def _normalized(vector: Sequence[float]) -> Sequence[float]:
    length = math.sqrt(sum(map(mul, vector, vector)))
    return [value / length for value in vector] if length else vector


NO_VECTORS: Final = Vectors({})
