"""Language as the truthful judge knows it: sentences, words and names by plain rules."""

# ruff: noqa: RUF001 - it reads such characters

from __future__ import annotations

import re
from functools import lru_cache

ENTITY = re.compile(
    r"(?<![A-Za-z\d])(?:[A-ZÄÖÜ][a-zäöüß]+(?: [A-ZÄÖÜ][a-zäöüß]+)*|\d[\d.,]*\d|\d)"
    r"(?![A-Za-zäöüß\d])|(?<=「).+?(?=」)"
)
"""Names with capitals or in corner brackets, and numbers."""

_EVASION = (
    "do not know",
    "don't know",
    "not sure",
    "cannot say",
    "weiß nicht",
    "我不知道",
    "わかりません",
    "لا أعرف",
)
_STOP = re.compile(r"(?<=[.!?؟])\s+|(?<=[。！？])")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_ASCII_WORD = re.compile(r"\w{4,}", re.ASCII)
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2,}|(?:(?![\u3040-\u30ff\u4e00-\u9fff])\w){4,}")
QUESTION_FORMS = ("Is it true that {}?", "Who says that {}?", "Why is it that {}?")


def sentences(text: str) -> list[str]:
    parts = [part.strip() for part in _STOP.split(text)]
    return [part.rstrip(".!。！") for part in parts if part and part[-1] not in "?？؟"]


def evasive(text: str) -> bool:
    return any(phrase in _plain(text) for phrase in _EVASION)


def indistinct(text: str) -> bool:
    return evasive(text) or not sentences(text)


def holds(text: str, part: str) -> bool:
    return _plain(part).rstrip(".。") in _plain(text)


def share_held(text: str, *others: str) -> float:
    told = [] if evasive(text) else sentences(text)
    return sum(any(holds(o, one) for o in others) for one in told) / max(len(told), 1)


def shared_words(wanted: str, text: str) -> float:
    words = _words(wanted)
    return len(words & _words(text)) / max(len(words), 1)


@lru_cache(maxsize=512)
def _words(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset(_ASCII_WORD.findall(text.casefold()))
    found: set[str] = set()
    for word in _WORD.findall(text.casefold()):
        spaced = not (_KANA.search(word) or _HAN.search(word))
        found |= {word} if spaced else {word[i : i + 2] for i in range(len(word) - 1)}
    return frozenset(found)


@lru_cache(maxsize=512)
def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
