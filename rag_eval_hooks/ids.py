"""Ids of results: the same whenever the same sample is evaluated in the same way."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rag_eval_hooks.score import Outcome, Outcomes, Score

__all__ = ["result_id", "score_id"]


def score_id(sample_id: str, metric_id: str, outcome: Outcome) -> str:
    """Id of one metric's outcome, 32 hex digits: of the sample, the metric, judge and versions.

    An idempotency key: a store that keeps one row per id has no outcome twice, whatever crashed
    between its writing and our noting that it was written.
    """
    made_by = (outcome.annotator, outcome.version) if isinstance(outcome, Score) else ()
    return _digest([sample_id, metric_id, *made_by])


def result_id(sample_id: str, outcomes: Outcomes) -> str:
    """Id of all outcomes of one sample together, 32 hex digits, in whichever order they are."""
    return _digest(sorted(score_id(sample_id, name, one) for name, one in outcomes.items()))


def _digest(parts: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
