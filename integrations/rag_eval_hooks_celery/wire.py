"""Versioned JSON messages between the application and its workers."""

from __future__ import annotations

import json
from typing import Any, Final

from rag_eval_hooks.decision import Decision
from rag_eval_hooks.delivery.codec import is_redacted_differently, sample_of, sample_to_text
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.request import Column, Ending, Request
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import outcome_from_dict, outcome_to_dict

__all__ = ["request_from_wire", "result_from_text", "result_to_text", "sample_to_wire"]

_SCHEMA: Final = 1


def sample_to_wire(sample: Sample, decision: Decision, accepted: float, mark: str) -> str:
    return sample_to_text(sample, decision, mark, schema=_SCHEMA, accepted=accepted)


def request_from_wire(text: str, redactor: Redactor) -> Request:
    data = json.loads(text)
    if not 1 <= data["schema"] <= _SCHEMA:
        raise ValueError(f"The schema is {data['schema']!r}, but must be 1 to {_SCHEMA}.")
    sample, decision = sample_of(data)
    request = Request.of(
        redactor.again(sample) if is_redacted_differently(redactor, data) else sample
    )
    request.decision, request.is_final = decision, True
    request.accepted_at = float(data["accepted"])
    return request


def result_to_text(ending: Ending) -> str:
    plain: dict[str, Any] = {"schema": _SCHEMA, "column": ending.column, "reason": ending.reason}
    if (evaluation := ending.evaluation) is not None:
        outcomes = {name: outcome_to_dict(one) for name, one in evaluation.outcomes.items()}
        plain |= {"start": evaluation.start, "end": evaluation.end, "outcomes": outcomes}
    return json.dumps(plain, default=str, separators=(",", ":"))


def result_from_text(text: str) -> dict[str, Any] | Ending:
    """Return the fields of an evaluation, or an `Ending` if there is no evaluation."""
    data = json.loads(text)
    if "outcomes" not in data:
        return Ending(Column(data["column"]), str(data["reason"]))
    outcomes = {name: outcome_from_dict(one) for name, one in data["outcomes"].items()}
    return {"outcomes": outcomes, "start": int(data["start"]), "end": int(data["end"])}
