"""Rules for numbers with a checkable form: payment cards, IBANs and IP addresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.rule import AFTER_ESCAPE, EAST, Match

__all__ = ["Cards", "Ibans", "IpAddresses"]

_CARD_NUMBER = re.compile(
    rf"(?:(?<![A-Za-z_\d.,+-])|{AFTER_ESCAPE})"
    r"(?=("
    r"\d{4}([ \u00a0\u202f-])\d{4}\2\d{4}\2\d{1,4}(?:\2\d{3})?"
    r"|\d{4}([ \u00a0\u202f-])\d{6}\3\d{4,5}"
    r"|\d{14,19})(?![A-Za-z_\d]|[.,-]\d))\d"
)
# First digits of each issuer and the lengths of its numbers.
_ISSUERS = re.compile(
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
_IBAN_START = re.compile(
    rf"(?:(?<![^\W_])|(?<=[{EAST}])|{AFTER_ESCAPE})"
    r"[A-Za-z]{2}\d\d(?=[ \u00a0\u202f-]?[A-Za-z\d])"
)
_WORD_AFTER = re.compile(rf"(?![{EAST}])[^\W_]")
_IBAN_CHARACTER = re.compile(r"[ \u00a0\u202f-]?([A-Za-z\d])")
# Countries by length, from the IBAN registry of SWIFT.
_IBAN_COUNTRIES = {
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
_IBAN_LENGTHS = {country: n for n, countries in _IBAN_COUNTRIES.items() for country in countries}
_IPV4 = re.compile(
    rf"(?:(?<![\w.])|{AFTER_ESCAPE})\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w-]|\.\w)", re.ASCII
)
_IPV6 = re.compile(
    rf"(?:(?<![\w:.])|{AFTER_ESCAPE})"
    r"(?=[\da-fA-F:]*\d)[\da-fA-F:]{3,45}+(?:\.\d{1,3}){0,3}(?![\w:])",
    re.ASCII,
)
_VERSION_BEFORE = re.compile(
    r"(?:version|release|build|section|chapter|clause|§|\bv)[\s:.]{0,2}\Z", re.IGNORECASE
)


class Cards:
    """Finds payment card numbers, grouped or not, whatever word stands before them."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield numbers with a known issuer, one of its lengths and a valid check digit."""
        for found in _CARD_NUMBER.finditer(text):
            written = found[1]
            digits = "".join(str(int(c)) for c in written if c.isdigit())
            if not (_ISSUERS.fullmatch(digits) and _has_check_digit(digits)):
                continue
            start = found.start()
            yield Match(start, start + len(written), "CARD", digits)


def _has_check_digit(digits: str) -> bool:
    """Return True if the last digit is the check digit of ISO/IEC 7812 (Luhn)."""
    doubled = (int(c) * 2 for c in digits[-2::-2])
    total = sum(map(int, digits[-1::-2])) + sum(d - 9 if d > 9 else d for d in doubled)
    return total % 10 == 0 and any(c != "0" for c in digits)


class Ibans:
    """Finds international bank account numbers (ISO 13616), grouped or not."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield numbers with the length of their country and valid check digits."""
        for found in _IBAN_START.finditer(text):
            length = _IBAN_LENGTHS.get(found[0][:2].upper())
            if length is None:
                continue
            value, end = _read_iban(text, found.start(), length)
            complete = len(value) == length and not _WORD_AFTER.match(text, end)
            if complete and _has_check_digits(value):
                yield Match(found.start(), end, "IBAN", value)


def _read_iban(text: str, start: int, length: int) -> tuple[str, int]:
    """Read up to `length` letters and digits; return them and the index after the last."""
    characters, end = "", start
    while len(characters) < length:
        found = _IBAN_CHARACTER.match(text, end)
        if found is None:
            break
        characters += found[1]
        end = found.end()
    return characters.upper(), end


def _has_check_digits(iban: str) -> bool:
    if not iban.isascii():
        return False
    rotated = iban[4:] + iban[:4]
    return int("".join(str(int(c, 36)) for c in rotated)) % 97 == 1


class IpAddresses:
    """Finds IPv4 and IPv6 addresses; four numbers after a word like `version` are none."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield what the standard library parses as an address."""
        for pattern in (_IPV4, _IPV6):
            for found in pattern.finditer(text):
                before = text[max(0, found.start() - 12) : found.start()]
                if _is_address(found[0]) and not _VERSION_BEFORE.search(before):
                    yield Match(found.start(), found.end(), "IP", found[0].lower())


def _is_address(text: str) -> bool:
    if text.count(":") == 1:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
