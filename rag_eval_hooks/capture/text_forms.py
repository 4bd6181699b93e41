"""Removes escape characters and markup from texts, and splits texts into words."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

_DISTINCTIVE: Final = 20
"""Minimum width of a text that cannot be in a prompt by coincidence."""
_ENOUGH: Final = 400
_RUN_WORDS: Final = 4
_WORD_WEIGHT: Final = 5
_WIDE_WEIGHT: Final = 2

_SHORT_ROWS = re.compile(r"\[(?:\(.+\)|\{.+\})\]")
_PLAIN = re.compile(r"[ \t\n\r!$%'()+,\-./0-9:;=?@A-Z\[\]^a-z{}]*+")
_MARKED = (*"*`~#|<>_", "](")
_MARKS = re.compile(r"<br ?/?>|(?<!\S)>+(?:[> \t]*>)?|(?<!\S)#+(?!\S)|\*\*|__|[*`~|]")
_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\s]*\)")
_ESCAPE = re.compile(
    r"\\+(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([nrtfvb])"
    r"|(\r?\n[ \t]*)|(.)|$)"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_WIDE = "\u3040"
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")


def fold(text: str) -> str:
    """Normalize a text: decode escapes, remove Markdown, collapse white space, and unify quotes."""
    if _PLAIN.fullmatch(text) is None or "](" in text:
        text = _decoded_and_unmarked(text)
    text = text.replace("''", "'")
    # A printable text contains no white space except blanks.
    if text.isprintable() and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


def _decoded_and_unmarked(text: str) -> str:
    if "\\" in text:
        text = _ESCAPE.sub(_decoded, text)
        if _SURROGATE.search(text) is not None:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "&" in text:
        text = html.unescape(html.unescape(text))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if any(mark in text for mark in _MARKED):
        text = _MARKS.sub(" ", _LINK.sub(r"\1", text) if "](" in text else text)
    return text.replace('"', "'")


def _decoded(match: re.Match[str]) -> str:
    codes = match[1] or match[2] or match[3]
    if codes is not None:
        code = int(codes, 16)
        return chr(code) if code <= 0x10FFFF else " "
    if match[4]:
        return "\n"
    # A line that ends in a backslash continues in the next line.
    return "" if match[5] else match[6] or ""


def words(text: str) -> list[str]:
    return list(map(str.lower, _WORD.findall(text)))


def runs_of(folded: str) -> set[str]:
    """Return all sequences of four words, or of ten Chinese, Japanese or Korean characters."""
    return set(_in_a_row(words(folded)))


def run_offsets(folded: str) -> dict[str, int]:
    matches = [(match[0].lower(), match.start()) for match in _WORD.finditer(folded)]
    found: dict[str, int] = {}
    for (_, start), run in zip(matches, _in_a_row([word for word, _ in matches]), strict=False):
        found.setdefault(run, start)
    return found


def _in_a_row(listed: Sequence[str]) -> Iterator[str]:
    if max(listed, default="") < _FIRST_WIDE:
        yield from map(" ".join, zip(*(listed[n:] for n in range(_RUN_WORDS)), strict=False))
        return
    weights = [_WIDE_WEIGHT if word >= _FIRST_WIDE else _WORD_WEIGHT for word in listed]
    weight = end = 0
    for start, own in enumerate(weights):
        while weight < _RUN_WORDS * _WORD_WEIGHT and end < len(listed):
            weight += weights[end]
            end += 1
        if weight < _RUN_WORDS * _WORD_WEIGHT:
            return
        yield " ".join(listed[start:end])
        weight -= own


def is_distinctive(folded: str) -> bool:
    if len(folded) >= _DISTINCTIVE:
        return True
    return width(folded) >= _DISTINCTIVE or _SHORT_ROWS.fullmatch(folded) is not None


def is_distinctive_text(text: str) -> bool:
    return is_distinctive(fold(text[:_ENOUGH])) or is_distinctive(fold(text[_ENOUGH:]))


def width(text: str) -> int:
    """Return the length of a text. A wide character counts as two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def contains_word(text: str, word: str) -> int:
    if word not in text:
        return -1
    edges = (r"(?<!\w)", r"(?!\w)") if word.isascii() else ("", "")
    match = re.search(f"{edges[0]}{re.escape(word)}{edges[1]}", text)
    return -1 if match is None else match.start()
