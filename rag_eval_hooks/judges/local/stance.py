"""Whether a text is indistinct: it neither states nor denies anything that could be checked."""

from __future__ import annotations

import re

from rag_eval_hooks.judges.local.claims import claims
from rag_eval_hooks.judges.local.units import Claim
from rag_eval_hooks.text.refusals import refusal

__all__ = ["indistinct"]

_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|possibly|might|could|may|(?:it|that|this) (?:all )?depends|hard to say"
    r"|not (?:quite |entirely |really )?sure|i (?:think|guess|suppose)|some(?:thing|how|times)"
    r"|vielleicht|möglicherweise|vermutlich|kommt darauf an|ربما)\b"
    r"|也许|或许|可能|かもしれ|たぶん|おそらく",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"\b(?:weiß|wissen) (?:ich |wir )?(?:es |das )?(?:leider )?nicht\b"
    r"|\bkeine (?:ahnung|angaben?|informationen)\b|\bnicht (?:beantwort\w+|bekannt|erwähnt)\b"
    r"|不知道|不清楚|不确定|无法(?:回答|确定|判断)|没有(?:提到|相关|足够)|未提及"
    r"|(?:わかり|分かり)ません|(?:分から|わから)ない|不明です|記載(?:が|は)?(?:ありません|ない)"
    r"|لا (?:أعرف|أعلم|ندري|أدري)|غير معروف|لا توجد معلومات|لا يمكن(?:ني)? (?:الإجابة|تحديد)",
    re.IGNORECASE,
)


def indistinct(text: str) -> bool:
    """Whether a text states nothing: it is blank, asks, refuses, or only hedges.

    A hedged sentence counts as stating something when it names a name or a number.
    """
    found = claims(text)
    if not found or refusal(text) is not None:
        return True
    return all(_states_nothing(claim) for claim in found)


def _states_nothing(claim: str) -> bool:
    if _NO_ANSWER.search(claim):
        return True
    if not _HEDGE.search(claim):
        return False
    parts = Claim.of(claim)
    return not (parts.names or parts.unit.numbers)
