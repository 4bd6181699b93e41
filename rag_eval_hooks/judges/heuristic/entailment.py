"""Verdicts of rules on claims, with what an entailment model says about the best windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rag_eval_hooks.findings import ClaimVerdict, Support
from rag_eval_hooks.judges.heuristic.minilm import Judged
from rag_eval_hooks.judges.heuristic.passages import Window
from rag_eval_hooks.judges.heuristic.support import Reading

__all__ = ["Entailment", "with_entailment"]

Entailment: TypeAlias = Callable[[Sequence[tuple[str, str]]], Coroutine[Any, Any, Sequence[Judged]]]
"""Gives the probabilities of entailment, neither and contradiction for texts and claims."""

_WINDOWS: Final = 2  # of a claim, from the chunks that cover it best
_LONG: Final = 50  # words; of a longer window the model reads the closest sentence
# By logistic regression on answers that the adapter was not trained on.
_WORDS, _MODEL, _BASE = 0.58, 0.48, 0.5
_STATES: Final = 0.85
_CONTRARY: Final = 0.9
_OPEN: Final = 0.9


async def with_entailment(judge: Entailment, readings: Sequence[Reading]) -> list[Support]:
    """Return the verdict on each claim, changed by what a model says of those not refuted.

    The pairs of all claims go through the model in one batch.
    """
    asked = {
        (number, at): (_text(reading.windows[at]), reading.claim.sentence.text)
        for number, reading in enumerate(readings)
        if _is_open(reading)
        for at in _best(reading.windows)
    }
    found = dict(zip(asked, await judge(list(asked.values())), strict=True)) if asked else {}
    return [
        _judged(reading, {at: judged for (own, at), judged in found.items() if own == number})
        for number, reading in enumerate(readings)
    ]


def _is_open(reading: Reading) -> bool:
    refuted = reading.support.verdict in (ClaimVerdict.CONTRADICTED, ClaimVerdict.NOT_STATED)
    return not refuted and reading.claim.sentence.language in ("en", None)


def _best(windows: Sequence[Window]) -> Sequence[int]:
    order = sorted(range(len(windows)), key=lambda at: -windows[at].score)
    return [at for at in order[:_WINDOWS] if windows[at].sentences]


def _text(window: Window) -> str:
    text = " ".join(sentence.text for sentence in window.sentences)
    return text if text.count(" ") < _LONG else window.closest().text


def _judged(reading: Reading, judged: dict[int, Judged]) -> Support:
    support = reading.support
    if not judged:
        return support
    at = max(judged, key=lambda where: judged[where][0])
    entailed = judged[at][0]
    first = next(iter(judged))
    _, neither, contrary = judged[first]
    odds = _WORDS * _log_odds(support.probability or 0.5) + _MODEL * _log_odds(entailed) + _BASE
    support = replace(support, probability=1 / (1 + math.exp(-odds)))
    quote = reading.windows[first].closest().text
    if contrary >= _CONTRARY and entailed < _STATES:
        reason = f"the model reads {quote!r} as its contrary"
        if support.supported:
            nowhere = (False,) * len(support.by_chunk)
            return replace(support, by_chunk=nowhere, verdict=ClaimVerdict.UNSURE, reason=reason)
        return replace(support, verdict=ClaimVerdict.CONTRADICTED, reason=reason, quote=quote)
    if support.supported:
        return support
    if entailed >= _STATES:
        quote = reading.windows[at].closest().text
        flags = tuple(judged.get(n, (0.0,))[0] >= _STATES for n in range(len(support.by_chunk)))
        reason = f"the model reads it in chunk {at + 1}: {quote}"
        verdict = ClaimVerdict.SUPPORTED
        return replace(support, by_chunk=flags, verdict=verdict, reason=reason, quote=quote)
    if neither >= _OPEN and odds < 0:
        reason = "the model finds it not stated"
        return replace(support, verdict=ClaimVerdict.NOT_STATED, reason=reason)
    return support


def _log_odds(probability: float) -> float:
    held = min(max(probability, 1e-3), 1 - 1e-3)
    return math.log(held / (1 - held))
