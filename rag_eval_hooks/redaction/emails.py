"""E-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.matches import Match

__all__ = ["Emails"]

_LONGEST = 64  # of the part before the sign, by RFC 5321
# Chinese, Japanese and Korean put no space around an address, and write few in own letters.
_EAST = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_BEFORE = re.compile(rf"(?:(?![{_EAST}])[\w.!#%'*+~-])*+")
_BEFORE_EAST = re.compile(rf"[{_EAST}\w.+-]*+")
_TRIM = "!#%'*~.-"
_LABEL = rf"(?![{_EAST}])[^\W_](?:(?![{_EAST}])[\w-]){{0,62}}"
_LABEL_EAST = r"[^\W_][\w-]{0,62}"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,8}}")
_DOMAIN_EAST = re.compile(rf"{_LABEL_EAST}(?:\.{_LABEL_EAST}){{1,8}}")
_IS_EAST = re.compile(f"[{_EAST}]")
_IN_URL = re.compile(r"://[^\s/@]{0,64}:\Z")
_LAST = re.compile(r"[^\W\d_]{2,}|xn--[\w-]+", re.IGNORECASE)
_REMOTE_PATH = re.compile(r":[\w~./-]")  # git@host:path is a place, not a person's address


class Emails:
    """Finds e-mail addresses of any script."""

    def matches(self, text: str) -> Iterator[Match]:
        """Looks around each `@`, so its time does not depend on what else is there."""
        last = 0
        at = text.find("@")
        while at >= 0:
            match = _around(text, at, last)
            if match is not None:
                yield match
                last = match.end
            at = text.find("@", at + 1)


def _around(text: str, at: int, earliest: int) -> Match | None:
    window = text[max(earliest, at - _LONGEST) : at][::-1]
    before = _BEFORE_EAST if _IS_EAST.match(window) else _BEFORE
    length = len(window[: _end(before, window)].rstrip(_TRIM))
    end = _domain_end(text, at + 1)
    if not length or end is None or text[at - 1] == ".":
        return None
    # What stands between the colon and the sign of a URL is a password: the rule for keys.
    if text[at - length - 1 : at - length] == ":" and _IN_URL.search(
        text[max(0, at - length - 72) : at - length]
    ):
        return None
    return Match(at - length, end, "EMAIL", text[at - length : end].casefold())


def _domain_end(text: str, start: int) -> int | None:
    pattern = _DOMAIN_EAST if _IS_EAST.match(text, start) else _DOMAIN
    found = pattern.match(text, start, start + 255)
    if found is None:
        return None
    end = found.end()
    while end > start:
        labels = text[start:end].rstrip("-_").split(".")
        if len(labels) < 2:
            return None
        if _LAST.fullmatch(labels[-1]):
            end = start + len(".".join(labels))
            return None if _REMOTE_PATH.match(text, end) else end
        end -= len(text[start:end].split(".")[-1]) + 1
    return None


def _end(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.match(text)
    return 0 if found is None else found.end()
