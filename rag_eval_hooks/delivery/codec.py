"""Samples and results as the text that an outbox stores, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict

__all__ = ["evaluation_to_text", "from_text", "sample_to_text"]


def sample_to_text(
    sample: Sample, probability: float | None, reason: str, mark: str = "", **more: Any
) -> str:
    """Return a sample as ASCII JSON; metadata that JSON does not know becomes its text.

    Raises:
        ValueError: The metadata contains itself.
    """
    decision = {"probability": probability, "reason": reason, "redaction": mark}
    return json.dumps({"sample": sample.to_dict(), **decision, **more}, default=str)


def evaluation_to_text(evaluation: Evaluation, mark: str = "") -> str:
    """Return a result as ASCII JSON, with the outcomes in their order."""
    return sample_to_text(
        evaluation.sample,
        evaluation.probability,
        evaluation.reason,
        mark,
        start=evaluation.start,
        end=evaluation.end,
        outcomes={name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()},
    )


def from_text(text: str, redactor: Redactor | None = None) -> Evaluation:
    """Return the result of a text, without verdicts; of a sample, one without outcomes.

    It is redacted again if other settings were applied to it. A text that another program changed
    may raise any exception.
    """
    data: Mapping[str, Any] = json.loads(text)
    probability = data["probability"]
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise ValueError("probability")
    stored = Evaluation(
        sample=Sample.from_dict(data["sample"]),
        probability=probability,
        reason=str(data["reason"]),
        outcomes={name: outcome_from_dict(one) for name, one in data.get("outcomes", {}).items()},
        start=int(data.get("start", 0)),
        end=int(data.get("end", 0)),
    )
    if redactor is None or not redactor.active or data["redaction"] == redactor.mark:
        return stored
    # Explanations quote the texts as they were.
    plain = {name: replace(one, explanation={}) for name, one in stored.outcomes.items()}
    return replace(stored, sample=redactor.again(stored.sample), outcomes=plain)
