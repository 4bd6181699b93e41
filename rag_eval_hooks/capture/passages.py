"""Retrieved texts, and their places in prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from rag_eval_hooks.capture.records import DocumentList, Origin
from rag_eval_hooks.capture.text_forms import (
    fold,
    is_distinctive,
    run_offsets,
    runs_of,
    words,
)
from rag_eval_hooks.sample import Context

__all__ = [
    "DOCUMENT_ORIGINS",
    "MIN_RUNS",
    "Passage",
    "Place",
    "Prompts",
    "by_list",
    "distinct",
    "in_prompt_order",
    "shown_in",
]

DOCUMENT_ORIGINS = (Origin.DOCUMENTS, Origin.GIVEN, Origin.SOURCES, Origin.STATED)
MIN_RUNS = 3
"""Runs of words of its own by which a text is recognized."""
_MIN_METADATA = 40
"""Characters of a text in a document's metadata that may be shown in its place."""
_KEY_CHARS = 200
_KEY_RUN = slice(1, 5)
"""Words by which a whole text is looked up: its first word may be glued to what is before it."""


class Passage:
    """One text that passed by, with the list that held it."""

    def __init__(self, found: DocumentList, context: Context, form: str | None = None) -> None:
        self.found = found
        self.context = context
        self._form = form
        self.folded = fold(context.text)

    @property
    def key(self) -> str:
        """The folded text, or that of its shown form for a node that has no text."""
        return self.folded or (fold(self._form) if self._form else "")

    @cached_property
    def runs(self) -> set[str]:
        """The runs of words in it."""
        return runs_of(self.folded)

    @property
    def is_distinctive(self) -> bool:
        """True if finding it in a prompt is no coincidence."""
        return is_distinctive(self.folded)

    @cached_property
    def forms(self) -> list[tuple[Context, str]]:
        """The texts in which a prompt may show it, likeliest first, each folded.

        A sentence is shown by its window, a question by the passage that answers it.
        """
        own = [(self.context, self.folded)]
        values = self.context.metadata.values()
        long = [v for v in values if isinstance(v, str) and len(v) >= _MIN_METADATA]
        if self._form is None and not long:
            return own
        inner = [(replace(self.context, text=text), fold(text)) for text in long]
        around = [one for one in inner if self.is_distinctive and self.folded in one[1]]
        others = [one for one in inner if one not in around]
        form = self._form
        first = [] if form is None else [(replace(self.context, text=form), fold(form))]
        return [*first, *around, *own, *others]


class Place(NamedTuple):
    """Where a prompt shows a passage: its first and last character, and where it would begin."""

    prompt: int
    start: int
    end: int
    begin: int
    context: Context
    whole: bool


