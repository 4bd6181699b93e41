"""Finds e-mail addresses in any script, and IP addresses."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.redaction.redactor import Match, expressions

# Vowel signs inside words of Indian languages, which `\w` does not match.
_MARKS: Final = "".join(
    chr(c) for c in range(0x300, 0x1100) if unicodedata.category(chr(c))[0] == "M"
)
_FORMS: Final = expressions("addresses", marks=_MARKS)
_MAX_LOCAL_PART: Final = 64  # RFC 5321, section 4.5.3.1.1
_TRIM: Final = "!#%'*~.-"


def emails(text: str) -> Iterator[Match]:
    last = 0
    at = text.find("@")
    while at >= 0:
        match = _match_around(text, at, last)
        if match is not None:
            yield match
            last = match.end
        at = text.find("@", at + 1)


def _match_around(text: str, at: int, earliest: int) -> Match | None:
    window = text[max(earliest, at - _MAX_LOCAL_PART) : at][::-1]
    local_part = _form("local", window).match(window)
    length = len(local_part[0].rstrip(_TRIM)) if local_part else 0
    end = _domain_end(text, at + 1)
    if not length or end is None or text[at - 1] == ".":
        return None
    start = at - length
    # In a URL, the text between colon and `@` is a password. The rule `key` finds passwords.
    if _FORMS["password_before"].search(text[max(0, start - 72) : start]):
        return None
    return Match(start, end, "EMAIL", text[start:end].casefold())


def _form(name: str, text: str, start: int = 0) -> re.Pattern[str]:
    return _FORMS[f"{name}_east" if _FORMS["starts_east"].match(text, start) else name]


def _domain_end(text: str, start: int) -> int | None:
    found = _form("domain", text, start).match(text, start, start + 255)
    if found is None:
        return None
    end = found.end()
    while end > start:
        labels = text[start:end].rstrip("-_").split(".")
        if len(labels) < 2:
            return None
        if _FORMS["top_level"].fullmatch(labels[-1]):
            end = start + len(".".join(labels))
            return None if _FORMS["remote_path"].match(text, end) else end
        end -= len(text[start:end].split(".")[-1]) + 1
    return None


def ip_addresses(text: str) -> Iterator[Match]:
    for name in ("ipv4", "ipv6"):
        for found in _FORMS[name].finditer(text):
            before = text[max(0, found.start() - 12) : found.start()]
            if _is_address(found[0]) and not _FORMS["version_before"].search(before):
                yield Match(found.start(), found.end(), "IP", found[0].lower())


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
