"""Classifies tools by name and description: a tool looks something up, or acts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from functools import cache
from typing import Final

from rag_eval_hooks.text.folding import toml_of


class ToolKind(Enum):
    LOOKUP = auto()
    """The tool returns search results."""
    ACTION = auto()
    """The tool acts, calculates, tells the time, plans or hands over."""
    UNKNOWN = auto()


_DATA: Final = toml_of("tool_words.toml", "rag_eval_hooks.capture")


@cache
def _listed(group: str, name: str = "words") -> frozenset[str]:
    return frozenset(_DATA[group][name].split())


_NAME_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_SENTENCE: Final = re.compile(r"[.!?\n\u3002\uff01\uff1f]")
_SIGNATURE: Final = re.compile(r"^\w+\([^\n]*\)(?:\s*->[^\n]*)?\s*\n")
"""First line of the description that LlamaIndex generates for a function."""
_ENDINGS: Final = ("ies", "es", "s", "ing", "ed", "t", "d", "n", "en")


def tool_kind(name: str, description: str) -> ToolKind:
    """Return a tool's kind, from its name or else from its description."""
    text = _SIGNATURE.sub("", description.strip())
    first = next((one for one in _SENTENCE.split(text) if one.strip()), "")
    for words in (_NAME_PART.findall(name), _NAME_PART.findall(first)):
        kind = _kind_of([word.lower() for word in words])
        if kind is not ToolKind.UNKNOWN:
            return kind
    return ToolKind.UNKNOWN


def _kind_of(words: list[str]) -> ToolKind:
    for place, word in enumerate(words):
        behind = words[place + 1 :]
        if _is_of(word, "lookup"):
            return ToolKind.ACTION if _is_time(behind) else ToolKind.LOOKUP
        if _is_one_of(word, _listed("action", "noun")) or word in _listed("time"):
            is_lookup = any(_is_of(one, "lookup") for one in behind)
            return ToolKind.LOOKUP if is_lookup else ToolKind.ACTION
        if _is_of(word, "action"):
            return ToolKind.ACTION
    return ToolKind.UNKNOWN


def _is_of(word: str, group: str) -> bool:
    is_part = any(part in word for part in _listed(group, "parts"))
    return is_part or _is_one_of(word, _listed(group))


def _is_time(words: list[str]) -> bool:
    objects = (word for word in words if word not in _listed("time", "before"))
    return next(objects, "") in _listed("time") and not any(word == "table" for word in words)


def _is_one_of(word: str, words: frozenset[str]) -> bool:
    stems = (word[: -len(end)] for end in _ENDINGS if word.endswith(end))
    return word in words or any(
        stem in words or f"{stem}e" in words or f"{stem}en" in words or stem[:-1] in words
        for stem in stems
        if len(stem) > 2
    )


_FAILURE: Final = re.compile(
    r"\A[\s*#>]*+(?:error|exception|http (?:error )?[45]\d\d|traceback|failed|failure"
    r"|time(?:d )?out|timeout|fehler|erreur|fallo|errore|erro|错误|エラー|오류|ошибка|خطأ)(?!\w)"
    r"|\A\w*(?:Error|Exception)\b\s*[:(]",
    re.IGNORECASE,
)
_MAX_WORDS: Final = 30


def reports_nothing(words: Iterable[str], known: Iterable[str], text: str) -> bool:
    """Return whether a tool's text only reports a failure or an empty result."""
    if _FAILURE.match(text):
        return True
    said = set(words)
    if len(said) > _MAX_WORDS:
        return False
    if any(part in text.replace(" ", "") for part in _DATA["nothing"]["parts"]):
        return len(text) <= 2 * _MAX_WORDS
    left = said - _listed("nothing") - _listed("nothing", "about") - set(known)
    return not said.isdisjoint(_listed("nothing")) and not left