class Prompts:
    """The folded prompts that led to an answer, the answering one first."""

    def __init__(
        self, texts: Sequence[str], question: str = "", queries: Iterable[str] = ()
    ) -> None:
        self.texts = texts
        starts = [text.rfind(question) if question else -1 for text in texts]
        self._asked = [(at, at + len(question)) if at >= 0 else (-1, -1) for at in starts]
        self._query_runs = {run for query in (question, *queries) for run in runs_of(query)}
        self._offsets: dict[int, dict[str, int]] = {}

    def place(self, passages: Sequence[Passage]) -> dict[Passage, Place]:
        """Return the places of the passages that the prompts show, without parts of others."""
        distinctive = [p for p in passages if any(is_distinctive(text) for _, text in p.forms)]
        if not distinctive:
            return self._short(passages)
        placed = self._whole(distinctive, is_distinctive)
        rest = [p for p in distinctive if p not in placed and p.is_distinctive]
        if self.texts and (rest or any(place.prompt for place in placed.values())):
            self._add_parts(placed, rest, distinctive)
        return _outermost(placed)

    def _short(self, passages: Sequence[Passage]) -> dict[Passage, Place]:
        """Return short texts if prompts show several: one may stand there by chance."""
        placed = self._whole(passages, bool)
        together = "".join(p.folded for p in placed)
        return placed if len(placed) > 1 and is_distinctive(together) else {}

    def _whole(
        self, passages: Iterable[Passage], is_long: Callable[[str], bool]
    ) -> dict[Passage, Place]:
        placed: dict[Passage, Place] = {}
        for p in passages:
            for number in range(len(self.texts)):
                found = self._whole_in(number, p, is_long)
                if found is not None:
                    placed[p] = found
                    break
        return placed

    def _whole_in(self, number: int, p: Passage, is_long: Callable[[str], bool]) -> Place | None:
        for context, text in p.forms:
            if is_long(text) and (at := self._find(number, text)) >= 0:
                return Place(number, at, at + len(text), at, context, True)
        return None

    def _find(self, number: int, text: str) -> int:
        """Return where a text stands behind the question, else before it; never within it."""
        prompt, (asked, end) = self.texts[number], self._asked[number]
        first = self._first(number, text)
        if first < 0 or first >= end:
            return first
        behind = prompt.find(text, end)
        if behind >= 0:
            return behind
        return -1 if asked <= first and first + len(text) <= end else first

    def _first(self, number: int, text: str) -> int:
        """Return the first place of a text, by the first place of a run of its words."""
        head = words(text[:_KEY_CHARS])
        key = head[_KEY_RUN]
        start = 0
        if text.isascii() and len(head) > _KEY_RUN.stop:
            start = self._offsets_of(number).get(" ".join(key), -1)
            if start < 0:
                return -1
            start = max(0, start - len(text))
        return self.texts[number].find(text, start)

    def _offsets_of(self, number: int) -> dict[str, int]:
        if number not in self._offsets:
            self._offsets[number] = run_offsets(self.texts[number])
        return self._offsets[number]

    def _add_parts(
        self, placed: dict[Passage, Place], rest: Sequence[Passage], all_of: Sequence[Passage]
    ) -> None:
        """Add texts of which a prompt shows runs of their own, apart from the whole texts."""
        free = [self._free_runs(number, placed.values()) for number in range(len(self.texts))]
        moved = [p for p, place in placed.items() if place.prompt]
        wanted = [p for p in (*rest, *moved) if any(not p.runs.isdisjoint(one) for one in free)]
        if not wanted:
            return
        owners = Counter(run for p in all_of for run in p.runs)
        for p in wanted:
            own = {run for run in p.runs if owners[run] == 1} - self._query_runs
            numbers = range(len(free)) if p not in placed else (0,)
            for number in numbers:
                hits = own.intersection(free[number])
                if hits and len(hits) >= min(MIN_RUNS, len(own)):
                    placed[p] = self._part(number, p, {run: free[number][run] for run in hits})
                    break

    def _part(self, number: int, p: Passage, hits: Mapping[str, int]) -> Place:
        first = min(hits, key=hits.__getitem__)
        begin = hits[first] - run_offsets(p.folded)[first]
        end = max(start + len(run) for run, start in hits.items())
        return Place(number, hits[first], end, begin, p.context, False)

    def _free_runs(self, number: int, places: Iterable[Place]) -> dict[str, int]:
        """Return the runs of a prompt between whole texts: none reaches across one."""
        taken = sorted((at.start, at.end) for at in places if at.whole and at.prompt == number)
        if not taken:
            return self._offsets_of(number)
        free: dict[str, int] = {}
        last = 0
        text = self.texts[number]
        for start, end in (*taken, (len(text), len(text))):
            for run, offset in run_offsets(text[last:start]).items() if start > last else ():
                free.setdefault(run, last + offset)
            last = max(last, end)
        return free

    def show_run_of(self, passages: Iterable[Passage]) -> bool:
        """Return whether a prompt shows any run of words of passages."""
        runs = {run for p in passages for run in p.runs} - self._query_runs
        return any(not runs.isdisjoint(self._offsets_of(n)) for n in range(len(self.texts)))


def _outermost(placed: Mapping[Passage, Place]) -> dict[Passage, Place]:
    """Return the texts that do not stand there only as a part of another one."""

    def order(item: tuple[Passage, Place]) -> tuple[int, int, int, int]:
        return item[1].prompt, item[1].begin, -item[1].end, -len(item[0].folded)

    kept: dict[Passage, Place] = {}
    around: list[tuple[str, Place]] = []
    for p, place in sorted(placed.items(), key=order):
        around = [
            (text, at) for text, at in around if at.prompt == place.prompt and at.end > place.start
        ]
        if not any(place.end <= at.end and p.folded in text for text, at in around):
            kept[p] = place
            shown = place.context
            around.append((p.folded if shown is p.context else fold(shown.text), place))
    return kept


def distinct(lists: Iterable[DocumentList]) -> list[Passage]:
    """Return each text once: of the last list that knows more of it than the bare text."""
    found: dict[str, Passage] = {}
    for one in lists:
        listed: dict[str, Passage] = {}
        for index, context in enumerate(one.contexts):
            p = Passage(one, context, one.shown.get(index))
            is_bare = context.id is None and context.score is None and not context.metadata
            if p.key not in listed and not (is_bare and p.key in found):
                listed[p.key] = p
        found |= listed
    return list(found.values())


def by_list(passages: Iterable[Passage]) -> Iterator[list[Passage]]:
    """Yield the passages of each list."""
    lists: dict[int, list[Passage]] = {}
    for p in passages:
        lists.setdefault(id(p.found), []).append(p)
    yield from lists.values()


def in_prompt_order(placed: Mapping[Passage, Place]) -> tuple[Context, ...]:
    """Return the placed contexts in the order in which the prompts show them."""
    ordered = sorted(placed.values(), key=lambda at: (at.prompt, at.start, -at.end))
    return tuple(place.context for place in ordered)


def shown_in(prompt: str, lists: Sequence[DocumentList]) -> tuple[Context, ...]:
    """Return the documents that a folded prompt shows, in its order."""
    return in_prompt_order(Prompts([prompt]).place(distinct(lists)))
