"""Finds retrieved texts in prompts, and the positions of these texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.capture.text_forms import (
    contains_word,
    fold,
    is_distinctive,
    run_offsets,
    runs_of,
)
from rag_eval_hooks.sample import Context

DOCUMENT_ORIGINS = (Origin.DOCUMENTS, Origin.GIVEN, Origin.SOURCES, Origin.STATED)
MIN_RUNS = 3
"""Minimum number of unique word sequences that identify a text."""
_MIN_METADATA = 40
"""Minimum number of characters of a metadata text that identifies its document."""
_FEW = 16
"""Maximum number of texts to search for in a prompt before indexing the prompt."""
_GAP = 200
"""Maximum number of characters between two passages that a prompt shows one after another."""
_KEY_WORDS = 3
"""Number of words per index key."""


class Passage:
    def __init__(self, found: DocumentList, context: Context, form: str | None = None) -> None:
        self.found = found
        self.context = context
        self._form = form
        self.folded = fold(context.text) or fold(form or "")
        self.is_distinctive = is_distinctive(self.folded)
        self.forms = self._forms()

    def _forms(self) -> list[tuple[Context, str]]:
        """Return the forms in which a prompt may show the passage. Complete forms come first."""
        values = self.context.metadata.values()
        others = [v for v in values if isinstance(v, str) and len(v) >= _MIN_METADATA]
        others[:0] = [] if self._form is None else [self._form]
        own = (self.context, self.folded)
        if not others:
            return [own]
        forms = [(replace(self.context, text=text), fold(text)) for text in others]
        return sorted([*forms, own], key=lambda one: self.folded not in one[1])

    @cached_property
    def runs(self) -> set[str]:
        return runs_of(self.folded)


class Location(NamedTuple):
    prompt: int
    start: int
    end: int
    context: Context
    whole: bool = True


Placed: TypeAlias = dict[Passage, Location]


class Prompts:
    def __init__(
        self, texts: Sequence[str], question: str = "", queries: Iterable[str] = ()
    ) -> None:
        self.texts = texts
        starts = [text.rfind(question) if question else -1 for text in texts]
        self._asked = [(at, at + len(question)) if at >= 0 else (-1, -1) for at in starts]
        self._query_runs = {run for query in (question, *queries) for run in runs_of(query)}
        self._has_many = False
        # for each prompt, the end of the passage that was found last
        self._ends = [0] * len(texts)
        self._searches = [0] * len(texts)
        self._keys: dict[int, dict[tuple[str, ...], int]] = {}

    def place(self, passages: Sequence[Passage]) -> Placed:
        self._has_many, self._ends = len(passages) > _FEW, [0] * len(self.texts)
        placed = {p: place for p in passages if (place := self._whole(p)) is not None}
        self._add_parts(placed, passages)
        self._add_short(placed, passages)
        return _outermost(placed)

    def _whole(self, p: Passage) -> Location | None:
        places = (
            Location(number, at, at + len(text), context)
            for number in range(len(self.texts))
            for context, text in p.forms
            if is_distinctive(text) and (at := self._find(number, text)) >= 0
        )
        return next(places, None)

    def _find(self, number: int, text: str) -> int:
        first, (asked, end) = self._first(number, text), self._asked[number]
        if first < 0 or first >= end:
            return first
        behind = self.texts[number].find(text, end)
        # A document may contain the question.
        is_within = asked <= first and first + len(text) <= end
        return first if behind < 0 and not is_within else behind

    def _first(self, number: int, text: str) -> int:
        prompt, words = self.texts[number], text.split(" ", _KEY_WORDS + 1)
        if not self._has_many or len(words) < _KEY_WORDS + 2:
            return prompt.find(text)
        # Most prompts show the passages one after another.
        end = self._ends[number]
        at = prompt.find(text, end, end + len(text) + _GAP)
        if at < 0:
            at = self._search(number, text, words)
        if at >= 0:
            self._ends[number] = at + len(text)
        return at

    def _search(self, number: int, text: str, words: Sequence[str]) -> int:
        self._searches[number] += 1
        if self._searches[number] <= _FEW:
            return self.texts[number].find(text)
        if number not in self._keys:
            self._keys[number] = _word_index(self.texts[number])
        at = self._keys[number].get(tuple(words[1:-1]), -1)
        return -1 if at < 0 else self.texts[number].find(text, max(0, at - len(words[0]) - 1))

    def _add_parts(self, placed: Placed, passages: Sequence[Passage]) -> None:
        looked_for = [
            p for p in passages if (placed[p].prompt if p in placed else p.is_distinctive)
        ]
        if not looked_for:
            return
        free = [run_offsets(rest) for rest in self._rests(placed)]
        owners = Counter(run for p in passages for run in p.runs)
        for p in looked_for:
            own = {run for run in p.runs if owners[run] == 1} - self._query_runs
            for number in range(len(free)) if p not in placed else (0,):
                hits = {run: free[number][run] for run in own.intersection(free[number])}
                if hits and len(hits) >= min(MIN_RUNS, len(own)):
                    end = max(start + len(run) for run, start in hits.items())
                    placed[p] = Location(number, min(hits.values()), end, p.context, whole=False)
                    break

    def _add_short(self, placed: Placed, passages: Sequence[Passage]) -> None:
        short = [p for p in passages if p.folded and not any(is_distinctive(t) for _, t in p.forms)]
        if not short:
            return
        found = {
            p: Location(number, at, at + len(p.folded), p.context)
            for number, rest in reversed(list(enumerate(self._rests(placed))))
            for p in short
            if (at := contains_word(rest, p.folded)) >= 0
        }
        together = "".join(p.folded for p in found)
        is_sure = not placed and len(found) > 1 and is_distinctive(together)
        beside = {id(p.found) for p in placed}
        placed |= {p: at for p, at in found.items() if is_sure or id(p.found) in beside}

    def _rests(self, placed: Placed) -> list[str]:
        """Return the prompts, in which `x` characters replace each passage quoted in full."""
        rests = list(map(list, self.texts))
        for at in placed.values():
            if at.whole:
                rests[at.prompt][at.start : at.end] = f" {'x' * (at.end - at.start - 2)} "
        return list(map("".join, rests))

    def show_run_of(self, passages: Iterable[Passage]) -> bool:
        shown = set[str]().union(*map(runs_of, self.texts)) - self._query_runs
        return not all(shown.isdisjoint(p.runs) for p in passages)


def _word_index(prompt: str) -> dict[tuple[str, ...], int]:
    words = prompt.split(" ")
    keys = list(zip(*(words[n:] for n in range(_KEY_WORDS)), strict=False))
    places = list(accumulate([len(word) + 1 for word in words], initial=0))[: len(keys)]
    return dict(zip(reversed(keys), reversed(places), strict=True))


def _outermost(placed: Placed) -> Placed:
    def order(p: Passage) -> tuple[int, int, int, int]:
        at = placed[p]
        return at.prompt, at.start, -at.end, -len(p.folded)

    kept: Placed = {}
    around: list[tuple[str, Location]] = []
    for p in sorted(placed, key=order):
        own = placed[p]
        around = [one for one in around if one[1].prompt == own.prompt and one[1].end > own.start]
        if not any(own.end <= at.end and p.folded in text for text, at in around):
            kept[p] = own
            around.append((p.folded if own.context is p.context else fold(own.context.text), own))
    return kept


def distinct(lists: Iterable[DocumentList]) -> list[Passage]:
    """Return one passage per text. Prefer the last passage with an id, a score or metadata."""
    found: dict[str, Passage] = {}
    for one in lists:
        for index, context in enumerate(one.contexts):
            p = Passage(one, context, one.shown.get(index))
            is_bare = context.id is None and context.score is None and not context.metadata
            known = found.get(p.folded)
            if known is None or not (is_bare or known.found is one):
                found[p.folded] = p
    return list(found.values())


def by_list(passages: Iterable[Passage]) -> list[list[Passage]]:
    lists: dict[int, list[Passage]] = {}
    for p in passages:
        lists.setdefault(id(p.found), []).append(p)
    return list(lists.values())
