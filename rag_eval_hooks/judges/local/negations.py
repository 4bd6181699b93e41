"""Negations of a sentence, and the terms that each reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rag_eval_hooks.judges.local.terms import terms_of
from rag_eval_hooks.text.folding import word_set
from rag_eval_hooks.text.languages import FUNCTION_WORDS

__all__ = ["DENYING", "negations"]

DENYING: Final = word_set(
    "fail fails failed refuse refuses refused deny denies denied prevent prevents prevented stop "
    "stops stopped ban bans banned forbid forbids forbidden prohibit prohibits prohibited rarely "
    "seldom hardly barely scarcely except excluding instead rather too free absent missing "
    "verboten verhindert selten kaum statt zu frei fehlt interdit empeche rarement sauf trop "
    "prohibido impide raramente salvo demasiado false wrong myth untrue"
)
"""Words that can deny what other words of their sentence say."""

_OF_NOUNS: Final = word_set("without ohne sans sin بدون غير без")
_BEFORE: Final = _OF_NOUNS | word_set(
    "no not never cannot avoid avoids avoiding neither nor none nothing nobody nowhere unable "
    "lack lacks nicht nichts kein keine keinen keinem keiner keines keinerlei nie niemals niemand "
    "weder keinesfalls لا لم لن ليس ليست ne pas jamais aucun aucune rien nunca jamas ningun "
    "ninguna ninguno tampoco nadie нет не ни"
)
_BEFORE_CJK: Final = frozenset("不没沒未無无")
_AFTER: Final = frozenset(("ない", "せん", "なか", "않다", "않는", "없다", "없는", "아니"))
_NOT_MEANT: Final = frozenset(
    ("only", "just", "merely", "nur", "solo", "solamente", "seulement", "less", "doubt", "matter",
     "mention")
)  # fmt: skip
_STILL: Final = frozenset(("longer", "yet", "mehr", "plus", "mas"))
_OPEN_BEFORE: Final = frozenset(("or",))
_IF: Final = frozenset(("if", "unless", "whether", "wenn", "falls", "ob"))
_FRENCH: Final = frozenset(("pas", "plus", "jamais", "aucun", "aucune", "rien"))
_LIGHT: Final = frozenset[str]().union(*FUNCTION_WORDS.values())
_SCOPE: Final = 2  # content words that a negation reaches


def negations(words: Sequence[str], text: str) -> tuple[frozenset[str], ...]:
    """Return for each negation of a sentence the terms that it reaches.

    Args:
        words: Its folded words.
        text: As written.
    """
    if _BEFORE.isdisjoint(words) and text.isascii() and "n't" not in text:
        return ()
    scopes = (_scope(words, at, text) for at in range(len(words)) if not _is_open(words, at))
    return tuple(scope for scope in scopes if scope)


def _scope(words: Sequence[str], at: int, text: str) -> frozenset[str]:
    """Return what a word denies; empty if it denies nothing."""
    word, following = words[at], words[at + 1] if at + 1 < len(words) else ""
    if word in _AFTER:
        return _reached(words[max(0, at - 4) : at][::-1], _SCOPE)
    elided = (word == "n" or word[:2] == "n'") and not _FRENCH.isdisjoint(
        words[max(0, at - 3) : at + 5]
    )
    if not (elided or word in _BEFORE or word.endswith("n't") or word[0] in _BEFORE_CJK):
        return frozenset()
    label = word == "no" and (following.isdigit() or "no. " in text.casefold() or text[2:3] == ",")
    if label or following in _NOT_MEANT or list(words[at + 1 : at + 3]) == ["to", "mention"]:
        return frozenset()
    return _reached(words[at + 1 : at + 8], 1 if word in _OF_NOUNS else _SCOPE)


def _is_open(words: Sequence[str], at: int) -> bool:
    """Return whether a negation denies nothing: "may or may not", "if you do not"."""
    return not _OPEN_BEFORE.isdisjoint(words[max(0, at - 1) : at]) or not _IF.isdisjoint(
        words[max(0, at - 5) : at]
    )


def _reached(words: Sequence[str], size: int) -> frozenset[str]:
    content = [word for word in words if word not in _LIGHT and word not in _STILL]
    return frozenset(terms_of(content)[:size])
