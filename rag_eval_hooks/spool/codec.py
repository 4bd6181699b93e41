"""Samples and outcomes as text, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Outcome, Outcomes, Score
from rag_eval_hooks.usage import Usage

__all__ = ["outcomes_from_text", "outcomes_to_text", "sample_from_text", "sample_to_text"]


_REDACTION = "redaction_mark"


def sample_to_text(sample: Sample, redaction: str = "") -> str:
    """The sample as JSON; metadata that JSON does not know becomes its text.

    Args:
        sample: What is to be kept.
        redaction: The mark of what was taken out of it.

    Raises:
        ValueError: The metadata contains itself.
    """
    return json.dumps({_REDACTION: redaction, **sample.to_dict()}, default=str)


def sample_from_text(text: str) -> tuple[Sample, str]:
    """The sample again, with its id, and the mark of what was taken out of it.

    Raises:
        ValueError: The text is no JSON.
        TypeError: It is no sample.
    """
    data = json.loads(text)
    mark = data.pop(_REDACTION, "")
    return Sample.from_dict({**data, "truncated": tuple(data.get("truncated", ()))}), mark


def outcomes_to_text(outcomes: Outcomes) -> str:
    """Outcomes as JSON, in their order.

    Raises:
        ValueError: An explanation contains itself.
    """
    return json.dumps({name: _plain(outcome) for name, outcome in outcomes.items()}, default=str)


def outcomes_from_text(text: str) -> Outcomes:
    """The outcomes again.

    Raises:
        ValueError: The text is no JSON, or holds no outcome.
        TypeError: Likewise.
        KeyError: Likewise.
    """
    return {name: _outcome(data) for name, data in json.loads(text).items()}


def _plain(outcome: Outcome) -> dict[str, Any]:
    values = {f.name: getattr(outcome, f.name) for f in fields(outcome)}
    return {
        key: asdict(value) if isinstance(value, Usage) else _mapping(value)
        for key, value in values.items()
    }


def _mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def _outcome(data: dict[str, Any]) -> Outcome:
    data["usage"] = Usage(**data["usage"])
    if "cause" in data:
        return NotScored(**{**data, "cause": Cause(data["cause"])})
    data["annotator_kind"] = AnnotatorKind(data["annotator_kind"])
    data["warnings"] = tuple(data["warnings"])
    return Score(**data)
