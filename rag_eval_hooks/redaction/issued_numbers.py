"""Finds payment cards and IBANs by check digits, and phone numbers by numbering plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.redaction.redactor import Finder, Match, expressions

try:
    from phonenumbers import PhoneNumberFormat, PhoneNumberMatcher, format_number
    from phonenumbers.phonemetadata import PhoneMetadata
    from stdnum import iban, luhn, numdb
except ImportError as missing:
    raise missing_extra('redact="card", "iban", "phone" or "all"', "privacy") from missing

_FORMS: Final = expressions("issued_numbers")
_REGISTRY: Final = numdb.get("iban")
# Maximum number of distinct candidates to look up per text, at about 1 ms each. A text with more
# candidates is a table of numbers. The rule then treats all further candidates as phone numbers.
_MAX_LOOKUPS: Final = 1000


def cards(text: str) -> Iterator[Match]:
    for found in _FORMS["card"].finditer(text):
        digits = "".join(str(int(each)) for each in found[1] if each.isdigit())
        if _FORMS["issuers"].fullmatch(digits) and luhn.is_valid(digits):
            yield Match(found.start(), found.start() + len(found[1]), "CARD", digits)


def ibans(text: str) -> Iterator[Match]:
    at = 0
    while (found := _FORMS["iban"].search(text, at)) is not None:
        written = _of_its_length(found[0])
        end = found.start() + len(written)
        value = _FORMS["space"].sub("", written).upper()
        if iban.is_valid(value, check_country=False) and not _FORMS["word"].match(text, end):
            yield Match(found.start(), end, "IBAN", value)
            at = end
        else:
            at = found.start() + 4


def _of_its_length(written: str) -> str:
    ((_, country),) = _REGISTRY.info(written[:2].upper())[:1]
    length = 4 + sum(map(int, _FORMS["iban_part"].findall(country.get("bban", ""))))
    ends = [place.end() for place in re.finditer("[A-Za-z0-9]", written)]
    return written[: ends[length - 1]] if length <= len(ends) else ""


def phones(regions: Sequence[str]) -> Finder:
    # Lazy loading takes a lock, and a forked child could inherit the held lock.
    PhoneMetadata.load_all()
    return partial(_phones, regions)


def _phones(regions: Sequence[str], text: str) -> Iterator[Match]:
    known: dict[str, list[Match]] = {}
    for form, countries in (("world", ("ZZ",)), ("national", regions)):
        for found in _FORMS[form].finditer(text) if countries else ():
            written, shift = found[0], found.start()
            if written not in known and len(known) < _MAX_LOOKUPS:
                known[written] = _looked_up(written, countries)
            elif written not in known:
                yield Match(shift, found.end(), "PHONE", re.sub(r"\D", "", written))
            for match in known.get(written, ()):
                yield Match(match.start + shift, match.end + shift, "PHONE", match.value)


def _looked_up(written: str, regions: Sequence[str]) -> list[Match]:
    if _FORMS["no_phone"].fullmatch(written):
        return []
    skipped = _FORMS["list_number"].match(written)
    begin = skipped.end() if skipped else 0
    plain, offset = written[begin:], begin
    if regions == ("ZZ",) and (prefix := _FORMS["plus"].match(plain)):
        plain, offset = "+" + plain[prefix.end() :], begin + prefix.end() - 1
    for region in regions:
        matches = [
            Match(
                # A prefix such as "00", which replaces the plus sign, belongs to the number.
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
