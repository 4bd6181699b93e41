"""Candidates that stand in prompts, whole, cut, or as a formatter altered them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from rag_eval_hooks.capture.contexts.candidates import Candidate, candidates_of
from rag_eval_hooks.capture.contexts.prompt_positions import Position, Prompts
from rag_eval_hooks.capture.contexts.text_forms import (
    LEAST_SHINGLES,
    fold,
    forms,
    is_telling,
    least_shown,
    shingles,
)
from rag_eval_hooks.capture.contexts.written_rows import Phrase, RowValues, row_values
from rag_eval_hooks.capture.records import DocumentList
from rag_eval_hooks.sample import Context

__all__ = ["ContextSource", "Found", "PromptMatch", "shown_in"]

_MOST_NESTED = 8
"""Rows that have a value and lie in one another."""


class ContextSource(StrEnum):
    """Rule by which contexts were found."""

    RECORDED = "recorded"
    """The application recorded them."""
    CHOSEN = "chosen"
    """The application named where they are."""
    PROMPT = "prompt"
    """Their texts stand in the answering prompts."""
    SHINGLES = "shingles"
    """Some stand there only in part: four words in a row that no other document has."""
    STRUCTURE = "structure"
    """The answer names them as its sources."""
    LAST_LIST = "last_list"
    """No prompt shows any: the list of the last step that gave one."""
    STEP = "step"
    """A step or tool wrote some of them: rows of a database, a further search, or a fixed text."""
    EARLIER_TURN = "earlier_turn"
    """An earlier turn left them in the state, and the prompt shows them."""


class Found(NamedTuple):
    """Contexts in the order in which the model saw them, and the rule by which they were found.

    None when nothing was retrieved, () when retrieval came back empty.
    """

    contexts: tuple[Context, ...] | None
    source: ContextSource | None


def shown_in(prompt: str, lists: Sequence[DocumentList]) -> tuple[Context, ...]:
    """Return the documents that are in one text, in its order, in any form, possibly cut."""
    found = PromptMatch(candidates_of(lists), Prompts([prompt])).found()
    return (found.contexts or ()) if found else ()


class PromptMatch:
    """Candidates that stand in prompts, by position; a text inside another one counts once."""

    def __init__(self, candidates: Mapping[str, Candidate], prompts: Prompts) -> None:
        self._candidates = candidates
        self._prompts = prompts
        self._places: dict[str, Position] = {}
        self._seen: dict[str, Context] = {}

    def found(self) -> Found | None:
        """Return what stands there, or None."""
        self._whole()
        whole = len(self._places)
        if rest := self._rest():
            self._cut(rest)
        if rest := self._rest():
            self._by_values(rest)
        if rest := self._rest():
            self._by_shingles(rest)
        if not self._places:
            return None
        ordered = [(text, self._in_answering(text, place)) for text, place in self._places.items()]
        places = sorted(ordered, key=lambda one: (one[1].prompt, one[1].start, -one[1].length))
        kept: list[tuple[str, Position]] = []
        for text, place in places:
            if not kept or not (kept[-1][1].holds(place) and text in kept[-1][0]):
                kept.append((text, place))
        source = ContextSource.PROMPT if len(self._places) == whole else ContextSource.SHINGLES
        return Found(tuple(self._seen[text] for text, _ in kept), source)

    def _in_answering(self, text: str, place: Position) -> Position:
        """Return the position in the answering prompt of a text whose beginning stands there."""
        if place.prompt:
            written = forms(self._candidates[text].context.text)
            begun = (self._prompts.find(one[: least_shown(one)], most=1) for one in written)
            return next(filter(None, begun), place)
        return place

    def _rest(self) -> dict[str, Candidate]:
        rest = {text: c for text, c in self._candidates.items() if text not in self._places}
        return {text: c for text, c in rest.items() if is_telling(text)}

    def _note(self, text: str, place: Position, seen: Context) -> None:
        self._places[text], self._seen[text] = place, seen

    def _whole(self) -> None:
        for text, candidate in self._candidates.items():
            for context in candidate.shown:
                folded = text if context is candidate.context else fold(context.text)
                place = self._find(context.text, folded) if is_telling(folded) else None
                if place is not None:
                    self._note(text, place, context)
                    break

    def _find(self, text: str, folded: str) -> Position | None:
        if (place := self._prompts.find(folded)) is not None:
            return place
        return next(filter(None, (self._prompts.find(form) for form in forms(text))), None)

    def _cut(self, rest: Mapping[str, Candidate]) -> None:
        """Find texts of which only the beginning is in a prompt, each at its own position.

        The longest beginnings come first, and of equal ones that of the later stage: a beginning
        that texts share tells nothing where one of them stands.
        """
        taken = list(self._places.values())
        begun = {text: self._beginning(c.context.text) for text, c in rest.items()}
        latest_first = [text for text in list(begun)[::-1] if begun[text]]
        for text in sorted(latest_first, key=lambda text: -len(begun[text])):
            place = self._prompts.find(begun[text], taken)
            if place is not None:
                taken.append(place)
                self._note(text, place, rest[text].context)

    def _beginning(self, text: str) -> str:
        """Return the longest beginning of a text, in any form, that is in a prompt; "" for none."""
        for form in forms(text):
            if length := self._prompts.shown(form, least_shown(form)):
                return form[:length]
        return ""

    def _by_shingles(self, rest: Mapping[str, Candidate]) -> None:
        """Find texts that a formatter numbered, excerpted, divided or wrapped."""
        held, asked = self._prompts.shingles(), self._prompts.asked()
        parts = {text: shingles(text) - asked for text in rest}
        if all(map(held.isdisjoint, parts.values())):
            return
        others = self._candidates.keys() - rest.keys()
        parts |= {text: shingles(text) - asked for text in others}
        owners = Counter(part for own in parts.values() for part in own)
        for text, candidate in rest.items():
            if candidate.is_row and any(known in text for known in self._places):
                # A prompt that shows what is nested in a record does not show the record.
                continue
            own = [part for part in parts[text] if owners[part] == 1]
            seen = held.intersection(own)
            if seen and len(seen) >= min(LEAST_SHINGLES, len(own)):
                self._note(text, self._prompts.stretch(seen), candidate.context)

    def _by_values(self, rest: Mapping[str, Candidate]) -> None:
        """Find rows of which the values are written otherwise; the context is what is shown."""
        rows = {text: _written(c.context.text) for text, c in rest.items()}
        rows = {text: written for text, written in rows.items() if written}
        for text, written in rows.items():
            whole = (row for row in written if row.is_distinctive)
            self._note_row(text, rest[text], map(self._prompts.row, whole))
        owners = _owners(rows)
        for text, written in rows.items():
            if rest[text].is_row and text not in self._places:
                own = {p for row in written for p in row.phrases if _is_own(text, owners[p])}
                others = [place for other, place in self._places.items() if other not in text]
                parts = (self._prompts.part_of_row(row, own, others) for row in written)
                self._note_row(text, rest[text], parts)

    def _note_row(self, text: str, candidate: Candidate, places: Iterable[Position | None]) -> None:
        place = next(filter(None, places), None)
        if place and not any(other.holds(place) for other in self._places.values()):
            shown = replace(candidate.context, text=self._prompts.part(place))
            self._note(text, place, shown)


def _owners(rows: Mapping[str, Sequence[RowValues]]) -> dict[Phrase, list[str]]:
    """Return the rows that have each value."""
    owners: dict[Phrase, list[str]] = {}
    for text, written in rows.items():
        for phrase in {phrase for row in written for phrase in row.phrases}:
            owners.setdefault(phrase, []).append(text)
    return owners


def _is_own(text: str, owners: Sequence[str]) -> bool:
    """Return whether nothing but a row has a value, apart from what is nested in it."""
    return len(owners) <= _MOST_NESTED and all(one in text or text in one for one in owners)


def _written(text: str) -> list[RowValues]:
    """Return a row as it is written, and with its letters as JSON escapes them."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return list(filter(None, map(row_values, dict.fromkeys((text, escaped)))))
