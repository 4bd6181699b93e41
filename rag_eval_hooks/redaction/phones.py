"""Phone numbers, by the numbering plans of the library `phonenumbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

try:
    import phonenumbers
    from phonenumbers.phonemetadata import PhoneMetadata
except ImportError as missing:
    raise ImportError(
        'redact="phone" needs an extra: pip install "rag-eval-hooks[privacy]"'
    ) from missing

from rag_eval_hooks.redaction.matches import ESCAPED, Match

__all__ = ["REGIONS", "Phones"]

_EUROPE = ("GB", "DE", "FR", "ES", "IT", "NL", "BE", "AT", "CH", "PL", "SE", "NO", "DK", "FI")
_EAST = ("PT", "IE", "CZ", "GR", "RU", "UA", "TR", "IL", "AE", "SA", "EG", "ZA", "IN", "CN", "JP")
REGIONS: Final = ("US", *_EUROPE, *_EAST, "KR", "AU", "NZ", "BR", "MX", "AR", "ID", "VN", "TH")
_MOST_ASKED: Final = 300
"""Candidates in one text that the numbering plans are asked about, at about a millisecond each. A
text with more is no prose; there the rest is taken for numbers unasked."""
_SEPARATOR = r"[ \u00a0\u202f./()\u2010-\u2013-]"
_LAST_GROUP = re.compile(rf"{_SEPARATOR}{{1,3}}\d{{1,15}}\)?\Z")
_WORLD = re.compile(
    rf"(?:(?<![\w+])|{ESCAPED})(?:\+|00)\(?[1-9](?:{_SEPARATOR}{{0,3}}+\d){{6,14}}(?!\d)"
)
_NORTH_AMERICA = re.compile(
    rf"(?:(?<![\w.+$€£-])|{ESCAPED})"
    r"(?:1[ .-])?(?:\(\d{3}\)[ \u00a0]?|\d{3}([.-]))\d{3}(?(1)\1|[ .-])\d{4}"
    r"(?![\w]|[.-]\d)"
)
_TRUNK = re.compile(
    rf"(?:(?<![\w.,+$€£#-])|{ESCAPED})\(?0(?:{_SEPARATOR}{{0,3}}+\d){{7,11}}(?!\d|[.,]\d)"
)
_TOLD = re.compile(
    rf"(?:(?<![A-Za-z_\d.,+$€£#])|{ESCAPED})\(?\d(?:{_SEPARATOR}{{0,2}}+\d){{5,13}}(?!\d|[.,]\d)"
)
_BETWEEN = (
    r"numbers?|no|nr|num|nummer|n[uú]mero|numéro|номер\w*|is|are|at|on|us|me|him|her|them|now|or|and|"
    "direct|office|work|home|line|ist|unter|auf|oder|und|au|le|al|el|es|est|ou|y|il|al|numero"
)
_A_PHONE = re.compile(
    r"(?:\b(?:tel[eé]?(?:fon|phone|fono|foon|fone|fax)?|ph(?:one)?|mobil[ey]?|cell(?:ulare?)?|fax|"
    r"call|dial|ring|text|sms|hotline|helpline|whatsapp|signal|handy|rufnummer|durchwahl|"
    r"t[ée]l(?:[ée]phone)?|portable|m[óo]vil|celular|telemóvel|numer telefonu|"
    r"(?:telefon|handy|mobil|fax)nummer)\b"
    r"|тел(?:ефон\w*)?|моб\w*|電話|电话|電话|手机|携帯|전화|휴대폰|هاتف|جوال|טלפון|फोन|मोबाइल|โทร)"
    rf"(?:[\s:.,()#=\uff1a°+-]|\b(?:{_BETWEEN})\b|[是は号号码番号]){{0,8}}\Z",
    re.IGNORECASE,
)
_AN_ID = re.compile(
    r"(?:isbn(?:-1[03])?|issn|doi|order|invoice|ticket|case|ref(?:erence)?|\bids?|sku|serial|part|"
    r"version|iban|account|konto\w*|tracking|bestell\w*|artikel\w*|rechnung\w*|bar ?code|ean|upc|"
    r"gtin|aktenzeichen|file|dossier|"
    r"page|section|§|#|"
    r"\b(?:no|nr|number|nummer|num)\b|port|zip|plz)[\s:#.=]{0,3}\Z",
    re.IGNORECASE,
)
_DAY, _MONTH = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])"
_DATE = re.compile(
    rf"(?<!\d)(?:(?:{_DAY}([./ -]){_MONTH}\1|{_MONTH}([./-]){_DAY}\2)(?:19|20)\d\d"
    rf"|(?:19|20)\d\d([./-]){_MONTH}\3{_DAY})(?!\d)"
)
_SHORT_DATE = re.compile(rf"{_DAY}([./-]){_MONTH}\1\d\d\D?\d{{0,3}}")
_GOES_BEFORE = re.compile(r"\d\s{0,2}[.\u2010-\u2013-]\s{0,2}\Z")
_DECIMAL = re.compile(r"\d+\.\d+")
_AN_ISBN = re.compile(r"(?:97[89][ -])?\d{1,5}([ -])\d{1,7}\1\d{1,7}\1\d")
_A_UNIT = re.compile(
    r"\s?(?:%|€|\$|£|¥|₹|(?:eur|usd|gbp|chf|euros?|dollars?|km|kg|mm|cm|ms|mb|gb|kb|people|users|"
    r"rows|items|тыс|млн|руб)\b)",  # noqa: RUF001
    re.IGNORECASE,
)


class Phones:
    """Finds phone numbers that exist in some numbering plan and are meant as such.

    With a country's prefix a number speaks for itself. Without it, it must either have the form
    of a phone number, in groups behind a trunk zero or as in North America, or stand behind a
    word such as `Tel.`; dates, ISBNs, amounts and numbers of orders are left alone.

    Args:
        regions: Countries, by two letters, whose numbers are known without their prefix.
    """

    def __init__(self, regions: Sequence[str] = REGIONS) -> None:
        self._regions = tuple(regions)
        # Otherwise they are loaded under a lock with the first number; a process that forks then
        # would leave its child with the lock taken.
        PhoneMetadata.load_all()

    def matches(self, text: str) -> Iterator[Match]:
        """The numbers, each with its international form as its value."""
        asked = _Plans()
        for found in _WORLD.finditer(text):
            if not _A_UNIT.match(text, found.end()):
                yield from _longest(found.start(), found[0], ("ZZ",), asked)
        for pattern in (_NORTH_AMERICA, _TRUNK):
            for found in pattern.finditer(text):
                if _is_meant(text, found.start(), found.end()):
                    yield from _longest(found.start(), found[0], self._regions, asked)
        for found in _TOLD.finditer(text):
            if _is_told(text, found.start(), found.end()):
                yield from _longest(found.start(), found[0], self._regions, asked)


class _Plans:
    """The numbering plans, asked about a bounded number of candidates in one text."""

    def __init__(self) -> None:
        self._left = _MOST_ASKED
        self._told: dict[str, str | None] = {}

    def value(self, written: str, regions: tuple[str, ...]) -> str | None:
        """The international form of a number; its digits where too much was asked already."""
        if written not in self._told:
            if not self._left:
                return re.sub(r"\D", "", written)
            self._left -= 1
            self._told[written] = _valid(written, regions)
        return self._told[written]


def _longest(start: int, written: str, regions: tuple[str, ...], asked: _Plans) -> Iterator[Match]:
    """The longest part of whole groups, from the start, that is a number."""
    if written.startswith("(") and ")" not in written:
        start, written = start + 1, written[1:]
    for _ in range(3):
        value = asked.value("+" + written[2:] if written.startswith("00") else written, regions)
        if value is not None:
            yield Match(start, start + len(written), "PHONE", value)
            return
        cut = _LAST_GROUP.search(written, max(0, len(written) - 20))
        if cut is None:
            return
        written = written[: cut.start()]


def _valid(written: str, regions: tuple[str, ...]) -> str | None:
    for region in regions:
        try:
            number = phonenumbers.parse(written, None if region == "ZZ" else region)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_valid_number(number):
            return str(phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164))
    return None


def _is_meant(text: str, start: int, end: int) -> bool:
    written = text[start:end]
    # Digits alone say nothing: an id may begin with a zero too.
    if written.isdigit() or _is_other(written) or _A_UNIT.match(text, end):
        return False
    before = text[max(0, start - 48) : start]
    if _GOES_BEFORE.search(before) or written.count(")") > written.count("("):
        return False
    return bool(_A_PHONE.search(before)) or not _AN_ID.search(before)


def _is_told(text: str, start: int, end: int) -> bool:
    """Whether a word such as `Tel.` stands before it."""
    if _A_UNIT.match(text, end) or _is_other(text[start:end]):
        return False
    return bool(_A_PHONE.search(text[max(0, start - 48) : start]))


def _is_other(written: str) -> bool:
    wholes = (_SHORT_DATE, _DECIMAL, _AN_ISBN)
    return bool(_DATE.search(written)) or any(whole.fullmatch(written) for whole in wholes)
