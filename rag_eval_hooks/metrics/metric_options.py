"""`MetricOptions` of the suites, and detection of DON'T KNOW answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics.metric import SUITES
from rag_eval_hooks.metrics.question_checks import Check
from rag_eval_hooks.text.refusals import refusal

GRAPHRAG_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(SUITES["graphrag"]["weights"])
"""Weights of the parts of `graphrag.ragas_score` (GraphRAG Evaluation Metrics, section 5)."""
WHITEPAPER_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(SUITES["whitepaper"]["weights"])
"""Weights of `whitepaper.weighted_score` (RAG Answer Evaluation Framework, summary table)."""
PHRASES: Final[tuple[str, ...]] = tuple(SUITES["graphrag"]["dont_know"])
"""Phrases that define DON'T KNOW (GraphRAG Evaluation Metrics, section 11)."""
_SHORT: Final = 10  # characters; in a shorter answer, one of these words is enough
_SHORT_WORDS: Final = ("unknown", "n/a", "none", "null")


class DontKnow(StrEnum):
    PHRASES = "phrases"
    """One of the phrases of the metric's definition appears anywhere in the answer."""
    REFUSAL = "refusal"
    """The entire answer is a refusal. A phrase alone is not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricOptions:
    """Options of the metric suites.

    Attributes:
        graphrag_weights: Weight of each part of `graphrag.ragas_score`.
        graphrag_rank_aware: Whether `graphrag.ragas_context_precision` considers the chunks' rank.
        whitepaper_weights: Weight of each part of `whitepaper.weighted_score`.
        dont_know: How `graphrag.answer_class` detects DON'T KNOW answers.
        question_checks: Checks for known questions, from `parse_checks`.

    Raises:
        ConfigError: A weight names an unknown part, is negative or not finite, or all weights are
            0. Or two checks have the same question.
    """

    graphrag_weights: Mapping[str, float] = field(default_factory=lambda: GRAPHRAG_WEIGHTS)
    graphrag_rank_aware: bool = False
    whitepaper_weights: Mapping[str, float] = field(default_factory=lambda: WHITEPAPER_WEIGHTS)
    dont_know: DontKnow = DontKnow.REFUSAL
    question_checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        """Reject weights without a mean, and checks with equal ids."""
        _refuse_weights("graphrag_weights", self.graphrag_weights, GRAPHRAG_WEIGHTS)
        _refuse_weights("whitepaper_weights", self.whitepaper_weights, WHITEPAPER_WEIGHTS)
        ids = [check.question_id for check in self.question_checks]
        if len(set(ids)) < len(ids):
            raise ConfigError("question_checks", ids, "one check for each question")


def _refuse_weights(name: str, weights: Mapping[str, float], known: Mapping[str, float]) -> None:
    for part, weight in weights.items():
        if part not in known:
            raise ConfigError.unknown(name, part, known)
        if not (math.isfinite(weight) and weight >= 0):
            raise ConfigError(f"{name}.{part}", weight, "a finite number, 0 or more")
    if not any(weights.values()):
        raise ConfigError(name, dict(weights), "weights, at least one of them above 0")


def dont_know_phrase(answer: str, mode: DontKnow) -> str | None:
    """Return the words of an answer that say "don't know", or None."""
    if mode is DontKnow.REFUSAL:
        return refusal(answer)
    text = answer.lower().strip()
    words = _SHORT_WORDS if len(text) < _SHORT else ()
    return next((phrase for phrase in (*PHRASES, *words) if phrase in text), None)
