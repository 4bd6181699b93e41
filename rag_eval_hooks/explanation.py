"""Explanation of the outcome of a sample, for people."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final

__all__ = ["Explanation"]

_ADVICE: Final[Mapping[str, str]] = tomllib.loads(
    files("rag_eval_hooks").joinpath("advice.toml").read_text("utf-8")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Outcome of one sample, for people. Contains no content.

    Attributes:
        key: Trace id, or the sample's or root run's id if no trace was recorded.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Reason of a drop or failure, as in `Stats`. For a sampled-out request, the origin of
            its rate: `ratio`, `rule:<name>`, `tail:<name>`.
        absent: Cause and detail by metric without a score.
        sample_id: Id of the sample, once it was built.
        probability: Inclusion probability of a sampled-out request.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    sample_id: str | None = None
    probability: float | None = None

    def __str__(self) -> str:
        """Return one line of text."""
        chance = "" if self.probability is None else f"probability {self.probability:g}"
        why = ", ".join(filter(None, (self.reason, chance)))
        line = " ".join(filter(None, (self.outcome, why and f"({why})")))
        advice = _ADVICE.get(self.reason) or _ADVICE.get(self.outcome)
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))
