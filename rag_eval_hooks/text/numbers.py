"""Finds numbers in a text, written in digits or in words of four languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from rag_eval_hooks.text.folding import compiled, language, toml_of


class Number(NamedTuple):
    """A number in a text. Numbers are equal across notations."""

    value: Decimal
    percent: bool = False

    def __str__(self) -> str:
        plain = format(self.value, "f")
        if "." in plain:
            plain = plain.rstrip("0").rstrip(".")
        return plain + "%" * self.percent


_MAX_DIGITS = 40  # longer runs are serial numbers or noise, and slow to convert


def _table(name: str) -> dict[str, int]:
    return {word: int(value) for value, words in _DATA[name].items() for word in words.split("|")}


_DATA: Final = toml_of("number_words.toml")
_VALUES: Final = _table("values")
_MAGNITUDES: Final = _table("magnitudes")
_WORDS: Final = sorted(sorted({*_VALUES, *_MAGNITUDES}), key=len, reverse=True)
_PATTERNS: Final = compiled(
    _DATA["patterns"]
    | {"magnitudes": [*_MAGNITUDES], "word": _WORDS}
    # After digits, "cents" is money.
    | {"multiplier": sorted(_MAGNITUDES.keys() - {"cent", "cents"})}
)
_DIGIT = re.compile("[0-9]")
_TYPOGRAPHY = {
    0x2212: "-", 0x2013: "-", 0xFE63: "-", 0xFF0D: "-", 0x066A: "%", 0xFF05: "%",
    0x066B: ".", 0x066C: ",", 0xFF0C: ",", 0xFF0E: ".", 0x2019: "'",
}  # fmt: skip


def numbers(text: str) -> list[Number]:
    """Return the numbers in a text, in order, with repetitions.

    "1,000" is 1000, "0.305 percent" is 0.305 %, "2.5 million" is 2500000, and "1990s" is 1990. A
    comma that cannot group thousands is a decimal comma ("0,305", "1.000,50"). Digits in
    identifiers ("A4b"), versions ("1.2.3") and the markers of a numbered list are excluded.
    """
    return [number for _, _, number in number_spans(text)]


def number_spans(text: str) -> list[tuple[int, int, Number]]:
    """Return each number in order: the start and end of its digits, and its value."""
    text = _plain(text)
    if _DIGIT.search(text) is None:
        return []
    if "\n" in text and len(_PATTERNS["marker"].findall(text)) > 1:
        text = _PATTERNS["marker"].sub(lambda marker: " " * len(marker[0]), text)
    found = ((match, _read(match)) for match in _PATTERNS["number"].finditer(text))
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
    elif _PATTERNS["grouping"].search(digits):
        digits = _PATTERNS["grouping"].sub("", digits).replace(",", ".")
    value = Decimal(digits.replace(",", ""))
    if match["sign"] == "-" or match["inner"]:
        value = -value
    if match["magnitude"]:
        value *= _MAGNITUDES[match["magnitude"].lower()]
    return Number(value, match["percent"] is not None)


# Words that mean something else in English.
_FOREIGN: Final = frozenset(("once", "elf", "dos", "seize", "sept", "mil", "cent", "cents"))
_ONE: Final = frozenset(("one", "ein", "eine", "einen", "einem", "einer", "un", "une", "una", "a"))
_OPENING: Final = frozenset(re.split("[ -]", word)[0] for word in _WORDS)
_WORD: Final = re.compile(r"\w+")


def word_numbers(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and value of each number that is a word, except a single "one"."""
    words = _WORD.findall(text.casefold())
    if _OPENING.isdisjoint(words):
        return  # most sentences: the pattern is slow
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
