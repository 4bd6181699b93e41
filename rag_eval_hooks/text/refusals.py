"""Detects refusals: answers that do not answer the question."""

# ruff: noqa: RUF001 - this module handles such characters

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from rag_eval_hooks.text.folding import compiled, fold, toml_of, word_set
from rag_eval_hooks.text.sentences import sentences, strip_marker

_DATA: Final = toml_of("refusals.toml")
_ENGLISH: Final = compiled(_DATA.pop("english"))
# German, French and Spanish have a freer word order, so these rules only check types of words.
_KINDS: Final = [
    {name: word_set(words) for name, words in kinds.items()} for kinds in _DATA.values()
]
_NOT: Final = re.compile(r"\bcan(?:not|'t)\b|n't\b")
_LONGEST: Final = 300  # characters; a longer sentence does more than refuse
_LONG: Final = 5  # sentences; in an answer of this length, a refusal at the end does not count


@lru_cache(maxsize=64)  # several metrics check the same answer
def refusal(answer: str) -> str | None:
    written = sentences(answer)
    said = [fold(strip_marker(sentence)) for sentence in written]
    lists = any(strip_marker(sentence) != sentence for sentence in written)
    while said and _ENGLISH["preamble"].fullmatch(said[0]):
        del said[0]
    if not said:
        return None
    if _refuses(said[0]):
        return None if _answers(said) else said[0]
    concludes = 1 < len(said) < _LONG and not lists and _ENGLISH["conclusion"].match(said[-1])
    return said[-1] if concludes and _refuses(said[-1]) else None


def _refuses(sentence: str) -> bool:
    if _ENGLISH["whole"].fullmatch(sentence.strip(" .!。！*_\"'")):
        return True
    if len(sentence) < _LONGEST and any(_denies(sentence, kinds) for kinds in _KINDS):
        return True
    plain = _NOT.sub(lambda match: "can not" if match[0][0] == "c" else " not", sentence)
    clauses = _ENGLISH["second_clause"].split(plain)
    return any(_ENGLISH["refuses"].match(_opened(clause)) for clause in clauses)


def _denies(sentence: str, kinds: Mapping[str, frozenset[str]]) -> bool:
    clauses = [re.findall(r"\w+", part) for part in re.split(r"[,;:]", sentence)]
    opens = kinds["sorry"] | kinds["cites"]
    while len(clauses) > 1 and (
        not clauses[0] or (clauses[0][0] in opens and kinds["denies"].isdisjoint(clauses[0]))
    ):
        del clauses[0]
    words = clauses[0]
    if words and words[0] in kinds["cites"]:
        source = next((at for at, word in enumerate(words) if word in kinds["sources"]), -1)
        words = words[source + 1 :]
    found = frozenset(takewhile(lambda word: word not in kinds["asks"], words))
    has = {name for name, kind in kinds.items() if found & kind}
    if "denies" not in has:
        return False
    if {"sources", "gives"} <= has or {"sources", "facts"} <= has or {"speaks", "tells"} <= has:
        return True
    # The weaker rules below apply only if the clause has no other content word.
    says_only = found <= frozenset[str]().union(*kinds.values())
    return says_only and bool({"speaks", "knows"} <= has or has & {"facts", "known"})


def _opened(clause: str) -> str:
    while opening := _ENGLISH["opening"].match(clause):
        clause = clause[opening.end() :]
    return clause


def _answers(said: Sequence[str]) -> bool:
    conceded, turn = _ENGLISH["concession"].split(said[0])[1:], _ENGLISH["turn"]
    if any(map(_tells, conceded)):
        return True
    statements = [one for one in said[1:] if _tells(turn.sub("", one).lstrip(" ,"))]
    return len(statements) > 1 or any(map(turn.match, statements))


def _tells(text: str) -> bool:
    return not _refuses(text) and _ENGLISH["aside"].match(_opened(text)) is None
