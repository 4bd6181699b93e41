"""JSON format of samples and results in an outbox or a broker message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.decision import Decision
from rag_eval_hooks.delivery.jsonl import result_line, row_of
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Sample


def sample_to_text(sample: Sample, decision: Decision, **more: Any) -> str:
    return _text(sample=sample.to_dict(), decision=decision.to_dict(), **more)


def sample_of(data: Mapping[str, Any]) -> tuple[Sample, Decision]:
    return Sample.from_dict(data["sample"]), Decision.from_dict(data["decision"])


def evaluation_to_text(evaluation: Evaluation) -> str:
    return _text(start=evaluation.start, **result_line(evaluation))


def from_text(text: str) -> Evaluation:
    data: Mapping[str, Any] = json.loads(text)
    return replace(row_of(data), start=data["start"])


def _text(**fields: Any) -> str:
    # Store `str(value)` for metadata that JSON cannot represent.
    return json.dumps(fields, default=str)
