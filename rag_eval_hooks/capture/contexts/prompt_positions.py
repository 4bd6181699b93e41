"""Positions of texts in prompts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rag_eval_hooks.capture.contexts.text_forms import (
    TELLING,
    shingle_offsets,
    shingles,
    word_offsets,
)
from rag_eval_hooks.capture.contexts.written_rows import (
    NEAR,
    Occurrence,
    Phrase,
    RowValues,
    extent,
    near_one_another,
    shortest,
    value_word,
)

__all__ = ["Position", "Prompts"]

_MANY = 500
"""Places of a row's first word that are looked at."""
_REACH = 200
"""Words around a value that no other row has among which others of the same row stand."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position of a text: the number of the prompt, and the span in it."""

    prompt: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """Offset of the first character after it."""
        return self.start + self.length

    def holds(self, other: Position) -> bool:
        """Return whether another position lies within this one."""
        return self.prompt == other.prompt and self.start <= other.start and other.end <= self.end

    def meets(self, other: Position) -> bool:
        """Return whether another position has anything of this one."""
        return self.prompt == other.prompt and self.start < other.end and other.start < self.end

    def begins(self, other: Position) -> bool:
        """Return whether another position begins within this one and hardly exceeds it.

        What follows a text may by chance go on like another one for a few characters.
        """
        begun = self.prompt == other.prompt and self.start <= other.start < self.end
        return begun and other.end - self.end < TELLING


class _Words(NamedTuple):
    """Words of a prompt with their offsets, and by each word its numbers among them."""

    listed: Sequence[tuple[str, int]]
    places: Mapping[str, Sequence[int]]


