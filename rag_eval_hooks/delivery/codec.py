"""Converts samples and results to JSON for the outbox and for broker messages, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.decision import Decision
from rag_eval_hooks.delivery.jsonl import result_line, row_of
from rag_eval_hooks.redaction import Redactor
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample


def sample_to_text(sample: Sample, decision: Decision, mark: str = "", **more: Any) -> str:
    return _text(mark, sample=sample.to_dict(), decision=decision.to_dict(), **more)


def sample_of(data: Mapping[str, Any]) -> tuple[Sample, Decision]:
    return Sample.from_dict(data["sample"]), Decision.from_dict(data["decision"])


def evaluation_to_text(evaluation: Evaluation, mark: str = "") -> str:
    return _text(mark, start=evaluation.start, **result_line(evaluation))


def from_text(text: str, redactor: Redactor | None = None) -> Evaluation:
    data: Mapping[str, Any] = json.loads(text)
    row = replace(row_of(data), start=data["start"])
    if redactor is None or not is_redacted_differently(redactor, data):
        return row
    # Explanations may quote texts that the new settings redact.
    outcomes = {name: replace(one, explanation={}) for name, one in row.outcomes.items()}
    return replace(row, sample=redactor.again(row.sample), outcomes=outcomes)


def is_redacted_differently(redactor: Redactor, data: Mapping[str, Any]) -> bool:
    return redactor.active and data["redaction"] != redactor.mark


def _text(mark: str, **fields: Any) -> str:
    # Store `str(value)` for metadata that JSON cannot represent.
    return json.dumps({"redaction": mark, **fields}, default=str)
