"""Chunks split into sentences, and the sentence that covers a claim best."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from rag_eval_hooks.judges.heuristic.sentence import VALUE, Sentence
from rag_eval_hooks.text.folding import language
from rag_eval_hooks.text.key_terms import Searched
from rag_eval_hooks.text.measures import Measure
from rag_eval_hooks.text.sentences import sentences, strip_marker

_TAG: Final = re.compile(r"[\[\u3010](?=[^\[\]\s]{0,80}[0-9._/#:-])[^\[\]\s]{1,80}[\]\u3011]")
_K1, _B = 1.2, 0.75  # usual constants of BM25


class Passage:
    """A text split into sentences, without source tags."""

    def __init__(self, text: str) -> None:
        self.text = text
        bare = (strip_marker(one) for one in sentences(_TAG.sub(" ", text)))
        self.sentences: Sequence[Sentence] = [Sentence(one) for one in bare if one]
        self._by_item: dict[str, defaultdict[str, list[int]]] = {}

    @cached_property
    def index(self) -> Mapping[str, Sequence[int]]:
        index: defaultdict[str, list[int]] = defaultdict(list)
        for at, sentence in enumerate(self.sentences):
            for term in sentence.terms:
                index[term].append(at)
        return dict(index)

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*(one.pairs for one in self.sentences))

    @cached_property
    def words(self) -> Sequence[str]:
        return [word for one in self.sentences for word in one.words]

    @cached_property
    def language(self) -> str | None:
        return language(self.words)

    @cached_property
    def measures(self) -> Sequence[Measure]:
        return [measure for one in self.sentences for measure in one.measures]

    @cached_property
    def searched(self) -> Searched:
        return Searched.of(self.text)

    @cached_property
    def casefolded(self) -> str:
        return "\n".join(one.text.casefold() for one in self.sentences)

    def candidates(self, words: Sequence[str], code: str) -> Sequence[Sentence]:
        """Return the sentences that contain the rarest of some items. `VALUE` matches any value."""
        if code not in self._by_item:
            self._by_item[code] = defaultdict(list)
            for at, sentence in enumerate(self.sentences):
                items = sentence.items(code)
                for word in {VALUE if isinstance(item, Measure) else item for item in items}:
                    self._by_item[code][word].append(at)
        found = (self._by_item[code].get(word, ()) for word in words)
        return [self.sentences[at] for at in min(found, key=len, default=())]

    @cached_property
    def _heads(self) -> frozenset[str]:
        return frozenset(term[:4] for term in self.index if len(term) > 3)

    def has_form(self, term: str) -> bool:
        return term in self.index or (len(term) > 3 and term[:4] in self._heads)


class Chunks(tuple[Passage, ...]):
    """All chunks of a sample, with their shared words and values."""

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset().union(*(passage.pairs for passage in self))

    @cached_property
    def measures(self) -> Sequence[Measure]:
        every = (measure for passage in self for measure in passage.measures)
        return list({(one.text, one.unit, one.dates): one for one in every}.values())

    def bm25(self, wanted: Iterable[str]) -> Sequence[float]:
        """Return each chunk's BM25 score as a fraction of the greatest possible score, 0 to 1."""
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


class Closest(NamedTuple):
    """The sentence of a chunk that covers a claim best, or None if they share no term."""

    score: float
    sentence: Sentence | None

    @property
    def text(self) -> str:
        return self.sentence.text if self.sentence else ""


def closest(wanted: Collection[str], passage: Passage) -> Closest:
    """Return the sentence with most of some distinct terms, and the fraction it contains."""
    held = Counter(at for term in wanted for at in passage.index.get(term, ()))
    if not held:
        return Closest(0.0, None)
    best = max(sorted(held), key=held.__getitem__)
    return Closest(held[best] / len(wanted), passage.sentences[best])