class Prompts:
    """Several prompts in which texts are looked for.

    Args:
        texts: With folded white space, in order.
        question: What the user asked, folded. In a conversation earlier turns stand before it,
            with documents of their own; what stands behind it is of this turn. What stands
            within it is the user's, and was not shown as a document.
        queries: What retrievers were asked, folded: a prompt may quote them too.
    """

    def __init__(
        self, texts: Sequence[str], question: str = "", queries: Iterable[str] = ()
    ) -> None:
        self._texts = texts
        self._queries = {question, *queries}
        starts = [text.rfind(question) if question else -1 for text in texts]
        self._asked = [
            Position(number, start, len(question)) if start >= 0 else None
            for number, start in enumerate(starts)
        ]
        self._next = 0
        self._listed: dict[int, _Words] = {}

    def find(
        self, text: str, taken: Collection[Position] = (), most: int | None = None
    ) -> Position | None:
        """Return the first position of a text after the question, else the first of all.

        Args:
            text: Folded.
            taken: Places of other texts: what begins there belongs to that text.
            most: Prompts that are searched, None for all.
        """
        for number, asked in enumerate(self._asked[:most]):
            behind = asked.end if asked else 0
            place = self._free(number, text, behind, taken)
            if place is None and asked:
                place = self._free(number, text, 0, taken)
                place = None if place and asked.holds(place) else place
            if place is not None:
                return place
        return None

    def shown(self, text: str, least: int) -> int:
        """Return how much of a text's beginning is in a prompt, 0 for less than `least`.

        The longest stretch is found by halving, as every beginning of one that is there is too.
        """
        if len(text) < least or not self.hold(text[:least]):
            return 0
        most = len(text)
        while least < most:
            middle = (least + most + 1) // 2
            if self.hold(text[:middle]):
                least = middle
            else:
                most = middle - 1
        return least

    def hold(self, text: str) -> bool:
        """Return whether a text is in any prompt."""
        return any(text in prompt for prompt in self._texts)

    def shingles(self) -> set[str]:
        """Return each four words in a row."""
        return {part for text in self._texts for part in shingles(text)}

    def stretch(self, parts: Collection[str]) -> Position:
        """Return where the words of a text stand, in the first prompt that has any of them."""
        for number, text in enumerate(self._texts):
            offsets = shingle_offsets(text)
            places = [(offsets[part], len(part)) for part in parts if part in offsets]
            if places:
                start = min(places)[0]
                return Position(number, start, max(map(sum, places)) - start)
        raise ValueError(parts)

    def row(self, row: RowValues) -> Position | None:
        """Return where values stand in order, each near the one before, with any labels.

        What stands behind the question comes first, and what stands within it is no row.
        """
        for number in range(len(self._texts)):
            places = self._words(number).places.get(row.words[0], ())[:_MANY]
            found = (self._row_at(number, row, place) for place in places)
            spans = [span for span in found if span]
            asked = self._asked[number]
            behind = [span for span in spans if asked and span.start >= asked.end]
            if free := behind or [span for span in spans if not (asked and asked.meets(span))]:
                # Of equal ends the latest beginning: the first value may stand before the row, too.
                return min(free, key=lambda span: (span.end, -span.start))
        return None

    def _row_at(self, number: int, row: RowValues, place: int) -> Position | None:
        listed, begin = self._words(number).listed, place
        for word in row.words[1:]:
            near = range(place + 1, min(place + 1 + NEAR, len(listed)))
            found = next((other for other in near if listed[other][0] == word), None)
            if found is None:
                return None
            place = found
        return self._stretch_of(number, row, begin, place)

    def _stretch_of(self, number: int, row: RowValues, first: int, last: int) -> Position:
        """Return the position of a row from one word to another one, with brackets and label."""
        listed = self._words(number).listed
        word, offset = listed[last]
        start, end = extent(self._texts[number], listed[first][1], offset + len(word), row)
        return Position(number, start, end - start)

    def part_of_row(
        self, row: RowValues, own: Collection[Phrase], taken: Collection[Position]
    ) -> Position | None:
        """Return where values of a row stand near one another in any order, if it is known by them.

        Args:
            row: Of which a prompt may show a part.
            own: Those of its values that no other row has.
            taken: Places of other rows.
        """
        for number, asked in enumerate(self._asked):
            anchors = [one.start for one in self._occurrences(number, own)]
            if not anchors:
                continue
            first, last = min(anchors) - _REACH, max(anchors) + _REACH
            values = self._occurrences(number, row.phrases, first, last)
            for run in near_one_another(self._free_of(number, taken, values)):
                begin, end = shortest(run)
                found = {one.phrase for one in run}
                if row.is_shown_by(found, found.intersection(own)):
                    place = self._stretch_of(number, row, begin.start, end.end - 1)
                    if not (asked and asked.meets(place)):
                        return place
        return None

    def _occurrences(
        self, number: int, phrases: Iterable[Phrase], first: int = 0, last: int | None = None
    ) -> list[Occurrence]:
        """Return where values stand among the words of a prompt, from one of them to another."""
        listed, places = self._words(number)
        found: list[Occurrence] = []
        for phrase in phrases:
            starts = places.get(phrase[0], ())
            end = len(starts) if last is None else bisect_right(starts, last)
            found += [
                Occurrence(start, start + len(phrase), phrase)
                for start in starts[bisect_left(starts, first) : end]
                if tuple(word for word, _ in listed[start : start + len(phrase)]) == phrase
            ]
        return sorted(found)

    def _free_of(
        self, number: int, taken: Collection[Position], found: Sequence[Occurrence]
    ) -> list[Occurrence]:
        """Return the values that stand at none of the places."""
        listed = self._words(number).listed
        if not found:
            return []
        first, last = listed[found[0].start][1], listed[found[-1].start][1]
        near = [p for p in taken if p.prompt == number and p.start <= last and first < p.end]
        offsets = ((one, listed[one.start][1]) for one in found)
        return [one for one, at in offsets if not any(p.start <= at < p.end for p in near)]

    def _words(self, number: int) -> _Words:
        if number not in self._listed:
            found = word_offsets(self._texts[number])
            listed = [(value_word(word), start) for word, start in found]
            places: dict[str, list[int]] = {}
            for place, (word, _) in enumerate(listed):
                places.setdefault(word, []).append(place)
            self._listed[number] = _Words(listed, places)
        return self._listed[number]

    def part(self, place: Position) -> str:
        """Return what stands at a position."""
        return self._texts[place.prompt][place.start : place.end]

    def asked(self) -> set[str]:
        """Return each four words in a row that were asked: they tell nothing of documents."""
        return {part for query in self._queries for part in shingles(query)}

    def _free(
        self, number: int, text: str, start: int, taken: Collection[Position]
    ) -> Position | None:
        prompt = self._texts[number]
        if not taken and start <= self._next < len(prompt):
            # Texts mostly stand one behind the other.
            near = prompt.find(text, self._next, self._next + len(text) + 80)
            if near >= 0:
                self._next = near + len(text)
                return Position(number, near, len(text))
        while (start := prompt.find(text, start)) >= 0:
            place = Position(number, start, len(text))
            holder = next((other for other in taken if other.begins(place)), None)
            if holder is None:
                self._next = place.end
                return place
            start = max(start, holder.end - len(text)) + 1
        return None
