"""Phone numbers, by the numbering plans of the library `phonenumbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.redaction.rule import AFTER_ESCAPE, EAST, Match

try:
    from phonenumbers import PhoneNumberFormat, PhoneNumberMatcher, format_number
    from phonenumbers.phonemetadata import PhoneMetadata
except ImportError as missing:
    raise missing_extra('redact="phone" or "all"', "privacy") from missing

__all__ = ["Phones"]

_MAX_LOOKUPS: Final = 1000
"""Distinct candidates of one text to look up, at about a millisecond each. A text with more is a
table of numbers; further candidates count as phone numbers."""
_SEPARATOR: Final = r"[ \u00a0\u202f./()\u2010-\u2013-]"
_START: Final = rf"(?:(?<![^\W_])|(?<=[{EAST}])|{AFTER_ESCAPE})"
# `00` must be followed by groups: many bar codes start with two zeros.
_WORLD: Final = re.compile(
    rf"{_START}(?:(?:(?<!\+)\+|%2[Bb]){_SEPARATOR}?[1-9]|00(?=\d{{1,3}}{_SEPARATOR})[1-9])"
    rf"(?:{_SEPARATOR}{{0,3}}+\d){{6,18}}(?!\d)"
)
# Digits after `0.` are a fraction, and after a currency sign an amount.
_NATIONAL: Final = re.compile(
    rf"{_START}(?<!\d\.)(?<![+$€£])\(?\d(?:{_SEPARATOR}{{0,3}}+\d){{5,18}}(?!\d|\.\d)"
)
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_NO_PHONE: Final = re.compile(
    r"\A(?:\+?\d{4,}\.\d+|\d+\.\d+"  # decimals
    r"|(?:97[89][ -])?\d{1,5}([ -])\d{1,7}\1\d{1,7}\1\d"  # an ISBN
    rf"|(?:{_DAY}[./-]{_MONTH}|{_MONTH}[./-]{_DAY})[./-](?:\d\d|(?:19|20)\d\d\b.*)"
    rf"|(?:19|20)\d\d[./-]{_MONTH}[./-]{_DAY}\b.*)"
)
_LIST_NUMBER: Final = re.compile(r"\d{1,3}[.)] ")


class Phones:
    """Finds valid phone numbers; in some regions also without a country code."""

    def __init__(self, regions: Sequence[str] = ()) -> None:
        self._regions = tuple(regions)
        # Lazy loading takes a lock, which a forked child could inherit while held.
        PhoneMetadata.load_all()

    def matches(self, text: str) -> Iterator[Match]:
        """Yield the numbers, each with its E.164 form as its value."""
        known: dict[str, list[Match]] = {}
        for pattern, regions in ((_WORLD, ("ZZ",)), (_NATIONAL, self._regions)):
            for found in pattern.finditer(text) if regions else ():
                written, shift = found[0], found.start()
                if written not in known and len(known) < _MAX_LOOKUPS:
                    known[written] = _looked_up(written, regions)
                elif written not in known:
                    value = re.sub(r"\D", "", written)
                    yield Match(shift, found.end(), "PHONE", value)
                for match in known.get(written, ()):
                    yield Match(match.start + shift, match.end + shift, "PHONE", match.value)


def _looked_up(written: str, regions: Sequence[str]) -> list[Match]:
    """Return the numbers in a text of digits and separators."""
    if _NO_PHONE.fullmatch(written):
        return []
    skipped = _LIST_NUMBER.match(written)
    begin = skipped.end() if skipped else 0
    plain, offset = written[begin:], begin
    if regions == ("ZZ",) and (prefix := re.match("%2[Bb]|00", plain)):
        plain, offset = "+" + plain[prefix.end() :], begin + prefix.end() - 1
    for region in regions:
        matches = [
            Match(
                # The substitute for the sign belongs to the number.
                number.start + offset if number.start else begin,
                number.end + offset,
                "PHONE",
                str(format_number(number.number, PhoneNumberFormat.E164)),
            )
            for number in PhoneNumberMatcher(plain, region)
        ]
        if matches:
            return matches
    return []
