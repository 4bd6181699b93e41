"""Finds payment cards and IBANs by check digits, and phone numbers by numbering plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.redaction.redactor import AFTER_ESCAPE, EAST, Match

try:
    from phonenumbers import PhoneNumberFormat, PhoneNumberMatcher, format_number
    from phonenumbers.phonemetadata import PhoneMetadata
    from stdnum import iban, luhn, numdb
except ImportError as missing:
    raise missing_extra('redact="card", "iban", "phone" or "all"', "privacy") from missing

_SPACE: Final = "[ \u00a0\u202f-]"
# Digits after `0.` are a fraction. After a minus sign, 18 or more digits are a hash.
_CARD: Final = re.compile(
    rf"(?:(?<![A-Za-z\d])(?<!\d\.)|{AFTER_ESCAPE})"
    rf"(?=(\d{{4}}({_SPACE})\d{{4}}\2\d{{4}}\2\d{{1,4}}(?:\2\d{{3}})?"
    rf"|\d{{4}}({_SPACE})\d{{6}}\3\d{{4,5}}"
    r"|\d{14,17}|(?<!-)\d{18,19})(?![A-Za-z\d]))\d"
)
# First digits of each issuer and the lengths of its numbers.
_ISSUERS: Final = re.compile(
    r"4(?:\d{15}|\d{18})"  # Visa
    r"|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"  # Mastercard
    r"|3[47]\d{13}"  # American Express
    r"|3(?:0[0-59]|[689]\d)\d{11,16}"  # Diners
    r"|(?:6011|64[4-9]\d|65\d\d)\d{12,15}"  # Discover
    r"|35(?:2[89]|[3-8]\d)\d{12,15}"  # JCB
    r"|62\d{14,17}|81\d{14,17}"  # UnionPay
    r"|(?:50|5[6-8]|6[0378])\d{12,17}"  # Maestro
    r"|220[0-4]\d{12,15}"  # Mir
)
_IBAN: Final = re.compile(
    rf"(?:(?<![^\W_])|(?<=[{EAST}])|{AFTER_ESCAPE})"
    rf"(?=[A-Za-z]{{2}}[0-9]{{2}}{_SPACE}?[A-Za-z0-9])[A-Za-z0-9](?:{_SPACE}?[A-Za-z0-9]){{14,33}}+"
)
_REGISTRY: Final = numdb.get("iban")
_LENGTH: Final = re.compile(r"(\d{1,2})!?[nac]")
_WORD_AFTER: Final = re.compile(rf"(?![{EAST}])[^\W_]")


def cards(text: str) -> Iterator[Match]:
    """Yield card numbers with a known issuer, the issuer's length and a valid check digit."""
    for found in _CARD.finditer(text):
        digits = "".join(str(int(each)) for each in found[1] if each.isdigit())
        if _ISSUERS.fullmatch(digits) and luhn.is_valid(digits):
            yield Match(found.start(), found.start() + len(found[1]), "CARD", digits)


def ibans(text: str) -> Iterator[Match]:
    """Yield IBANs (ISO 13616) with their country's format and valid check digits."""
    at = 0
    while (found := _IBAN.search(text, at)) is not None:
        written = _of_its_length(found[0])
        end = found.start() + len(written)
        value = re.sub(_SPACE, "", written).upper()
        if iban.is_valid(value, check_country=False) and not _WORD_AFTER.match(text, end):
            yield Match(found.start(), end, "IBAN", value)
            at = end
        else:
            at = found.start() + 4


def _of_its_length(written: str) -> str:
    """Cut the text to the length of the country's IBANs."""
    ((_, country),) = _REGISTRY.info(written[:2].upper())[:1]
    length = 4 + sum(map(int, _LENGTH.findall(country.get("bban", ""))))
    ends = [place.end() for place in re.finditer("[A-Za-z0-9]", written)]
    return written[: ends[length - 1]] if length <= len(ends) else ""


_MAX_LOOKUPS: Final = 1000
"""Maximum number of distinct candidates to look up per text, at about 1 ms each.

A text with more candidates is a table of numbers. All further candidates are phone numbers.
"""
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
    """Finds valid phone numbers. In the configured regions, a country code is not required."""

    def __init__(self, regions: Sequence[str] = ()) -> None:
        self._regions = tuple(regions)
        # Lazy loading takes a lock, which a forked child could inherit while held.
        PhoneMetadata.load_all()

    def matches(self, text: str) -> Iterator[Match]:
        """Yield phone numbers, each with its E.164 form as the value."""
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
