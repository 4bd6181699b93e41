"""Answers that say that they do not know, detected by rules, without a judge.

Source: GraphRAG Evaluation Metrics, section 11, for the phrases; the rules of `refusal` are ours.
"""

from __future__ import annotations

from typing import Final

from rag_eval_hooks.metrics.options import DontKnow
from rag_eval_hooks.text.refusals import refusal

__all__ = ["PHRASES", "confession"]

PHRASES: Final = (
    "i don't know",
    "i do not know",
    "unknown",
    "not sure",
    "cannot determine",
    "no information",
    "insufficient data",
    "unable to answer",
    "cannot answer",
    "don't have enough information",
    "not available",
    "no data",
)
_SHORT: Final = 10  # characters; below, one of these words is enough
_SHORT_WORDS: Final = ("unknown", "n/a", "none", "null")


def confession(answer: str, mode: DontKnow) -> str | None:
    """Return the words by which an answer says that it does not know, or None.

    Args:
        answer: The answer as given.
        mode: `phrases`: one of the defined phrases occurs anywhere in the answer. `refusal`: a
            refusal is what the answer comes to, in these or like words; English only.
    """
    return refusal(answer) if mode is DontKnow.REFUSAL else _phrase(answer)


def _phrase(answer: str) -> str | None:
    text = answer.lower().strip()
    words = _SHORT_WORDS if len(text) < _SHORT else ()
    return next((phrase for phrase in (*PHRASES, *words) if phrase in text), None)
