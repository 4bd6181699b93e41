"""Finds quantities in a text: numbers with units, money, clock times and dates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from rag_eval_hooks.text.folding import compiled, matches_of, toml_of
from rag_eval_hooks.text.numbers import number_spans, word_numbers


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity in a text.

    `value` is in meters, grams, seconds, months, liters or bytes. A clock time is minutes since
    midnight, and a date is NaN.
    """

    value: float
    unit: str  # base unit, currency, `clock` or `date`. Empty for a number without a unit
    text: str
    start: int
    end: int
    number: float = math.nan  # number as written, before conversion
    dates: tuple[tuple[int, int, int], ...] = ()  # possible (year, month, day); 0 is unknown
    rough: bool = False
    bound: bool = False  # whether the text gives the quantity as a bound, such as "more than 50"


_DATA: Final = toml_of("units.toml")
_UNITS: Final[Mapping[str, tuple[str, float]]] = {
    name: (base, float(factor))
    for base, sizes in _DATA["units"].items()
    for factor, names in sizes.items()
    for name in names.split("|")
}
_LOOSE: Final[Mapping[str, Mapping[str, float]]] = _DATA["loose"]  # ambiguous names of units
MONTHS: Final = {
    name: int(number) for number, names in _DATA["months"].items() for name in names.split("|")
}
_PATTERNS: Final = compiled({**_DATA["patterns"], "month": sorted(MONTHS, key=len, reverse=True)})
_SIGNS: Final = ("$", "€", "£", "¥")
_SHORT: Final = {"k": 1e3, "m": 1e6, "bn": 1e9}
_NOON: Final = 720.0


def measures(text: str) -> tuple[Measure, ...]:
    """Return the quantities of a text in order.

    "Response 1", "[2]" and the numbers of list items are labels, not quantities.
    """
    text = _PATTERNS["grouped"].sub(lambda match: match[0].replace(" ", "\u202f"), text)
    found: list[Measure] = []
    taken = bytearray(len(text))
    for made in (*_dates(text), *_clocks(text), *_numbers(text)):
        if not any(taken[made.start : made.end]):
            taken[made.start : made.end] = bytes([1]) * (made.end - made.start)
            found.append(made)
    added: list[Measure] = []
    for made in sorted(found, key=lambda measure: measure.start):
        if added and _goes_on(added[-1], made, text):
            last = added.pop()
            whole, value = text[last.start : made.end], last.value + made.value
            made = replace(last, value=value, text=whole, end=made.end, number=math.nan)
        added.append(made)
    return tuple(added)


def _goes_on(last: Measure, made: Measure, text: str) -> bool:
    smaller = made.unit == last.unit in ("s", "m", "g", "month") and last.number > 0
    joined = smaller and made.value < last.value / last.number
    return joined and _PATTERNS["and"].fullmatch(text[last.end : made.start]) is not None


def _dates(text: str) -> Iterator[Measure]:
    if _PATTERNS["holds_date"].search(text) is None:
        return
    for match in matches_of(_PATTERNS["date"], text):
        part = match.groupdict()
        year, month, day = (
            next((value for name, value in part.items() if name[0] == kind and value), "0")
            for kind in "ymd"
        )
        if part["a"]:
            one, two = int(part["a"]), int(part["b"])
            forms = [(one, two)] if part["sep"] == "." else [(one, two), (two, one)]
            dates = tuple((int(year), month_, day_) for day_, month_ in forms if 0 < month_ <= 12)
        else:
            number = int(month) if month.isdigit() else MONTHS[month.lower()]
            dates = ((int(year), number, int(day)),)
        if dates:
            yield Measure(math.nan, "date", match[0], *match.span(), dates=dates)
        start = match.start()
        if part["d1"] and (first := _PATTERNS["from_day"].search(text[max(0, start - 16) : start])):
            at, end = (max(0, start - 16) + place for place in first.span("day"))
            opening = tuple((year_, month_, int(first["day"])) for year_, month_, _ in dates)
            yield Measure(math.nan, "date", text[at:end], at, end, dates=opening)


