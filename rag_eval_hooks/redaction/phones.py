"""Rule for phone numbers, by the numbering plans of the library `phonenumbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

try:
    import phonenumbers
    from phonenumbers.phonemetadata import PhoneMetadata
except ImportError as missing:
    raise ImportError(
        'redact="phone", which "all" brings, needs an extra: pip install "rag-eval-hooks[privacy]"'
    ) from missing

from rag_eval_hooks.redaction.rule import AFTER_ESCAPE, EAST, Match

__all__ = ["REGIONS", "Phones"]

_EUROPE = ("GB", "DE", "FR", "ES", "IT", "NL", "BE", "AT", "CH", "PL", "SE", "NO", "DK", "FI")
_EAST = ("PT", "IE", "CZ", "GR", "RU", "UA", "TR", "IL", "AE", "SA", "EG", "ZA", "IN", "CN", "JP")
REGIONS: Final = ("US", *_EUROPE, *_EAST, "KR", "AU", "NZ", "BR", "MX", "AR", "ID", "VN", "TH")
_MAX_LOOKUPS: Final = 300
"""Candidates of one text that are looked up in the numbering plans, at about a millisecond each.
A text with more is no prose; further candidates count as numbers without a look-up."""
_SEPARATOR = r"[ \u00a0\u202f./()\u2010-\u2013-]"
_LAST_GROUP = re.compile(rf"{_SEPARATOR}{{1,3}}\d{{1,15}}\)?\Z")
_WORLD = re.compile(
    rf"(?:(?<![\w+])|(?<=[{EAST}])|{AFTER_ESCAPE})(?:\+|00)\(?[1-9](?:{_SEPARATOR}{{0,3}}+\d){{6,14}}(?!\d)"
)
_NORTH_AMERICA = re.compile(
    rf"(?:(?<![\w.+$€£-])|{AFTER_ESCAPE})"
    r"(?:1[ .-])?(?:\(\d{3}\)[ \u00a0]?|\d{3}([.-]))\d{3}(?(1)\1|[ .-])\d{4}"
    r"(?![\w]|[.-]\d)"
)
_TRUNK = re.compile(
    rf"(?:(?<![\w.,+$€£#-])|{AFTER_ESCAPE})\(?0(?!\.\d[ ,])"
    rf"(?:{_SEPARATOR}{{0,3}}+\d){{7,11}}(?!\d|[.,]\d|\.[a-z]{{3,4}}\b)"
)
_DIGITS = re.compile(
    rf"(?:(?<![A-Za-z_\d.,+$€£#])|{AFTER_ESCAPE})\(?\d(?:{_SEPARATOR}{{0,2}}+\d){{5,13}}(?!\d|[.,]\d)"
)
_BETWEEN = (
    r"numbers?|no|nr|num|nummer|n[uú]mero|numéro|номер\w*|is|are|at|on|us|me|him|her|them|now|or|and|"
    "direct|office|work|home|line|ist|unter|auf|oder|und|au|le|al|el|es|est|ou|y|il|al|numero"
)
_PHONE_BEFORE = re.compile(
    r"(?:\b(?:tel[eé]?(?:fon|phone|fono|foon|fone|fax)?|ph(?:one)?|mobil[ey]?|cell(?:ulare?)?|fax|"
    r"call|dial|ring|text|sms|hotline|helpline|whatsapp|signal|handy|rufnummer|durchwahl|"
    r"t[ée]l(?:[ée]phone)?|portable|m[óo]vil|celular|telemóvel|numer telefonu|"
    r"(?:telefon|handy|mobil|fax)nummer)\b"
    r"|тел(?:ефон\w*)?|моб\w*|電話|电话|電话|手机|携帯|전화|휴대폰|هاتف|جوال|טלפון|फोन|मोबाइल|โทร)"
    rf"(?:[\s:.,()#=\uff1a°+-]|\b(?:{_BETWEEN})\b|[是は号号码番号번호는은]){{0,8}}\Z",
    re.IGNORECASE,
)
_ID_BEFORE = re.compile(
    r"(?:isbn(?:-1[03])?|issn|doi|order|invoice|ticket|case|ref(?:erence)?|\bids?|sku|serial|part|"
    r"version|iban|account|konto\w*|tracking|bestell\w*|artikel\w*|rechnung\w*|bar ?code|ean|upc|"
    r"gtin|aktenzeichen|file|dossier|"
    r"page|section|article|artikel|ndc|fy \d{4}|§|#|"
    r"\b(?:no|nr|number|nummer|num)\b|port|zip|plz)[\s:#.=]{0,3}\Z",
    re.IGNORECASE,
)
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_DATE = re.compile(
    rf"(?<!\d)(?:(?:{_DAY}([./ -]){_MONTH}\1|{_MONTH}([./-]){_DAY}\2)(?:19|20)\d\d"
    rf"|(?:19|20)\d\d([./-]){_MONTH}\3{_DAY})(?!\d)"
)
_SHORT_DATE = re.compile(rf"{_DAY}([./-]){_MONTH}\1\d\d\D?\d{{0,3}}")
_NUMBER_BEFORE = re.compile(r"\d\s{0,2}[.\u2010-\u2013-]\s{0,2}\Z")
_DECIMAL = re.compile(r"\d+\.\d+")
_ISBN = re.compile(r"(?:97[89][ -])?\d{1,5}([ -])\d{1,7}\1\d{1,7}\1\d")
_UNIT_AFTER = re.compile(
    r"\s?(?:%|€|\$|£|¥|₹|(?:eur|usd|gbp|chf|euros?|dollars?|km|kg|mm|cm|ms|mb|gb|kb|people|users|"
    r"rows|items|тыс|млн|руб)\b)",  # noqa: RUF001
    re.IGNORECASE,
)


class Phones:
    """Finds phone numbers that are valid in some numbering plan and meant as phone numbers.

    A number with a country code needs no further sign. One without must have the form of a phone
    number (groups behind a trunk zero, or the North American form) or follow a word such as
    `Tel.`. Dates, ISBNs, amounts and order numbers are left alone.

    Args:
        regions: Two-letter codes of countries whose numbers are found without a country code.
    """

    def __init__(self, regions: Sequence[str] = REGIONS) -> None:
        self._regions = tuple(regions)
        # Loaded lazily, the plans would be loaded under a lock that a forked child could inherit
        # while it is held.
        PhoneMetadata.load_all()

    def matches(self, text: str) -> Iterator[Match]:
        """Yield the numbers, each with its E.164 form as its value."""
        plans = _NumberingPlans()
        for found in _WORLD.finditer(text):
            if not _UNIT_AFTER.match(text, found.end()):
                yield from _longest_number(found.start(), found[0], ("ZZ",), plans)
        for pattern in (_NORTH_AMERICA, _TRUNK):
            for found in pattern.finditer(text):
                if _is_plausible(text, found.start(), found.end()):
                    yield from _longest_number(found.start(), found[0], self._regions, plans)
        for found in _DIGITS.finditer(text):
            if _is_announced(text, found.start(), found.end()):
                yield from _longest_number(found.start(), found[0], self._regions, plans)


class _NumberingPlans:
    """Numbering plans with a bounded number of look-ups for one text."""

    def __init__(self) -> None:
        self._lookups_left = _MAX_LOOKUPS
        self._numbers: dict[str, str | None] = {}

    def look_up(self, written: str, regions: tuple[str, ...]) -> str | None:
        """Return the E.164 form or None if invalid; only the digits once the bound is reached."""
        if written not in self._numbers:
            if not self._lookups_left:
                return re.sub(r"\D", "", written)
            self._lookups_left -= 1
            self._numbers[written] = _parse(written, regions)
        return self._numbers[written]


def _longest_number(
    start: int, written: str, regions: tuple[str, ...], plans: _NumberingPlans
) -> Iterator[Match]:
    """Yield the longest valid number made of whole groups from the start, if there is one."""
    if written.startswith("(") and ")" not in written:
        start, written = start + 1, written[1:]
    for _ in range(3):
        international = "+" + written[2:] if written.startswith("00") else written
        value = plans.look_up(international, regions)
        if value is not None:
            yield Match(start, start + len(written), "PHONE", value)
            return
        last_group = _LAST_GROUP.search(written, max(0, len(written) - 20))
        if last_group is None:
            return
        written = written[: last_group.start()]


def _parse(written: str, regions: tuple[str, ...]) -> str | None:
    for region in regions:
        try:
            number = phonenumbers.parse(written, None if region == "ZZ" else region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return None


def _is_plausible(text: str, start: int, end: int) -> bool:
    """Return True if digits with the form of a phone number are not something else."""
    written = text[start:end]
    # Ungrouped digits are no evidence: an id may begin with a zero too.
    if written.isdigit() or _is_date_or_decimal(written) or _UNIT_AFTER.match(text, end):
        return False
    before = text[max(0, start - 48) : start]
    if _NUMBER_BEFORE.search(before) or written.count(")") > written.count("("):
        return False
    return bool(_PHONE_BEFORE.search(before)) or not _ID_BEFORE.search(before)


def _is_announced(text: str, start: int, end: int) -> bool:
    """Return True if the digits follow a word such as `Tel.`."""
    if _UNIT_AFTER.match(text, end) or _is_date_or_decimal(text[start:end]):
        return False
    return bool(_PHONE_BEFORE.search(text[max(0, start - 48) : start]))


def _is_date_or_decimal(written: str) -> bool:
    """Return True for text with a date, or that is a short date, a decimal or an ISBN."""
    others = (_SHORT_DATE, _DECIMAL, _ISBN)
    return bool(_DATE.search(written)) or any(other.fullmatch(written) for other in others)
