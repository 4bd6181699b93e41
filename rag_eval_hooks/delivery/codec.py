"""Serializes samples and results for an outbox or a broker."""

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

__all__ = ["evaluation_to_text", "from_text", "lacks", "sample_of", "sample_to_text"]


def sample_to_text(sample: Sample, decision: Decision, mark: str = "", **more: Any) -> str:
    """Return a waiting sample as ASCII JSON.

    Metadata that JSON cannot represent becomes text. `mark` identifies the redaction settings.
    """
    return _text(sample, mark, decision=decision.to_dict(), **more)


def sample_of(data: Mapping[str, Any]) -> tuple[Sample, Decision]:
    return Sample.from_dict(data["sample"]), Decision.from_dict(data["decision"])


def evaluation_to_text(evaluation: Evaluation, mark: str = "") -> str:
    return _text(
        evaluation.sample,
        mark,
        probability=evaluation.probability,
        reason=evaluation.reason,
        start=evaluation.start,
        end=evaluation.end,
        outcomes={name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()},
    )


def from_text(text: str, redactor: Redactor | None = None) -> Evaluation:
    """Parse a stored result from its JSON text.

    Its pass/fail verdicts by threshold are not restored. If the text was redacted with other
    settings than the current ones, the sample is redacted again and explanations are dropped.
    """
    data: Mapping[str, Any] = json.loads(text)
    probability = data["probability"]
    if probability is not None and not 0.0 <= probability <= 1.0:
        raise ValueError("probability")
    stored = Evaluation(
        sample=Sample.from_dict(data["sample"]),
        probability=probability,
        reason=str(data["reason"]),
        outcomes={name: outcome_from_dict(one) for name, one in data["outcomes"].items()},
        start=int(data["start"]),
        end=int(data["end"]),
    )
    if redactor is None or not lacks(redactor, data):
        return stored
    # Explanations quote the original texts.
    plain = {name: replace(one, explanation={}) for name, one in stored.outcomes.items()}
    return replace(stored, sample=redactor.again(stored.sample), outcomes=plain)


def _text(sample: Sample, mark: str, **more: Any) -> str:
    return json.dumps({"sample": sample.to_dict(), "redaction": mark, **more}, default=str)


def lacks(redactor: Redactor, data: Mapping[str, Any]) -> bool:
    """Return whether a stored sample must be redacted again, with the current settings."""
    return redactor.active and data["redaction"] != redactor.mark
