"""Finds the positions of retrieved texts in prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from io import StringIO
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.capture.text_forms import (
    contains_word,
    content_words,
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
"""Maximum number of passages to search for from the prompt's start."""
_GAP = 200
"""Maximum number of characters between two passages that a prompt shows one after another."""
_MIN_SPACES = 4
"""Minimum number of spaces of a text to search for behind the previous passage."""


class Passage:
    def __init__(self, found: DocumentList, context: Context, form: str | None = None) -> None:
        self.found = found
        self.context = context
        self.folded = fold(context.text) or fold(form or "")
        self.is_distinctive = is_distinctive(self.folded)
        # the forms in which a prompt may show the passage, complete forms first
        self.forms = [(context, self.folded)]
        values = context.metadata.values()
        others = [v for v in values if isinstance(v, str) and len(v) >= _MIN_METADATA]
        others[:0] = [] if form is None else [form]
        if others:
            self.forms[:0] = [(replace(context, text=text), fold(text)) for text in others]
            self.forms.sort(key=lambda one: self.folded not in one[1])

    @cached_property
    def runs(self) -> set[str]:
        return runs_of(self.folded)

    @cached_property
    def content_words(self) -> set[str]:
        return content_words(self.context.text)


class Location(NamedTuple):
    prompt: int
    start: int
    end: int
    context: Context
    whole: bool = True


Placed: TypeAlias = dict[Passage, Location]


class _Prompt:
    def __init__(self, text: str, question: str, find: Callable[[str], int]) -> None:
        self._text, self._find = text, find
        at = text.rfind(question) if question else -1
        self._asked, self._asked_end = (at, at + len(question)) if at >= 0 else (-1, -1)
        # end of the passage that was found last, or -1 in a search for few passages
        self.end = -1

    def find(self, text: str) -> int:
        first, size = -1, len(text)
        is_next = self.end >= 0 and text.count(" ") >= _MIN_SPACES
        if is_next:
            # Most prompts show the passages one after another.
            first = self._text.find(text, self.end, self.end + size + _GAP)
        if first < 0:
            first = self._find(text)
        if first < 0 or first + size > len(self._text):
            return -1
        if is_next:
            self.end = first + size
        if first >= self._asked_end:
            return first
        behind = self._text.find(text, self._asked_end)
        # A document may contain the question.
        is_within = self._asked <= first and first + size <= self._asked_end
        return first if behind < 0 and not is_within else behind


class Prompts:
    def __init__(
        self, texts: Sequence[str], question: str = "", queries: Iterable[str] = ()
    ) -> None:
        self.texts = texts
        found: dict[str, Callable[[str], int]] = {}
        for text in sorted(texts, key=len, reverse=True):
            # An agent's prompts extend one another, so search only the longest prompt.
            longer = (find for one, find in found.items() if one.startswith(text))
            found[text] = next(longer, None) or cache(text.find)
        self._prompts = [_Prompt(text, question, found[text]) for text in texts]
        self._queries = (question, *queries)

    @cached_property
    def _query_runs(self) -> set[str]:
        return set[str]().union(*map(runs_of, self._queries))

    def place(self, passages: Sequence[Passage]) -> Placed:
        for prompt in self._prompts:
            prompt.end = 0 if len(passages) > _FEW else -1
        placed = {p: place for p in passages if (place := self._whole(p)) is not None}
        self._add_parts(placed, passages)
        self._add_short(placed, passages)
        return _outermost(placed)

    def _whole(self, p: Passage) -> Location | None:
        for number, prompt in enumerate(self._prompts):
            for context, text in p.forms:
                if is_distinctive(text) and (at := prompt.find(text)) >= 0:
                    return Location(number, at, at + len(text), context)
        return None

    def _add_parts(self, placed: Placed, passages: Sequence[Passage]) -> None:
        looked_for = [
            p for p in passages if (placed[p].prompt if p in placed else p.is_distinctive)
        ]
        if not looked_for:
            return
        # If all passages are placed, search only the first prompt.
        rests = self._rests(placed)[: None if any(p not in placed for p in looked_for) else 1]
        free = list(map(run_offsets, rests))
        shown = set[str]().union(*free) - self._query_runs
        parts = [p for p in looked_for if not shown.isdisjoint(p.runs)]
        owners = Counter(chain.from_iterable(p.runs for p in passages)) if parts else Counter()
        for p in parts:
            own = {run for run in p.runs - self._query_runs if owners[run] == 1}
            for number, places in enumerate(free[: 1 if p in placed else None]):
                hits = [(places[run], run) for run in own if run in places]
                if hits and len(hits) >= min(MIN_RUNS, len(own)):
                    end = max(start + len(run) for start, run in hits)
                    placed[p] = Location(number, min(hits)[0], end, p.context, whole=False)
                    break

    def _add_short(self, placed: Placed, passages: Sequence[Passage]) -> None:
        short = [
            p
            for p in passages
            if p.folded and not (p.is_distinctive or any(is_distinctive(t) for _, t in p.forms))
        ]
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
        rests = list(map(StringIO, self.texts))
        for at in placed.values():
            if at.whole:
                rests[at.prompt].seek(at.start)
                rests[at.prompt].write(f" {'x' * (at.end - at.start - 2)} ")
        return [rest.getvalue() for rest in rests]

    def show_run_of(self, passages: Iterable[Passage]) -> bool:
        shown = set[str]().union(*map(runs_of, self.texts)) - self._query_runs
        return not all(shown.isdisjoint(p.runs) for p in passages)


def _outermost(placed: Placed) -> Placed:
    def order(item: tuple[Passage, Location]) -> tuple[int, int, int, int]:
        p, at = item
        return at.prompt, at.start, -at.end, -len(p.folded)

    # The usual case: the passages follow one another in order.
    if all((a.prompt, a.end) <= (b.prompt, b.start) for a, b in pairwise(placed.values())):
        return placed
    kept: Placed = {}
    around: list[tuple[str, int]] = []
    last = (0, 0)
    for p, own in sorted(placed.items(), key=order):
        is_apart = (own.prompt, own.start) >= last
        around = [] if is_apart else [one for one in around if one[1] > own.start]
        if any(own.end <= end and p.folded in text for text, end in around):
            continue
        kept[p] = own
        around.append((p.folded if own.context is p.context else fold(own.context.text), own.end))
        last = max(last, (own.prompt, own.end))
    return kept


def distinct(lists: Iterable[DocumentList]) -> list[Passage]:
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