def _clocks(text: str) -> Iterator[Measure]:
    for match in matches_of(_PATTERNS["clock"], text):
        if not (match["h"] or match["h2"]):
            yield Measure(_NOON if match["noon"] else 0.0, "clock", match[0], *match.span())
            continue
        hour, minute = int(match["h"] or match["h2"]), int(match["min"] or 0)
        half = (match["half"] or match["half2"] or "").lower()
        if hour > 24 or (match["min"] and "." in match[0] and not half and "Uhr" not in match[0]):
            continue  # 7.30 is a number
        hour = hour % 12 + 12 * (half == "p") if half else hour
        yield Measure(float(60 * hour + minute), "clock", match[0], *match.span())


def _numbers(text: str) -> Iterator[Measure]:
    spans = [(a, b, float(one.value), "%" * one.percent) for a, b, one in number_spans(text)]
    spans += [(a, b, float(value), "") for a, b, value in word_numbers(text)]
    for start, end, number, percent in spans:
        if _PATTERNS["label_before"].search(text[max(0, start - 24) : start]):
            continue
        sign = text[start - 1 : start] if text[start - 1 : start] in _SIGNS else ""
        if sign and (short := _PATTERNS["short_after"].match(text, end)):
            number, end = number * _SHORT[short[1].lower()], short.end()
        name, stop = percent or sign, end
        if not name:
            after = _PATTERNS["unit_after"].match(text, end)
            code = _PATTERNS["code_before"].search(text[max(0, start - 5) : start])
            name = after["unit"].lower().replace(" ", "") if after else ""
            if after and name in _UNITS:
                stop = after.end()
            else:
                name = code[1].lower() if code else ""
        unit, factor = _UNITS.get(name, ("", 1.0))
        before = text[max(0, start - 18) : start]
        yield Measure(
            number * factor, unit, text[start:stop], start, stop, number,
            rough=_PATTERNS["roughly_before"].search(before) is not None,
            bound=_PATTERNS["bound_before"].search(before) is not None,
        )  # fmt: skip


def agree(said: Measure, stated: Measure) -> bool:
    """Return whether two quantities are equal, after conversion or rounding if needed."""
    if "date" in (said.unit, stated.unit):
        return _same_date(said, stated)
    if said.unit != stated.unit and said.unit and stated.unit:
        return _is_as_warm(said, stated) or _is_loosely(said, stated)
    if (said.unit == "clock") != (stated.unit == "clock"):
        return False
    both = bool(said.unit and stated.unit)
    one, two = (said.value, stated.value) if both else (said.number, stated.number)
    if math.isclose(one, two, rel_tol=1e-9) or _is_rounded(said, one, two):
        return True
    converted = not math.isclose(
        said.value * stated.number, stated.value * said.number, rel_tol=1e-9
    )
    return both and converted and math.isclose(one, two, rel_tol=0.004)


def _is_rounded(said: Measure, one: float, two: float) -> bool:
    """Return whether `one` may be `two`, rounded: both differ by at most 5 %."""
    if not abs(one - two) <= 0.05 * abs(two) or (one < 1e6 and not said.rough):
        return False
    digits = len(f"{one:.9e}".partition("e")[0].rstrip("0")) - 1
    return said.rough or float(f"{two:.{max(digits - 1, 0)}e}") == one


def _is_loosely(said: Measure, stated: Measure) -> bool:
    """Return whether an ambiguous unit name, such as pound, may mean the other unit."""
    for one, two in ((said, stated), (stated, said)):
        size = _LOOSE.get(one.unit, {}).get(two.unit)
        if size is not None and math.isclose(one.value * size, two.value, rel_tol=0.004):
            return True
    return False


def _is_as_warm(said: Measure, stated: Measure) -> bool:
    if {said.unit, stated.unit} != {"°c", "°f"}:
        return False
    one, two = (m.value if m.unit == "°c" else (m.value - 32) / 1.8 for m in (said, stated))
    return abs(one - two) <= 1  # common rounding


def _same_date(said: Measure, stated: Measure) -> bool:
    if said.unit != "date" or stated.unit != "date":
        dated, other = (said, stated) if said.unit == "date" else (stated, said)
        years = {float(year) for year, _, _ in dated.dates}
        # A year follows from a date; a date does not follow from a year.
        return dated is stated and not other.unit and other.value in years
    return any(
        all(a == b for a, b in zip(one, two, strict=True) if a)
        for one in said.dates
        for two in stated.dates
    )
