"""Finds numbers, quantities with units, amounts of money, clock times and dates in a text."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, NamedTuple

from rag_eval_hooks.text.folding import cache_short, compiled, language, matches_of, toml_of


class Number(NamedTuple):
    value: Decimal
    percent: bool = False

    def __str__(self) -> str:
        plain = format(self.value, "f")
        if "." in plain:
            plain = plain.rstrip("0").rstrip(".")
        return plain + "%" * self.percent


@dataclass(frozen=True, slots=True)
class Measure:
    value: float  # in m, g, s, months, liters or bytes; minutes of a clock time; NaN for a date
    unit: str  # base unit, currency, `clock` or `date`; empty for a number without a unit
    text: str
    start: int
    end: int
    number: float = math.nan  # the number before conversion
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
_LOOSE: Final[Mapping[str, Mapping[str, float]]] = _DATA["loose"]  # units with ambiguous names
MONTHS: Final = {
    name: int(number) for number, names in _DATA["months"].items() for name in names.split("|")
}
_MAX_DIGITS = 40  # longer runs of digits are serial numbers or noise, and slow to convert
_WRITTEN: Final = toml_of("number_words.toml")
_VALUES, _MAGNITUDES = (
    {word: int(value) for value, words in _WRITTEN[kind].items() for word in words.split("|")}
    for kind in ("values", "magnitudes")
)
_WORDS: Final = sorted(sorted({*_VALUES, *_MAGNITUDES}), key=len, reverse=True)
_SPECIAL = "\u2212\u2013\ufe63\uff0d\u066a\uff05\u066b\u066c\uff0c\uff0e\u2019"
_TYPOGRAPHY = str.maketrans(_SPECIAL, "----%%.,,.'")
_PATTERNS: Final = compiled(
    {**_DATA["patterns"], "month": sorted(MONTHS, key=len, reverse=True)}
    | {**_WRITTEN["patterns"], "magnitudes": [*_MAGNITUDES], "word": _WORDS}
    # After digits, "cents" means money.
    | {"multiplier": sorted(_MAGNITUDES.keys() - {"cent", "cents"})}
)
_SIGNS: Final = ("$", "€", "£", "¥")
_SHORT: Final = {"k": 1e3, "m": 1e6, "bn": 1e9}
_NOON: Final = 720.0


@cache_short(1024)
def measures(text: str) -> tuple[Measure, ...]:
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
            continue  # "7.30" may also be a number
        hour = hour % 12 + 12 * (half == "p") if half else hour
        yield Measure(float(60 * hour + minute), "clock", match[0], *match.span())


def _numbers(text: str) -> Iterator[Measure]:
    spans = [(a, b, float(one.value), "%" * one.percent) for a, b, one in number_spans(text)]
    spans += [(a, b, float(value), "") for a, b, value in word_numbers(text)]
    for start, end, number, percent in spans:
        if _PATTERNS["label_before"].search(text[max(0, start - 24) : start]):
            continue  # as in "Response 1"
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
    # A rounded number differs by at most 5 %, and is at least a million or stated as approximate.
    if not abs(one - two) <= 0.05 * abs(two) or (one < 1e6 and not said.rough):
        return False
    digits = len(f"{one:.9e}".partition("e")[0].rstrip("0")) - 1
    return said.rough or float(f"{two:.{max(digits - 1, 0)}e}") == one


def _is_loosely(said: Measure, stated: Measure) -> bool:
    return any(
        math.isclose(one.value * size, two.value, rel_tol=0.004)
        for one, two in ((said, stated), (stated, said))
        if (size := _LOOSE.get(one.unit, {}).get(two.unit)) is not None
    )


def _is_as_warm(said: Measure, stated: Measure) -> bool:
    if {said.unit, stated.unit} != {"°c", "°f"}:
        return False
    one, two = (m.value if m.unit == "°c" else (m.value - 32) / 1.8 for m in (said, stated))
    return abs(one - two) <= 1  # typical rounding


def _same_date(said: Measure, stated: Measure) -> bool:
    if said.unit != "date" or stated.unit != "date":
        dated, other = (said, stated) if said.unit == "date" else (stated, said)
        years = {float(year) for year, _, _ in dated.dates}
        # A full date implies its year, but a year implies no full date.
        return dated is stated and not other.unit and other.value in years
    return any(
        all(a == b for a, b in zip(one, two, strict=True) if a)
        for one in said.dates
        for two in stated.dates
    )


def numbers(text: str) -> list[Number]:
    return [number for _, _, number in number_spans(text)]


def number_spans(text: str) -> list[tuple[int, int, Number]]:
    if not text.isascii():
        foreign = (c for c in set(text) if c > "\x7f" and c.isdecimal())
        digits = {ord(c): str(unicodedata.decimal(c)) for c in foreign}
        text = text.translate({**_TYPOGRAPHY, **digits})
    if re.search("[0-9]", text) is None:
        return []
    if "\n" in text and len(_PATTERNS["marker"].findall(text)) > 1:
        text = _PATTERNS["marker"].sub(lambda marker: " " * len(marker[0]), text)
    found = ((match, _read(match)) for match in _PATTERNS["number"].finditer(text))
    return [
        (match.start("digits"), match.end("magnitude" if match["magnitude"] else "digits"), number)
        for match, number in found
        if number is not None
    ]


def _read(match: re.Match[str]) -> Number | None:
    digits = match["digits"]
    if len(digits) > _MAX_DIGITS:
        return None
    # A comma that cannot group thousands is a decimal comma, as in "0,305".
    if match["dots"] or match["comma"]:
        digits = digits.replace(".", "").replace(",", ".")
    elif _PATTERNS["grouping"].search(digits):
        digits = _PATTERNS["grouping"].sub("", digits).replace(",", ".")
    value = Decimal(digits.replace(",", ""))
    if match["sign"] == "-" or match["inner"]:
        value = -value
    if match["magnitude"]:
        value *= _MAGNITUDES[match["magnitude"].lower()]
    return Number(value, match["percent"] is not None)


# words with a second meaning in English
_FOREIGN: Final = frozenset(("once", "elf", "dos", "seize", "sept", "mil", "cent", "cents"))
_ONE: Final = frozenset(("one", "ein", "eine", "einen", "einem", "einer", "un", "une", "una", "a"))
_OPENING: Final = frozenset(re.split("[ -]", word)[0] for word in _WORDS)
_WORD: Final = re.compile(r"\w+")


def word_numbers(text: str) -> Iterator[tuple[int, int, int]]:
    words = _WORD.findall(text.casefold())
    if _OPENING.isdisjoint(words):
        return  # skips most sentences, because the pattern is slow
    english = language(words) in ("en", None)
    for match in _PATTERNS["run"].finditer(text):
        said = match[0].lower()
        value = None if english and said in _FOREIGN else _value(said)
        if value is not None:
            yield *match.span(), value


def _value(words: str) -> int | None:
    if words in _VALUES:
        return _VALUES[words]
    total = part = 0
    for piece in _PATTERNS["piece"].findall(words):
        if piece in _VALUES:
            part += _VALUES[piece]
        elif piece in _MAGNITUDES:
            size = _MAGNITUDES[piece]
            part = (part or 1) * size
            if size > 100:
                total, part = total + part, 0
        elif piece in _ONE:
            part += 1
    return total + part or None
