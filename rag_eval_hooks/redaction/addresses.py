"""Finds e-mail addresses in any script, and IP addresses."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from rag_eval_hooks.redaction.redactor import AFTER_ESCAPE, EAST, Match

# Vowel signs inside words of Indian languages, which `\w` does not match.
_MARKS: Final = "".join(
    chr(c) for c in range(0x300, 0x1100) if unicodedata.category(chr(c))[0] == "M"
)
_MAX_LOCAL_PART: Final = 64  # RFC 5321, section 4.5.3.1.1
_LOCAL: Final = re.compile(rf"(?:(?![{EAST}])[\w{_MARKS}.!#%'*+~-])*+")
_LOCAL_EAST: Final = re.compile(rf"[{EAST}\w.+-]*+")
_TRIM: Final = "!#%'*~.-"
_LABEL: Final = rf"(?![{EAST}])[^\W_](?:(?![{EAST}])[\w{_MARKS}-]){{0,62}}"
_LABEL_EAST: Final = r"[^\W_][\w-]{0,62}"
_DOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,8}}")
_DOMAIN_EAST: Final = re.compile(rf"{_LABEL_EAST}(?:\.{_LABEL_EAST}){{1,8}}")
_STARTS_EAST: Final = re.compile(f"[{EAST}]")
_TOP_LEVEL: Final = re.compile(rf"[^\W\d_](?:[^\W\d_]|[{_MARKS}])+|xn--[\w-]+", re.IGNORECASE)
_PASSWORD_BEFORE: Final = re.compile(r"://[^\s/@]{0,64}:\Z")
_REMOTE_PATH: Final = re.compile(r":[\w~./-]")  # git@host:path is a repository
_IPV4: Final = re.compile(
    rf"(?:(?<![^\W_])(?<!\d\.)|{AFTER_ESCAPE})\d{{1,3}}(?:\.\d{{1,3}}){{3}}"
    r"(?![^\W_]|\.\w|-(?!\d{1,3}\.\d))",
    re.ASCII,
)
_IPV6: Final = re.compile(
    rf"(?:(?<![^\W_])(?<![\da-fA-F:]:)(?<!\.)|{AFTER_ESCAPE})"
    r"(?=[\da-fA-F:]{0,45}\d)[\da-fA-F:]{3,45}+(?:\.\d{1,3}){0,3}(?![^\W_]|:)",
    re.ASCII,
)
_VERSION_BEFORE: Final = re.compile(
    r"(?:version|release|build|section|chapter|clause|§|\bv)[\s:.]{0,2}\Z", re.IGNORECASE
)


def emails(text: str) -> Iterator[Match]:
    """Yield e-mail addresses. The search starts at each `@`, so text without `@` costs nothing."""
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
    local_part = (_LOCAL_EAST if _STARTS_EAST.match(window) else _LOCAL).match(window)
    length = len(local_part[0].rstrip(_TRIM)) if local_part else 0
    end = _domain_end(text, at + 1)
    if not length or end is None or text[at - 1] == ".":
        return None
    start = at - length
    # Text between colon and `@` in a URL is a password; the rule for keys finds it.
    if text[start - 1 : start] == ":" and _PASSWORD_BEFORE.search(text[max(0, start - 72) : start]):
        return None
    return Match(start, end, "EMAIL", text[start:end].casefold())


def _domain_end(text: str, start: int) -> int | None:
    pattern = _DOMAIN_EAST if _STARTS_EAST.match(text, start) else _DOMAIN
    found = pattern.match(text, start, start + 255)
    if found is None:
        return None
    end = found.end()
    while end > start:
        labels = text[start:end].rstrip("-_").split(".")
        if len(labels) < 2:
            return None
        if _TOP_LEVEL.fullmatch(labels[-1]):
            end = start + len(".".join(labels))
            return None if _REMOTE_PATH.match(text, end) else end
        end -= len(text[start:end].split(".")[-1]) + 1
    return None


def ip_addresses(text: str) -> Iterator[Match]:
    """Yield IP addresses. Skip four numbers after a word such as `version`."""
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
