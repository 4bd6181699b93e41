"""Words that exclude one another, in English, German, French and Spanish, as folded words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from rag_eval_hooks.text.folding import word_set

__all__ = ["HEDGES", "KINDS", "OPPOSITES", "QUALIFIED", "STRONGER", "SYMMETRIC", "SYNONYMS"]

_WORDS: Final[Mapping[str, Any]] = tomllib.loads(
    files("rag_eval_hooks.judges.local").joinpath("words.toml").read_text("utf-8")
)


def _both_ways(pairs: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in pairs.split():
        one, two = pair.split("/")
        found.setdefault(one, set()).add(two)
        found.setdefault(two, set()).add(one)
    return {word: frozenset(words) for word, words in found.items()}


OPPOSITES: Final = _both_ways(_WORDS["opposites"])
"""For each word those that say the opposite."""

SYNONYMS: Final = _both_ways(_WORDS["synonyms"])
"""For each word those that say the same."""

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    word: (kind, row)
    for kind, rows in _WORDS["kinds"].items()
    for row in rows.split()
    for word in row.split("/")
}
"""For each word the kind of value and the value; two values of a kind exclude each other."""

STRONGER: Final[Mapping[str, frozenset[str]]] = {
    strong: word_set(row["weak"]) for row in _WORDS["stronger"] for strong in row["strong"].split()
}
"""For each word the weaker ones that do not bear it out."""

HEDGES: Final = word_set(_WORDS["hedges"])
"""Words that call what follows only possible."""

QUALIFIED: Final[Mapping[str | None, re.Pattern[str]]] = {
    code: re.compile(rf"\b(?:{'|'.join(words.split())})\b")
    for code, words in (
        *_WORDS["qualifiers"].items(),
        (None, " ".join(_WORDS["qualifiers"].values())),
    )
}
"""Patterns of words that limit or deny a sentence, by language; under None those of all."""

SYMMETRIC: Final = word_set(_WORDS["symmetric"])
"""Words and stems between two names that may be exchanged."""
