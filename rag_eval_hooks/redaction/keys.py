"""Finds secrets: API keys, tokens, private keys and passwords."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rag_eval_hooks.redaction.redactor import Match, expressions
from rag_eval_hooks.text.folding import toml_of


def _words(words: Iterable[str]) -> str:
    return "|".join(word.replace(" ", r"[\s_-]?") for word in sorted(words, key=len, reverse=True))


_DATA: Final = toml_of("keys.toml", __package__ or "")
_NAMES: Final = {name: _words(words) for name, words in _DATA["names"].items()}
_FORMS: Final = expressions("keys", makers="|".join(_DATA["makers"].values()), **_NAMES)


def keys(text: str) -> Iterator[Match]:
    for name in ("by_maker", "private"):
        yield from (Match(*m.span(), "KEY") for m in _FORMS[name].finditer(text))
    yield from (
        Match(*m.span(), "KEY") for m in _FORMS["prefixed"].finditer(text) if _is_random(m[1])
    )
    yield from (_first_group(m) for m in _FORMS["password_in_url"].finditer(text))
    yield from (_first_group(m) for m in _FORMS["in_query"].finditer(text) if _turns(m[1]) >= 2)
    for found in _FORMS["bearer"].finditer(text):
        if _FORMS["digit"].search(found[1]) and not _FORMS["in_prose"].fullmatch(found[1]):
            yield _first_group(found)
    yield from _named(text)


def _first_group(found: re.Match[str]) -> Match:
    return Match(found.start(1), found.end(1), "KEY")


def _named(text: str) -> Iterator[Match]:
    found = _FORMS["named"].search(text)
    while found is not None:
        is_secret = _is_secret(found[1]) and not _is_no_secret_of(found[0], found[1])
        if is_secret:
            yield _first_group(found)
        # After a harmless value, search again inside the value, which may name or contain a secret.
        found = _FORMS["named"].search(text, found.end() if is_secret else found.start(1))


def _is_random(text: str) -> bool:
    has_both_cases = not (text.islower() or text.isupper())
    return bool(has_both_cases or _FORMS["one_case"].search(text)) and _turns(text) >= max(
        4, len(text) / 10
    )


def _turns(text: str) -> int:
    # Random texts change often between digits and letters.
    return len(_FORMS["turn"].findall(text))


def _is_no_secret_of(found: str, value: str) -> bool:
    # `token: 4096-wide` and `cache_key=user:17` contain no secret.
    if found[:5].lower() == "token":
        return len(value) < 16
    return found[:3].lower() == "key" and _turns(value) < 2


def _is_secret(text: str) -> bool:
    text = text.rstrip(".!?:*_")
    is_path = text.startswith(("/", "~/", "./", "${", "$(")) or "://" in text
    is_other = is_path or _FORMS["variable_or_keys"].fullmatch(text)
    return not is_other and bool(_FORMS["letter"].search(text) and _FORMS["special"].search(text))
