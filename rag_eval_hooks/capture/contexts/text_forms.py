"""Forms in which a text may stand in a prompt, and the words by which its parts are known."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence

__all__ = [
    "LEAST_SHINGLES",
    "TELLING",
    "distinct_words",
    "fold",
    "forms",
    "is_telling",
    "is_telling_text",
    "least_shown",
    "shingle_offsets",
    "shingles",
    "width",
    "word_offsets",
    "words",
]

TELLING = 20
"""Characters below which a text may stand in a prompt by chance; a wide one counts as two."""
_SHOWN = 64
"""Characters of a text that must stand in the prompt where its end was cut; wide ones likewise."""
_ENOUGH = 400
"""Characters that are folded to see that a text is long enough."""
_WORD_WEIGHT = 5
_WIDE_WEIGHT = 2
"""Words of Chinese, Japanese and Korean are two or three characters."""
_SHINGLE = 4
"""Words in a row by which a part of a text is known."""
LEAST_SHINGLES = 3
"""Such parts of its own by which a text is known."""

_FEW_ROWS = re.compile(r"\[(?:\(.+\)|\{.+\})\]")
"""Rows of a database, of one short value perhaps."""
_MARKED = re.compile(r"[*`~#|<\[>_]")
_MARKS = re.compile(r"<br ?/?>|^[ \t]*>[> \t]*|^[ \t]*#+ |\*\*|__|[*`~|]", re.MULTILINE)
_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\s]*\)")
_ESCAPED = re.compile(r"[\n\r\t\\'\"&<>\x00-\x1f]|[^\x00-\x7f]")
_FIRST_WIDE = "\u3040"
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")


def fold(text: str) -> str:
    """Return the text in NFKC with white space collapsed, without the marks of Markdown."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if _MARKED.search(text) is not None:
        text = _MARKS.sub(" ", _LINK.sub(r"\1", text) if "](" in text else text)
    return " ".join(text.split())


def forms(text: str) -> Iterator[str]:
    """Yield the folded forms in which formatters write a text, most likely first.

    Inside JSON, as Python's `repr` in either kind of quotes, and with HTML escapes.
    """
    plain = fold(text)
    yield plain
    if _ESCAPED.search(text) is None:
        return
    given = {plain}
    for form in map(fold, _written(text)):
        if form not in given:
            given.add(form)
            yield form


def _written(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    # With a double quote in it, repr takes single quotes.
    yield repr('"' + text)[2:-1]
    escaped = html.escape(text)
    yield escaped
    yield html.escape(text, quote=False)
    yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    # Quote marks that no longer begin a line.
    yield " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of a text in lower case; a wide character is a word."""
    return _WORD.findall(_lowered(text))


def word_offsets(text: str) -> list[tuple[str, int]]:
    """Return the words of a text with their offsets."""
    return [(match[0], match.start()) for match in _WORD.finditer(_lowered(text))]


def distinct_words(text: str) -> set[str]:
    """Return the words of a text as `words` does, each once."""
    return set(words(text))


def shingles(text: str) -> set[str]:
    """Return each four words, or ten wide characters, in a row."""
    return set(_in_a_row(words(text)))


def shingle_offsets(text: str) -> dict[str, int]:
    """Return each of the `shingles` of a text with the offset of its first place."""
    listed = word_offsets(text)
    found: dict[str, int] = {}
    for (_, start), part in zip(listed, _in_a_row([word for word, _ in listed]), strict=False):
        found.setdefault(part, start)
    return found


def _lowered(text: str) -> str:
    """Return a text in lower case, with its offsets: few letters have a longer lower case."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(lower if len(lower := c.lower()) == 1 else c for c in text)


def _in_a_row(listed: Sequence[str]) -> Iterator[str]:
    """Yield what begins with each word, but for the last few, and weighs enough."""
    if max(listed, default="") < _FIRST_WIDE:
        yield from map(" ".join, zip(*(listed[n:] for n in range(_SHINGLE)), strict=False))
        return
    weights = [_WIDE_WEIGHT if word >= _FIRST_WIDE else _WORD_WEIGHT for word in listed]
    weight = end = 0
    for start, own in enumerate(weights):
        while weight < _SHINGLE * _WORD_WEIGHT and end < len(listed):
            weight += weights[end]
            end += 1
        if weight < _SHINGLE * _WORD_WEIGHT:
            return
        yield " ".join(listed[start:end])
        weight -= own


def is_telling(folded: str) -> bool:
    """Return whether a text is not in a prompt by chance: by its length, or as rows are written."""
    return width(folded) >= TELLING or _FEW_ROWS.fullmatch(folded) is not None


def is_telling_text(text: str) -> bool:
    """Return whether a text is long enough once it is folded; of a long one, its beginning is."""
    return is_telling(fold(text[:_ENOUGH])) or (len(text) > _ENOUGH and is_telling(fold(text)))


def width(text: str) -> int:
    """Return the length of a text, in which a wide character counts as two."""
    return len(text) + _wide(text)


def least_shown(folded: str) -> int:
    """Return how much of a cut text's beginning must be in a prompt."""
    return _SHOWN - _wide(folded[:_SHOWN]) // 2


def _wide(text: str) -> int:
    return 0 if text.isascii() else sum(unicodedata.east_asian_width(c) in "WF" for c in text)
