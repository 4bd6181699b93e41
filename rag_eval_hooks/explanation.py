"""`Explanation`, a readable account of one request's outcome."""

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
    """Explains the outcome of one request. Contains no texts of the request.

    Attributes:
        key: Trace id. Without a recorded trace, the id of the sample or root run.
        outcome: `pending`, `scored`, `sampled_out`, `dropped` or `failed`, as in `Stats`.
        reason: Why the request was dropped or failed, as in `Stats`. For a sampled-out request, the
            source of its rate: `ratio`, `rule:<name>` or `tail:<name>`.
        absent: Cause and detail for each metric without a score.
        sample_id: Id of the sample, or None before the sample is built.
        probability: Inclusion probability of a sampled-out request.
    """

    key: str
    outcome: str
    reason: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)
    sample_id: str | None = None
    probability: float | None = None

    def __str__(self) -> str:
        """Return a one-line sentence."""
        chance = "" if self.probability is None else f"probability {self.probability:g}"
        why = ", ".join(filter(None, (self.reason, chance)))
        line = " ".join(filter(None, (self.outcome, why and f"({why})")))
        advice = _ADVICE.get(self.reason) or _ADVICE.get(self.outcome)
        missing = "; ".join(f"{name}: {why}" for name, why in self.absent.items())
        return ". ".join(filter(None, (f"{line}: {advice}" if advice else line, missing)))
