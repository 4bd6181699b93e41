"""Normalizes texts for comparison, and splits texts into words."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rag_eval_hooks.text import folding

_DISTINCTIVE: Final = 20
"""Minimum width of a text that cannot be in a prompt by coincidence."""
_ENOUGH: Final = 400
_MIN_PROSE: Final = 40
"""Minimum width of a text between two parts that is more than a heading of a part."""
_RUN_WORDS: Final = 4
_WORD_WEIGHT: Final = 5
_WIDE_WEIGHT: Final = 2

_SHORT_ROWS = re.compile(r"\[(?:\(.+\)|\{.+\})\]")
FUNCTION: Final = frozenset[str]().union(*folding.FUNCTION_WORDS.values())
_ODD = frozenset(b'"#&*<>\\_`|~')
_PLAIN = bytes(code for code in range(ord(" "), 127) if code not in _ODD)
_SPACES = "\t\n\r\v\f\x1c\x1d\x1e\x1f"
_MARKED = (*"*`~#|<>_", "](")
# Each alternative starts with a literal, because `re` then skips other characters fast.
_MARKS = re.compile(r"<br ?/?>|>(?<!\S>)>*(?:[> \t]*>)?|#(?<!\S#)#*(?!\S)|\*\*?|__|`|~|\|")
_LINK = re.compile(r"\[([^\]\n]*)\]\([^)\s]*\)")
_ESCAPE = re.compile(
    r"\\\\*(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|([nrtfvb])"
    r"|(\r?\n[ \t]*)|(.)|$)"
)
_NUMBER = re.compile(r"\d+")
_TAG = re.compile(r"<[^<>]*>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FIRST_WIDE = "\u3040"
_WIDE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")


def fold(text: str) -> str:
    """Normalize a text: decode escapes, remove Markdown, collapse white space, and unify quotes."""
    odd = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN)
    if odd.strip() or "](" in text:
        text = _decoded_and_unmarked(text)
    text = text.replace("''", "'")
    # A printable text contains no white space except blanks.
    if not (text.isascii() or text.isprintable()):
        return " ".join(text.split())
    for space in _SPACES if odd else "":
        text = text.replace(space, " ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text.strip(" ")


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
    if text.isascii():
        return text.translate(folding.SPACED).lower().split()
    return list(map(str.lower, _WORD.findall(text)))


def runs_of(folded: str) -> set[str]:
    """Return each sequence of four words, or of ten Chinese, Japanese or Korean characters."""
    return set(_in_a_row(words(folded)))


def run_offsets(folded: str) -> dict[str, int]:
    starts = [match.start() for match in _WORD.finditer(folded)]
    return dict(reversed(list(zip(_in_a_row(words(folded)), starts, strict=False))))


def _in_a_row(listed: Sequence[str]) -> Iterable[str]:
    if max(listed, default="") < _FIRST_WIDE:
        return map(" ".join, zip(*(listed[n:] for n in range(_RUN_WORDS)), strict=False))
    return _wide_runs(listed)


def _wide_runs(listed: Sequence[str]) -> Iterator[str]:
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


def content_words(text: str) -> set[str]:
    left = set(folding.tokens(text)) - folding.STOP_WORDS - FUNCTION
    return {token for token in left if len(token) > 1 or folding.is_content(token)}


def stems(text: str) -> set[str]:
    return set(map(folding.stem, content_words(text)))


def is_distinctive(folded: str) -> bool:
    if len(folded) >= _DISTINCTIVE:
        return True
    return width(folded) >= _DISTINCTIVE or _SHORT_ROWS.fullmatch(folded) is not None


def is_distinctive_text(text: str) -> bool:
    return is_distinctive(fold(text[:_ENOUGH])) or is_distinctive(fold(text[_ENOUGH:]))


def can_answer(text: str, quoted: Iterable[str] = ()) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    asks = all(line.rstrip().endswith(("?", "\uff1f", "\u061f")) for line in lines)
    is_prose = is_distinctive_text(text) and not asks and text.lstrip()[0] not in "{["
    return is_prose and not any(_judges(text, one) for one in quoted)


def _judges(text: str, other: str) -> bool:
    # A revision or translation repeats words, names or numbers of the other text.
    return folding.language(words(other)) is not None and stems(text).isdisjoint(stems(other))


def is_translation(text: str, other: str) -> bool:
    # A verdict or title in another language repeats few names and not all numbers.
    languages = {folding.language(words(one)) for one in (text, other)}
    is_foreign = len(languages) > 1 and None not in languages
    keeps_numbers = set(_NUMBER.findall(other)) <= set(_NUMBER.findall(text))
    return is_foreign and keeps_numbers and not stems(text).isdisjoint(stems(other))


def width(text: str) -> int:
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def prose_around(text: str, parts: Iterable[str]) -> int:
    for part in sorted(parts, key=len, reverse=True):
        text = text.replace(part, "\0")
    widths = [width(_TAG.sub(" ", gap).strip()) for gap in text.split("\0")]
    return sum(one for one in widths if one >= _MIN_PROSE)


def contains_word(text: str, word: str) -> int:
    at = text.find(word)
    while at >= 0 and word.isascii():
        around = text[at - 1 : at] + text[at + len(word) : at + len(word) + 1]
        if not any(c.isalnum() or c == "_" for c in around):
            break
        at = text.find(word, at + 1)
    return at
