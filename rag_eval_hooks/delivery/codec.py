"""JSON format of samples and results in an outbox or a broker message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.decision import Decision
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict


def sample_to_text(sample: Sample, decision: Decision, mark: str = "", **more: Any) -> str:
    return _text(sample, mark, decision=decision.to_dict(), **more)


def sample_of(data: Mapping[str, Any]) -> tuple[Sample, Decision]:
    return Sample.from_dict(data["sample"]), Decision.from_dict(data["decision"])


def evaluation_to_text(evaluation: Evaluation, mark: str = "") -> str:
    outcomes = {name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()}
    kept = ("probability", "reason", "start", "end")
    more = {name: getattr(evaluation, name) for name in kept}
    return _text(evaluation.sample, mark, outcomes=outcomes, **more)


def from_text(text: str, redactor: Redactor | None = None) -> Evaluation:
    """Parse a stored result, whose evaluation has no verdicts.

    Redact again if the redactor's settings differ.
    """
    data: Mapping[str, Any] = json.loads(text)
    probability = data["probability"]
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise ValueError("The stored probability is outside 0 to 1.")
    sample = Sample.from_dict(data["sample"])
    outcomes = {name: outcome_from_dict(one) for name, one in data["outcomes"].items()}
    if redactor is not None and is_redacted_differently(redactor, data):
        sample = redactor.again(sample)
        # Explanations may quote texts that the new settings redact.
        outcomes = {name: replace(one, explanation={}) for name, one in outcomes.items()}
    return Evaluation(
        sample=sample,
        outcomes=outcomes,
        probability=probability,
        start=int(data["start"]),
        end=int(data["end"]),
        reason=str(data["reason"]),
    )


def is_redacted_differently(redactor: Redactor, data: Mapping[str, Any]) -> bool:
    return redactor.active and data["redaction"] != redactor.mark


def _text(sample: Sample, mark: str, **more: Any) -> str:
    # If JSON cannot represent a metadata value, store its text.
    return json.dumps({"sample": sample.to_dict(), "redaction": mark, **more}, default=str)
