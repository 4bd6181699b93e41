"""Splits text into sentences, with rules for seven languages and Markdown."""

# ruff: noqa: RUF001 - this module handles such characters

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_eval_hooks.text.folding import STOP_WORDS, WORDS

_OPEN, _COUNTED, _CLOSED, _MONTHS = (
    WORDS["abbreviations"][kind] for kind in ("open", "counted", "closed", "months")
)
_MARKER = re.compile(r"^\s{0,20}(?:[-*+•‣▪–—●○◦]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z][)]|#{1,6})[ \t]+")
_END = re.compile(  # starts with a set of characters, which makes the search fast
    r"[。！？｡.!?…؟۔।॥](?:"
    r"(?<=[。！？｡])[。！？｡]{0,9}[」』”’）)\]]{0,9}"
    r"|(?<=[.!?…؟۔।॥])[.!?…؟۔।॥]{0,9}[\"'”’»)\]*_]{0,9}(?=\s|$)"
    r"|(?<=[a-zäöüß\d)]{2}[.!?])(?=[A-ZÄÖÜ][a-zäöüß]))"
)
_BEFORE_WORD = re.compile(r"[\s(\[\"'“‘]")
_NEXT_WORD = re.compile(r"[\s\"'“‘(\[*_]{0,20}([^\W_]{1,40})")
_QUESTION = re.compile(r"[?？؟][\"'”’»」』)\]*_\s]{0,20}$")
_WRAP = 50  # characters; a shorter line without a full stop is a separate sentence


def sentences(text: str) -> list[str]:
    """Split a text into sentences, list items and short lines. Only white space is lost."""
    return [piece for block in _blocks(text) for piece in _split(block)]


def strip_marker(sentence: str) -> str:
    return _MARKER.sub("", sentence).strip()


def is_question(sentence: str) -> bool:
    return _QUESTION.search(sentence) is not None


def _blocks(text: str) -> Iterator[str]:
    block = ""
    for line in text.splitlines():
        wrapped = len(block) >= _WRAP and block[-1] not in ".!?:;…。！？؟۔।"
        if block and line.strip() and wrapped and not _MARKER.match(line):
            block = f"{block} {line.strip()}"
            continue
        if block:
            yield block
        block = line.strip()
    if block:
        yield block


def _split(block: str) -> Iterator[str]:
    marker = _MARKER.match(block)
    start, seen = 0, marker.end() if marker else 0
    for match in _END.finditer(block, seen):
        if match[0][0] == "." and not _ends(block, match):
            continue
        yield block[start : match.end()].strip()
        start = match.end()
    if block[start:].strip():
        yield block[start:].strip()


def _ends(block: str, stop: re.Match[str]) -> bool:
    following = _NEXT_WORD.match(block, stop.end())
    if following is None:
        return True
    word_after = following[1]
    if len(stop[0]) > 1 or word_after[0].islower():
        return not word_after[0].islower()
    return _is_full_stop(block, stop, word_after)


def _is_full_stop(block: str, stop: re.Match[str], word_after: str) -> bool:
    word = _BEFORE_WORD.split(block[max(0, stop.start() - 30) : stop.start()])[-1].casefold()
    if word.isdigit() and word_after.casefold() in _MONTHS:
        return len(word) > 2
    if word in _OPEN or (word in _COUNTED and word_after[0].isdigit()):
        return False
    initials = word.isalpha() if len(word) == 1 else "." in word and len(word) <= 5
    return word_after.casefold() in STOP_WORDS if initials or word in _CLOSED else True
