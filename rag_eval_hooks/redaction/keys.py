"""Finds secrets: API keys, tokens, private keys and passwords."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import Final

from rag_eval_hooks.redaction.redactor import AFTER_ESCAPE, EAST, Match

_DATA: Final = tomllib.loads(
    resources.files(__package__).joinpath("keys.toml").read_text(encoding="utf-8")
)
# A mark after a word joins two words, as in `cache-key-...`; other marks end a word.
_START: Final = rf"(?:(?<![A-Za-z0-9])(?<![A-Za-z0-9][_-])|{AFTER_ESCAPE})"
_BY_MAKER: Final = re.compile(f"{_START}(?:{'|'.join(_DATA['makers'].values())})", re.ASCII)
_PREFIXED: Final = re.compile(
    rf"(?:(?<![\w/-])|{AFTER_ESCAPE})[A-Za-z][A-Za-z0-9]{{1,15}}[_-]([\w-]{{30,}}+)", re.ASCII
)
"""Matches a possible key of an unlisted provider: a prefix, then letters and digits."""
_ONE_CASE: Final = re.compile(
    r"(?=[A-Z\d]{0,31}[G-Z]|[a-z\d]{0,31}[g-z])(?:[A-Z\d]{32,}|[a-z\d]{32,})"
)
_TURN: Final = re.compile(r"\d(?=[A-Za-z])|[A-Za-z](?=\d)")
_PRIVATE: Final = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_SLASHES: Final = r"\\{0,3}/\\{0,3}/"
_PASSWORD_IN_URL: Final = re.compile(rf":{_SLASHES}[^\s/:@]{{0,64}}:([^\s/@]{{1,128}})@")
_BEARER: Final = re.compile(
    rf"(?:(?<!\w)|{AFTER_ESCAPE})"
    r"(?:Bearer|Basic|(?:(?<=Authorization: )|(?<=Authorization\": \"))[A-Za-z-]{3,20}+)"
    r"\s{1,3}([\w.~+/-]{16,}+={0,2})",
    re.IGNORECASE,
)


def _words(words: Iterable[str]) -> str:
    return "|".join(word.replace(" ", r"[\s_-]?") for word in sorted(words, key=len, reverse=True))


_VALUE: Final = rf"([^\s\"'`,;<>(){{}}\[\]&\\|{EAST}]{{8,256}}+)"
_QUOTES: Final = r"(?:\\{0,3}[\"'`])?"
_NAMED: Final = re.compile(
    rf"(?:{_words(_DATA['names']['any'])}|(?<=[A-Za-z]_)(?:key|pass))"
    rf"[*_]{{0,3}}{_QUOTES}(?:\s{{1,3}}(?:is|ist|lautet|es|est)(?![^\s:=]))?[*_]{{0,3}}"
    r"(?:\s{0,3}(?::=|[:=\uff1a是は为]|=>|\|)\s{0,3}|>|\s[\u2013\u2014-]\s"
    r"|(?:(?<=\sis)|(?<=\sist)|(?<=\slautet)|(?<=\ses)|(?<=\sest))\s{1,3})"
    rf"(?:[*_]{{1,3}}\s{{0,2}})?{_QUOTES}{_VALUE}",
    re.IGNORECASE,
)
_IN_QUERY: Final = re.compile(
    rf"[?&;#](?:{_words(_DATA['names']['url'])})=([^\s\"'`<>&#\\|{EAST}]{{12,1024}}+)",
    re.IGNORECASE,
)
_VARIABLE_OR_KEYS: Final = re.compile(r"\$[A-Z_][A-Z\d_]*|(?:(?:Ctrl|Alt|Shift|Cmd)\+)+\w+")
_DIGIT: Final = re.compile(r"[\d+/=]")
_IN_PROSE: Final = re.compile(r"\A[a-z]+(?:[_-][a-z\d]+)+")
_LETTER: Final = re.compile(r"[A-Za-z]")
_SPECIAL: Final = re.compile(r"[\d!@#$%^&*+=/]")


def keys(text: str) -> Iterator[Match]:
    """Yield keys, tokens, JWTs, passwords and private keys, including incomplete ones."""
    yield from (Match(m.start(), m.end(), "KEY") for m in _BY_MAKER.finditer(text))
    yield from (Match(*m.span(), "KEY") for m in _PREFIXED.finditer(text) if _is_random(m[1]))
    yield from _private_keys(text)
    yield from (_first_group(m) for m in _PASSWORD_IN_URL.finditer(text))
    yield from (_first_group(m) for m in _IN_QUERY.finditer(text) if _turns(m[1]) >= 2)
    for found in _BEARER.finditer(text):
        if _DIGIT.search(found[1]) and not _IN_PROSE.fullmatch(found[1]):
            yield _first_group(found)
    yield from _named(text)


def _first_group(found: re.Match[str]) -> Match:
    return Match(found.start(1), found.end(1), "KEY")


def _named(text: str) -> Iterator[Match]:
    found = _NAMED.search(text)
    while found is not None:
        is_secret = _is_secret(found[1]) and not _is_no_secret_of(found[0], found[1])
        if is_secret:
            yield _first_group(found)
        # The rest may be the name of a secret, or a URL that contains a secret.
        found = _NAMED.search(text, found.end() if is_secret else found.start(1))


def _private_keys(text: str) -> Iterator[Match]:
    start = None
    for mark in _PRIVATE.finditer(text):
        if mark[1] == "BEGIN":
            start = mark.start() if start is None else start
        elif start is not None:
            yield Match(start, mark.end(), "KEY")
            start = None
    if start is not None:
        yield Match(start, len(text), "KEY")


def _is_random(text: str) -> bool:
    """Return whether a text mixes letters and digits as no name, record id or hash does."""
    has_both_cases = not (text.islower() or text.isupper())
    return bool(has_both_cases or _ONE_CASE.search(text)) and _turns(text) >= max(4, len(text) / 10)


def _turns(text: str) -> int:
    """Return how often digits and letters alternate, which is often in keys only."""
    return len(_TURN.findall(text))


def _is_no_secret_of(found: str, value: str) -> bool:
    """Return whether the value is harmless, as in `token: 4096-wide` and `cache_key=user:17`."""
    if found[:5].lower() == "token":
        return len(value) < 16
    return found[:3].lower() == "key" and _turns(value) < 2


def _is_secret(text: str) -> bool:
    """Return whether a text mixes letters with digits or signs, and is no path or variable."""
    text = text.rstrip(".!?:*_")
    is_path = text.startswith(("/", "~/", "./", "${", "$(")) or "://" in text
    is_other = is_path or _VARIABLE_OR_KEYS.fullmatch(text)
    return not is_other and bool(_LETTER.search(text) and _SPECIAL.search(text))
