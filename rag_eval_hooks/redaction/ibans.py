"""International bank account numbers, by country, length and check digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.matches import ESCAPED, Match

__all__ = ["Ibans"]

_START = re.compile(rf"(?:(?<![^\W_])|{ESCAPED})[A-Za-z]{{2}}\d\d(?=[ \u00a0-]?[A-Za-z\d])")
_CHARACTER = re.compile(r"[ \u00a0-]?([A-Za-z\d])")
# Lengths by the registry of SWIFT.
_LENGTHS = {
    length: frozenset(countries.split())
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI FK MN",
        20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG DZ",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
}
_LENGTH_OF = {country: n for n, countries in _LENGTHS.items() for country in countries}


class Ibans:
    """Finds IBANs, written together or in groups."""

    def matches(self, text: str) -> Iterator[Match]:
        """What has the length of its country and check digits that agree with the rest."""
        for found in _START.finditer(text):
            length = _LENGTH_OF.get(found[0][:2].upper())
            if length is not None:
                value, end = _read(text, found.start(), length)
                if len(value) == length and _checks(value) and not _goes_on(text, end):
                    yield Match(found.start(), end, "IBAN", value)


def _read(text: str, start: int, length: int) -> tuple[str, int]:
    characters, end = "", start
    while len(characters) < length:
        found = _CHARACTER.match(text, end)
        if found is None:
            break
        characters += found[1]
        end = found.end()
    return characters.upper(), end


def _goes_on(text: str, end: int) -> bool:
    return text[end : end + 1].isalnum()


def _checks(value: str) -> bool:
    if not value.isascii():
        return False
    turned = value[4:] + value[:4]
    return int("".join(str(int(c, 36)) for c in turned)) % 97 == 1
