"""Readings of a claim, with what an entailment model says about their windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from rag_eval_hooks.judges.local.contradictions import Clash
from rag_eval_hooks.judges.local.minilm import Judged
from rag_eval_hooks.judges.local.readings import Reading
from rag_eval_hooks.judges.local.support_model import support_model
from rag_eval_hooks.judges.local.units import Claim
from rag_eval_hooks.judges.local.windows import Window
from rag_eval_hooks.text.languages import language

__all__ = ["Entailment", "with_entailment"]

Entailment: TypeAlias = Callable[[Sequence[tuple[str, str]]], Coroutine[Any, Any, Sequence[Judged]]]
"""Gives the probabilities of entailment, neither and contradiction for texts and claims."""

_CERTAIN: Final = 0.9  # of word match: what is copied needs no model
_LONG: Final = 50  # words; of a longer window the model reads the closest sentence
# By logistic regression on answers that the adapter was not trained on: benchmarks/training.
_WORDS, _MODEL, _BASE = 0.58, 0.48, 0.5
_STATES: Final = 0.85
_CONTRARY: Final = 0.9
_OPEN: Final = 0.9


async def with_entailment(
    judge: Entailment, claims: Sequence[tuple[Claim, Sequence[Reading]]]
) -> list[Sequence[Reading]]:
    """Return the readings of each claim, that of its best window judged by a model as well.

    A contradiction by rule stays, and what is copied is not asked about. The pairs of all claims
    go through the model in one batch.
    """
    asked = {
        (at, where): (_text(readings[where].window), claim.unit.text)
        for at, (claim, readings) in enumerate(claims)
        if (where := _open(claim, readings)) is not None
    }
    found = dict(zip(asked, await judge(list(asked.values())), strict=True)) if asked else {}
    return [
        [
            _judged(reading, found[at, where]) if (at, where) in found else reading
            for where, reading in enumerate(readings)
        ]
        for at, (_, readings) in enumerate(claims)
    ]


def _text(window: Window) -> str:
    text = " ".join(unit.text for unit in window.units)
    return text if text.count(" ") < _LONG else window.closest().text


def _open(claim: Claim, readings: Sequence[Reading]) -> int | None:
    """Return which reading the model is asked about, if any."""
    if any(r.clash is None and r.doubt is None and r.probability >= _CERTAIN for r in readings):
        return None
    if language(claim.unit.words) not in ("en", None):
        return None
    best = max(range(len(readings)), key=lambda at: readings[at].window.score)
    return best if _leaves_open(claim, readings[best]) else None


def _leaves_open(claim: Claim, reading: Reading) -> bool:
    if reading.firm or (reading.clash is not None and reading.clash.contrary):
        return False
    # Where rules have found every word, or what equals it, the model is the weaker of the two.
    whole = claim.unit.terms <= reading.window.held
    return bool(reading.window.units) and not whole


def _judged(reading: Reading, judged: Judged) -> Reading:
    entailed, neither, contrary = judged
    probability = _sigmoid(
        _WORDS * _log_odds(reading.probability) + _MODEL * _log_odds(entailed) + _BASE
    )
    quote = reading.window.closest().text
    if contrary >= _CONTRARY and reading.clash is None:
        reason = f"the model reads {quote!r} as its contrary"
        return replace(
            reading, probability=probability, doubt=None, clash=Clash(reason, quote=quote)
        )
    if reading.doubt is not None and neither >= _OPEN:
        clash = Clash(f"{reading.doubt}, and the model finds it not stated", contrary=False)
        return replace(reading, probability=probability, doubt=None, clash=clash)
    states = entailed >= _STATES
    return replace(
        reading,
        probability=max(probability, support_model().unsure[1]) if states else probability,
        doubt=None if states else reading.doubt,
        entailed=states,
    )


def _log_odds(probability: float) -> float:
    held = min(max(probability, 1e-3), 1 - 1e-3)
    return math.log(held / (1 - held))


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))
