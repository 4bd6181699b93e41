"""Quantities of a text: numbers with units, sums of money, clock times and dates, as values."""

# ruff: noqa: RUF001 - it is about such characters

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from rag_eval_hooks.text.numbers import (
    MAGNITUDES,
    Words,
    may_hold_number,
    number_spans,
    word_numbers,
)
from rag_eval_hooks.text.unit_names import CODES, LOOSE, MONTHS, UNITS, may_hold_part, part_spans

__all__ = ["Measure", "agree", "measures"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity.

    Attributes:
        value: Number in its base unit: metres, grams, seconds, months, litres, bytes; minutes
            since midnight for a clock time; NaN for a date.
        unit: Base unit, currency, `clock`, `date`, or empty for a bare number.
        text: As written, with its unit.
        start: Where it begins in the text.
        end: Where it ends.
        number: Number as written, before it is converted.
        dates: For a date, the readings of it as (year, month, day), 0 for a part that is open.
        bound: `>`, `<`, `>=` or `<=` if the text gives a bound, `~` for an approximate number.
        per: For a rate, base unit and size of what it is by: ("s", 60) for "per minute".
    """

    value: float
    unit: str
    text: str
    start: int
    end: int
    number: float = math.nan
    dates: tuple[tuple[int, int, int], ...] = ()
    bound: str = ""
    per: tuple[str, float] = ("", 1.0)


_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATE: Final = re.compile(
    rf"\b(?P<d1>[0-3]?[0-9])(?:st|nd|rd|th|\.|er)?\s(?:of\s|de\s)?(?P<m1>{_MONTH})\b\.?"
    r"(?:,?\s(?:de\s|del\s)?(?P<y1>[0-9]{4}))?"
    rf"|\b(?P<m2>{_MONTH})\b\.?\s(?P<d2>[0-3]?[0-9])(?:st|nd|rd|th)?\b(?!:)(?:,?\s(?P<y2>[0-9]{{4}}))?"
    rf"|\b(?P<m3>{_MONTH}),?\s(?:de\s)?(?P<y3>[0-9]{{4}})"
    r"|\b(?P<y4>[12][0-9]{3})-(?P<m4>[01]?[0-9])-(?P<d4>[0-3]?[0-9])\b"
    r"|\b(?P<a>[0-3]?[0-9])(?P<sep>[./])(?P<b>[0-3]?[0-9])(?P=sep)(?P<y5>[12][0-9]{3})\b",
    re.IGNORECASE,
)
_FROM_DAY: Final = re.compile(
    r"\b(?P<day>[0-3]?[0-9])(?:st|nd|rd|th|\.)?\s?(?:-|–|to|until|and|bis|und|au|et|al?|y)\s?$",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"\b(?P<h>[0-2]?[0-9])(?:[:.h](?P<min>[0-5][0-9]))(?:\s?(?P<half>[ap])\.?m\b\.?|\s?(?:Uhr|h)\b)?"
    r"|\b(?P<h2>[0-2]?[0-9])\s?(?:(?P<half2>[ap])\.?m\b\.?|Uhr\b|heures?\b(?=\s?(?:précises|du)))"
    r"|\b(?P<noon>noon|midday|midi|mediodía|mittags?)\b|\b(?P<night>midnight|mitternacht|minuit"
    r"|medianoche)\b",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w+")
_DIGIT: Final = re.compile(r"\d")
_TIMED: Final = (
    "noon", "midday", "midi", "mediod", "mittag", "midnight", "mitternacht", "minuit", "medianoche",
)  # fmt: skip
_DATED: Final = re.compile(r"[0-9][./-][0-9]")
_UNIT_AFTER: Final = re.compile(
    r"[\s\u00a0\u202f-]?(?P<unit>[$€£¥%]|°\s?[cf]\b|[^\W\d_]+)", re.IGNORECASE
)
_SIZE_AFTER: Final = re.compile(
    rf"[\s-](?:{'|'.join(sorted(MAGNITUDES.keys() - {'cent', 'cents'}))})\b(?:\s(?:de|d'))?",
    re.IGNORECASE,
)
_AND: Final = re.compile(r",?\s?(?:(?:and|und|et|y)\s)?", re.IGNORECASE)
_PER: Final = re.compile(
    r"(?:\s?/\s?|\s(?:per|pro|par|por|je|a|an|al|am|im|each|every)\s)(?P<by>[^\W\d_]+)",
    re.IGNORECASE,
)
_LINK: Final = re.compile(r"[\s](?:de|d'|of)\s?", re.IGNORECASE)
_BOUNDS: Final = (
    (">=", "at least|mindestens|au moins|al menos|por lo menos|no (?:less|fewer) than"),
    ("<=", "at most|up to|höchstens|bis zu|au plus|jusqu'à|como máximo|hasta|no more than"
           "|nicht mehr als|pas plus de|no más de"),
    (">", "more than|over|above|exceeds|exceeding|exceeded|exceed|greater than|longer than"
          "|mehr als|über|plus de|más de"),
    ("<", "less than|fewer than|under|below|weniger als|unter|moins de|menos de"),
    ("~", "about|around|approximately|roughly|nearly|almost|some|circa|ca\\.?|etwa|rund|ungefähr"
          "|fast|environ|près de|presque|unos|unas|casi|alrededor de|aproximadamente"),
)  # fmt: skip
_BOUND: Final = re.compile(
    "|".join(rf"(\b(?:{words}))" for _, words in _BOUNDS).join(
        ("(?:", r")\s{1,3}(?:the\s|a\s)?[$€£]?$")
    ),
    re.IGNORECASE,
)


_GROUPED: Final = re.compile(r"\d(?<![\d.,]\d)\d{0,2}(?: \d{3})+(?![\d.,])")


@lru_cache(maxsize=4096)
def measures(text: str) -> tuple[Measure, ...]:
    """Return the quantities of a text in order.

    Number words count in English, German, French and Spanish; "Response 1", "[2]" and the numbers
    of list items are labels, not quantities.
    """
    digits, lower = _DIGIT.search(text) is not None, text.lower()
    timed = any(part in lower for part in _TIMED)
    if not (digits or timed or may_hold_part(lower) or may_hold_number(lower)):
        return ()  # most sentences: the patterns below are slow
    if digits:
        text = _GROUPED.sub(lambda match: match[0].replace(" ", "\u202f"), text)
    words = Words(text)
    dated = digits and (not words.known.isdisjoint(MONTHS) or _DATED.search(text) is not None)
    found: list[Measure] = []
    taken = bytearray(len(text))
    for made in (
        *(_dates(words) if dated else ()),
        *(_clocks(words) if digits or timed else ()),
        *_parts(text),
        *_numbers(words),
    ):
        if not any(taken[made.start : made.end]):
            taken[made.start : made.end] = bytes([1]) * (made.end - made.start)
            found.append(made)
    return tuple(_added_up(sorted(found, key=lambda measure: measure.start), text))


def _added_up(found: Sequence[Measure], text: str) -> Iterator[Measure]:
    """Yield measures with those of smaller units added: "1 hour and 45 minutes"."""
    before: Measure | None = None
    for made in found:
        if before is None or not _goes_on(before, made, text[before.end : made.start]):
            if before is not None:
                yield before
            before = made
            continue
        value, whole = before.value + made.value, text[before.start : made.end]
        before = replace(before, value=value, text=whole, end=made.end, number=math.nan)
    if before is not None:
        yield before


def _goes_on(one: Measure, two: Measure, gap: str) -> bool:
    smaller = one.unit in ("s", "m", "g", "month") and one.unit == two.unit
    if not smaller or not _AND.fullmatch(gap) or one.per[0] or two.bound:
        return False
    size = one.value / one.number if one.number else 0.0
    return two.value < size and one.number % 1 == 0


def _opens_date(word: str) -> bool:
    return word[0].isdecimal() or word in MONTHS


def _opens_clock(word: str) -> bool:
    return word[0].isdecimal() or word.startswith(_TIMED)


def _dates(words: Words) -> Iterator[Measure]:
    for match in words.matches(_DATE, _opens_date):
        part = match.groupdict()
        year = next((int(v) for k, v in part.items() if k[0] == "y" and v), 0)
        if part["a"]:
            one, two = int(part["a"]), int(part["b"])
            forms = [(one, two)] if part["sep"] == "." else [(one, two), (two, one)]
            dates = tuple((year, month, day) for day, month in forms if 0 < month <= 12)
        else:
            name = next(v for k, v in part.items() if k[0] == "m" and v)
            day = next((int(v) for k, v in part.items() if k[0] == "d" and v), 0)
            month = int(name) if name.isdigit() else MONTHS[name.lower()]
            dates = ((year, month, day),)
        if not dates:
            continue
        yield Measure(math.nan, "date", match[0], *match.span(), dates=dates)
        if part["d1"] and (first := _FROM_DAY.search(words.text, 0, match.start())):
            opening = tuple((year, month, int(first["day"])) for year, month, _ in dates)
            yield Measure(math.nan, "date", first["day"], *first.span("day"), dates=opening)


def _clocks(words: Words) -> Iterator[Measure]:
    for match in words.matches(_CLOCK, _opens_clock):
        if match["noon"] or match["night"]:
            yield Measure(720.0 if match["noon"] else 0.0, "clock", match[0], *match.span())
            continue
        hour, minute = int(match["h"] or match["h2"]), int(match["min"] or 0)
        half = (match["half"] or match["half2"] or "").lower()
        if hour > 24 or (match["min"] and "." in match[0] and not half and "Uhr" not in match[0]):
            continue  # 7.30 is a number
        hour = hour % 12 + 12 * (half == "p") if half else hour
        yield Measure(float(60 * hour + minute), "clock", match[0], *match.span())


_SHORT: Final = {"k": 1e3, "m": 1e6, "bn": 1e9}
_LABELLED: Final = (
    "response|answer|passage|document|source|chunk|step|figure|table|chapter|section|part|option"
    "|item|question|page|fact|point|tip|stage|phase|level|type|tier|rule|article|verse|grade"
    "|antwort|abschnitt|schritt|seite|réponse|étape|respuesta|paso|página"
)
_LABEL: Final = re.compile(
    rf"(?:\b(?:{_LABELLED})s?\s\#?(?:\d{{1,4}}\s?(?:,|and|&|to|-|–|und|et|y)\s?){{0,8}}"
    r"|\bno\.?\s|\bnr\.?\s|\[|\#)$",
    re.IGNORECASE,
)
_LABELS: Final = frozenset(
    ("no", "nr", *(word + end for word in _LABELLED.split("|") for end in ("", "s")))
)
_BEFORE_NUMBER: Final = frozenset(
    word
    for _, words in _BOUNDS
    for part in words.split("|")
    for word in re.findall(r"\w+", part)[-1:]
)
"""Last words of bounds."""


def _numbers(words: Words) -> Iterator[Measure]:
    text = words.text
    spans = [
        (a, b, float(number.value), "%" * number.percent) for a, b, number in number_spans(text)
    ]
    spans += [(a, b, float(value), "") for a, b, value in word_numbers(words)]
    labelled = not words.known.isdisjoint(_LABELS) or "[" in text or "#" in text
    for start, end, value, percent in spans:
        if labelled and _LABEL.search(text[max(0, start - 24) : start]):
            continue
        sign = next((c for c in text[max(0, start - 1) : start + 1] if c in "$€£¥"), "")
        size = _SIZE_AFTER.match(text, end)
        if sign and (short := re.match(r"\s?(bn|k|m)\b", text[end : end + 4], re.IGNORECASE)):
            value, end = value * _SHORT[short[1].lower()], end + short.end()
        elif size and text[end - 1].isdigit():
            word = size[0].strip(" -").split()[0].lower()
            value, end = value * MAGNITUDES[word], size.end()
        unit, factor, stop = _unit(text, end)
        code = _CODE.search(text, max(0, start - 5), start)
        if percent or sign or (code and not unit):
            name = sign or (code[1].lower() if code else "")
            unit, factor, stop = percent or UNITS[name][0], 1.0, end
        rate = _PER.match(text, stop)
        per = UNITS.get(rate["by"].lower(), ("", 1.0)) if rate else ("", 1.0)
        stop = rate.end() if rate and per[0] else stop
        near = _WORD.findall(text, max(0, start - 20), start)[-2:]
        bound = None
        if not _BEFORE_NUMBER.isdisjoint(map(str.lower, near)):
            bound = _BOUND.search(text, max(0, start - 20), start)
        yield Measure(
            value * factor, unit, text[start:stop], start, stop, value,
            bound=_BOUNDS[bound.lastindex - 1][0] if bound and bound.lastindex else "", per=per,
        )  # fmt: skip


_CODE: Final = re.compile(rf"\b({'|'.join(CODES)})\s?$", re.IGNORECASE)


def _parts(text: str) -> Iterator[Measure]:
    for start, end, number, name in part_spans(text):
        unit, factor = UNITS[name]
        approximate = "" if number * factor % 1 == 0 else "~"
        yield Measure(number * factor, unit, text[start:end], start, end, number, bound=approximate)


def _unit(text: str, end: int) -> tuple[str, float, int]:
    at = link.end() if (link := _LINK.match(text, end)) else end
    match = _UNIT_AFTER.match(text, at)
    word = match["unit"].lower().replace(" ", "") if match else ""
    if match is None or word not in UNITS:
        return "", 1.0, end
    return *UNITS[word], match.end()


def agree(said: Measure, stated: Measure) -> bool:
    """Return whether a quantity follows from a stated one: equal, converted, or rounded."""
    if "date" in (said.unit, stated.unit):
        return _same_date(said, stated)
    if said.unit != stated.unit and said.unit and stated.unit:
        return _is_as_warm(said, stated) or _is_loosely(said, stated)
    if (said.unit == "clock") != (stated.unit == "clock"):
        return False
    if said.per[0] and stated.per[0] and said.per[0] != stated.per[0]:
        return False
    one, two = _comparable(said, stated)
    if said.bound in (">", "<") and said.bound != stated.bound:
        return not stated.bound and (one < two if said.bound == ">" else one > two)
    if {said.bound, stated.bound} == {">=", "<="}:
        return False
    if math.isclose(one, two, rel_tol=1e-9) or _is_rounded(said, two):
        return True
    near = bool(said.unit) and math.isclose(one, two, rel_tol=0.004)
    return near and (_is_converted(said, stated) or _has_fewer_decimals(said, stated))


def _is_converted(said: Measure, stated: Measure) -> bool:
    """Return whether two quantities are in different units of one kind."""
    same = math.isclose(said.value * stated.number, stated.value * said.number, rel_tol=1e-9)
    return not same or said.per != stated.per


def _has_fewer_decimals(said: Measure, stated: Measure) -> bool:
    decimals = len(f"{said.number:.9g}".partition(".")[2])
    return math.isclose(round(stated.number, decimals), said.number, rel_tol=1e-9)


def _comparable(said: Measure, stated: Measure) -> tuple[float, float]:
    """Return both values in one unit, for a rate by one unit of what it is by."""
    if not (said.unit and stated.unit):
        return said.number, stated.number
    if said.per[0] and stated.per[0]:
        return said.value / said.per[1], stated.value / stated.per[1]
    return said.value, stated.value


def _is_rounded(said: Measure, value: float) -> bool:
    """Return whether a quantity is a stated value with fewer digits."""
    if not value or not abs(said.value - value) <= 0.05 * abs(value):
        return False
    if said.bound == "~":
        return True
    size = _LARGE.search(said.text)
    if size is None:
        return False
    scale = MAGNITUDES[size[0].lower()]
    decimals = len(f"{said.value / scale:.9g}".partition(".")[2])
    return math.isclose(round(value / scale, decimals) * scale, said.value, rel_tol=1e-9)


_LARGE: Final = re.compile(
    r"(?:million(?:s|en)?|mill[oó]n(?:es)?|billions?|milliard(?:en?|s)?)\b", re.I
)


def _is_loosely(said: Measure, stated: Measure) -> bool:
    """Return whether one of two units is a name of several, such as pound, that the other is of."""
    for one, two in ((said, stated), (stated, said)):
        size = LOOSE.get(one.unit, {}).get(two.unit)
        if size is not None and math.isclose(one.value * size, two.value, rel_tol=0.004):
            return True
    return False


def _is_as_warm(said: Measure, stated: Measure) -> bool:
    if {said.unit, stated.unit} != {"°c", "°f"}:
        return False
    one, two = (m.value if m.unit == "°c" else (m.value - 32) / 1.8 for m in (said, stated))
    return abs(one - two) <= 1  # as people round


def _same_date(said: Measure, stated: Measure) -> bool:
    if said.unit != "date" or stated.unit != "date":
        dated, other = (said, stated) if said.unit == "date" else (stated, said)
        years = {float(year) for year, _, _ in dated.dates}
        # A year follows from a date; a date does not follow from a year.
        return dated is stated and not other.unit and other.value in years
    return any(
        all(a == b for a, b in zip(one, two, strict=True) if a)
        and all(b or not a for a, b in zip(one, two, strict=True))
        for one in said.dates
        for two in stated.dates
    )
