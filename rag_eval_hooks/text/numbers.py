"""Numbers in a text, as values: in digits, and in words of four languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from rag_eval_hooks.text.languages import language
from rag_eval_hooks.text.patterns import toml_of


class Number(NamedTuple):
    """A value that a text states; equal values are equal however they are written."""

    value: Decimal
    percent: bool = False

    def __str__(self) -> str:
        """Return the value without grouping or trailing zeros, such as `-0.133%`."""
        plain = format(self.value, "f")
        if "." in plain:
            plain = plain.rstrip("0").rstrip(".")
        return plain + "%" * self.percent


_MAX_DIGITS = 40  # longer runs are serial numbers or noise, and slow to turn into decimals


def _table(name: str) -> dict[str, int]:
    return {word: int(value) for value, words in _DATA[name].items() for word in words.split("|")}


_DATA: Final = toml_of("number_words.toml")
_VALUES: Final = _table("values")
_MAGNITUDES: Final = _table("magnitudes")
_MULTIPLIERS: Final = _MAGNITUDES.keys() - {"cent", "cents"}
"""Magnitudes behind digits: "5 cents" is a sum of money."""

# Letters that make digits part of an identifier: Latin to Armenian, superscripts, fractions.
_ID = (
    "A-Za-z_\u00aa\u00b2\u00b3\u00b5\u00b9\u00ba\u00bc-\u00be\u00c0-\u00d6\u00d8-\u00f6"
    "\u00f8-\u058f\u2070-\u2189"
)
_GAP = "[\u00a0\u2009\u202f']"  # groups digits in French, Swiss and ISO style
_UNITS = (
    "st|nd|rd|th|s|[ap]m|k|m|b|bn|x|c|f|g|h|l|v|w|[kmgt]b|[cdkmn]m|km/h|mph|[km]g|lbs?|oz|ft|in|"
    "yds?|ml|cl|dl|mi|[km]w|kwh|[kmg]?hz|kcal|min|mins|sec|secs|hrs?|yrs?|usd|eur|gbp|px|pt|dpi"
)
_NUMBER = re.compile(
    rf"""
    (?=[-+$€£¥\ .]{{0,3}}[0-9])  # fails fast: most of a text is no number
    (?: (?<![0-9{_ID}])(?<![0-9]\.) | (?<=[0-9]x) )
    (?P<sign> (?<![0-9{_ID})\]])[-+](?=[.0-9$€£¥]) )?
    [$€£¥]?\ ?(?P<inner>(?<=[$€£¥])-)?
    (?P<digits>
        [1-9][0-9]{{0,2}}(?:,[0-9]{{3}}){{1,9}}(?:\.[0-9]+)?(?!,?[0-9])
      | [1-9][0-9]?(?:,[0-9]{{2}}){{1,9}},[0-9]{{3}}(?:\.[0-9]+)?(?!,?[0-9])
      | [1-9][0-9]{{0,2}}(?:{_GAP}[0-9]{{3}}){{1,9}}(?:[.,][0-9]+)?(?!{_GAP}?[0-9])
      | (?P<dots>[0-9]{{1,3}}(?:\.[0-9]{{3}}){{1,9}},[0-9]+ | [0-9]{{1,3}}(?:\.[0-9]{{3}}){{2,9}})
      | (?P<comma>(?<![0-9],)(?:0,[0-9]+ | [0-9]+,[0-9]{{1,2}}))(?![0-9.,]{{0,9}}[0-9])
      | [0-9]*\.[0-9]+
      | [0-9]+
    )
    (?!\.?[0-9])
    (?:
        [ \u00a0\u202f]?(?P<percent>% | (?:percent|per\ cent|prozent|pour\ cent)\b)
      | (?:\ |-)?(?P<magnitude>{"|".join(sorted(_MULTIPLIERS))})s?\b
      | (?:{_UNITS})[\u00b2\u00b3]?(?![0-9{_ID}])
      | (?=x[0-9])
      | (?![{_ID}])
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_DIGIT = re.compile("[0-9]")
_MARKER = re.compile(r"^[ \t]{0,20}[0-9]{1,3}[.)][ \t]+(?=\S)", re.MULTILINE)
_TYPOGRAPHY = {
    0x2212: "-", 0x2013: "-", 0xFE63: "-", 0xFF0D: "-", 0x066A: "%", 0xFF05: "%",
    0x066B: ".", 0x066C: ",", 0xFF0C: ",", 0xFF0E: ".", 0x2019: "'",
}  # fmt: skip


def numbers(text: str) -> list[Number]:
    """Return the numbers that a text states, in order, with repetitions.

    "$604" is 604, "1,000" 1000, "0.305 percent" is 0.305 %, "2.5 million" 2500000, "1990s" 1990.
    Read too: a decimal comma where it cannot group thousands ("0,305", "1,5", "1.000,50"), digits
    of every script, Unicode minus. No numbers: digits inside identifiers ("A4b"), versions
    ("1.2.3"), and the markers of a numbered list of two or more items. A hyphen after a digit
    or letter is no sign.
    """
    return [number for _, _, number in number_spans(text)]


def number_spans(text: str) -> list[tuple[int, int, Number]]:
    """Return start, end of the digits, and value of each number, in order."""
    text = _plain(text)
    if _DIGIT.search(text) is None:
        return []
    if "\n" in text and len(_MARKER.findall(text)) > 1:
        text = _MARKER.sub(lambda marker: " " * len(marker[0]), text)
    found = ((match, _read(match)) for match in _NUMBER.finditer(text))
    return [
        (match.start("digits"), match.end("magnitude" if match["magnitude"] else "digits"), number)
        for match, number in found
        if number is not None
    ]


def _plain(text: str) -> str:
    if text.isascii():
        return text
    foreign = (c for c in set(text) if c > "\x7f" and c.isdecimal())
    digits = {ord(c): str(unicodedata.decimal(c)) for c in foreign}
    return text.translate({**_TYPOGRAPHY, **digits})


def _read(match: re.Match[str]) -> Number | None:
    digits = match["digits"]
    if len(digits) > _MAX_DIGITS:
        return None
    if match["dots"] or match["comma"]:
        digits = digits.replace(".", "").replace(",", ".")
    elif re.search(_GAP, digits):
        digits = re.sub(_GAP, "", digits).replace(",", ".")
    value = Decimal(digits.replace(",", ""))
    if match["sign"] == "-" or match["inner"]:
        value = -value
    if match["magnitude"]:
        value *= _MAGNITUDES[match["magnitude"].lower()]
    return Number(value, match["percent"] is not None)


# Words that mean something else in English.
_FOREIGN: Final = frozenset(("once", "elf", "dos", "seize", "sept", "mil", "cent", "cents"))
_ONE: Final = frozenset(("one", "ein", "eine", "einen", "einem", "einer", "un", "une", "una", "a"))
_ANY = "|".join(sorted(sorted({*_VALUES, *_MAGNITUDES}), key=len, reverse=True))
_RUN: Final = re.compile(
    rf"(?<![\w-])(?<!pour )(?:(?:one|eine?|une?|una|a)[ -](?=(?:{'|'.join(_MAGNITUDES)})\b))?"
    rf"(?:{_ANY})(?:[ -](?:(?:and|et|y)[ -])?(?:{_ANY}|one)(?!\w))*+(?![\w-])",
    re.IGNORECASE,
)
_OPENING: Final = frozenset(re.split("[ -]", word)[0] for word in (*_VALUES, *_MAGNITUDES))
_PIECE: Final = re.compile(rf"{_ANY}|\w+", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")


def word_numbers(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and value of each number that is written as a word, in order.

    A lone "one" is mostly an article or a pronoun, and no number.
    """
    words = _WORD.findall(text.casefold())
    if _OPENING.isdisjoint(words):
        return  # most sentences: the pattern is slow
    english = language(words) in ("en", None)
    for match in _RUN.finditer(text):
        said = match[0].lower()
        value = None if english and said in _FOREIGN else _value(said)
        if value is not None:
            yield *match.span(), value


def _value(words: str) -> int | None:
    if words in _VALUES:
        return _VALUES[words]
    total = part = 0
    for piece in _PIECE.findall(words):
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
