"""IP addresses of both versions."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.matches import ESCAPED, Match

__all__ = ["IpAddresses"]

_FOUR = re.compile(
    rf"(?:(?<![\w.])|{ESCAPED})\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w-]|\.\w)", re.ASCII
)
_SIX = re.compile(
    rf"(?:(?<![\w:.])|{ESCAPED})"
    r"(?=[\da-fA-F:]*\d)[\da-fA-F:]{3,45}+(?:\.\d{1,3}){0,3}(?![\w:])",
    re.ASCII,
)
_A_VERSION = re.compile(
    r"(?:version|release|build|section|chapter|clause|§|\bv)[\s:.]{0,2}\Z", re.IGNORECASE
)


class IpAddresses:
    """Finds IP addresses; a version of four numbers is one only if nothing calls it a version."""

    def matches(self, text: str) -> Iterator[Match]:
        """What the standard library takes for an address."""
        for pattern in (_FOUR, _SIX):
            for found in pattern.finditer(text):
                before = text[max(0, found.start() - 12) : found.start()]
                if _is_address(found[0]) and not _A_VERSION.search(before):
                    yield Match(found.start(), found.end(), "IP", found[0].lower())


def _is_address(text: str) -> bool:
    if text.count(":") < 2 and ":" in text:
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
