"""Rule for e-mail addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.redaction.rule import Match

__all__ = ["Emails"]

_MAX_LOCAL_PART = 64  # RFC 5321, section 4.5.3.1.1
# Chinese, Japanese and Korean put no spaces around an address and rarely use their own letters in
# one.
_EAST = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_LOCAL = re.compile(rf"(?:(?![{_EAST}])[\w.!#%'*+~-])*+")
_LOCAL_EAST = re.compile(rf"[{_EAST}\w.+-]*+")
_TRIM = "!#%'*~.-"
_LABEL = rf"(?![{_EAST}])[^\W_](?:(?![{_EAST}])[\w-]){{0,62}}"
_LABEL_EAST = r"[^\W_][\w-]{0,62}"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL}){{1,8}}")
_DOMAIN_EAST = re.compile(rf"{_LABEL_EAST}(?:\.{_LABEL_EAST}){{1,8}}")
_IS_EAST = re.compile(f"[{_EAST}]")
_IN_URL = re.compile(r"://[^\s/@]{0,64}:\Z")
_TOP_LEVEL = re.compile(r"[^\W\d_]{2,}|xn--[\w-]+", re.IGNORECASE)
_REMOTE_PATH = re.compile(r":[\w~./-]")  # git@host:path is a repository


class Emails:
    """Finds e-mail addresses in any script."""

    def matches(self, text: str) -> Iterator[Match]:
        """Yield addresses; searches around each `@`, so time does not depend on other text."""
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
    local_part = (_LOCAL_EAST if _IS_EAST.match(window) else _LOCAL).match(window)
    length = len(local_part[0].rstrip(_TRIM)) if local_part else 0
    end = _domain_end(text, at + 1)
    if not length or end is None or text[at - 1] == ".":
        return None
    # Text between colon and `@` in a URL is a password, which the rule for keys finds.
    if text[at - length - 1 : at - length] == ":" and _IN_URL.search(
        text[max(0, at - length - 72) : at - length]
    ):
        return None
    return Match(at - length, end, "EMAIL", text[at - length : end].casefold())


def _domain_end(text: str, start: int) -> int | None:
    """Return the index after the domain that begins at `start`, or None if none does."""
    pattern = _DOMAIN_EAST if _IS_EAST.match(text, start) else _DOMAIN
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
