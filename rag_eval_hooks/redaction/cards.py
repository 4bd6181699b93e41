"""Payment cards: numbers that a card can have, by issuer, length and check digit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.matches import ESCAPED, Match

__all__ = ["Cards", "luhn"]

_NUMBER = re.compile(
    rf"(?:(?<![A-Za-z_\d.,+-])|{ESCAPED})"
    r"(?=("
    r"\d{4}([ \u00a0-])\d{4}\2\d{4}\2\d{1,4}(?:\2\d{3})?"
    r"|\d{4}([ \u00a0-])\d{6}\3\d{4,5}"
    r"|\d{14,19})(?![A-Za-z_\d]|[.,-]\d))\d"
)
# Issuer's first digits, and how long its numbers are.
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
_AN_ID = re.compile(
    r"(?:order|invoice|ticket|tracking|case|ref(?:erence)?|\bid|serial|bestell\w*|rechnung\w*|"
    r"auftrag\w*|commande|facture|pedido|factura|ordine|заказ\w*|订单号?|注文番号)"
    r"[\s:#.=]{0,3}(?:(?:no|nr|number|nummer|id|num)\b[\s:#.=]{0,3})?\Z",
    re.IGNORECASE,
)


class Cards:
    """Finds card numbers, in groups or without; the number of an order is none."""

    def matches(self, text: str) -> Iterator[Match]:
        """What has an issuer, the issuer's length and the right check digit."""
        for found in _NUMBER.finditer(text):
            written = found[1]
            digits = "".join(str(int(c)) for c in written if c.isdigit())
            if not (_ISSUERS.fullmatch(digits) and luhn(digits)):
                continue
            start = found.start()
            if written.isdigit() and _AN_ID.search(text[max(0, start - 32) : start]):
                continue
            yield Match(start, start + len(written), "CARD", digits)


def luhn(digits: str) -> bool:
    """Whether the last digit is the check digit by ISO/IEC 7812."""
    doubled = (int(c) * 2 for c in digits[-2::-2])
    total = sum(map(int, digits[-1::-2])) + sum(d - 9 if d > 9 else d for d in doubled)
    return total % 10 == 0 and any(c != "0" for c in digits)
