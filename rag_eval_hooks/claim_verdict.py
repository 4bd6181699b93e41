"""Verdicts on claims: supported, contradicted, not stated, or unsure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["CUT", "UNREAD", "ClaimVerdict", "Support", "Verdict"]

CUT: Final = "limits cut the text"
"""Reason of a verdict that is unsure because what is not stated may stand in what was cut."""
UNREAD: Final = "the judge gave no readable verdict"
"""Reason of a verdict that is unsure because the reply about its item could not be read."""


class ClaimVerdict(StrEnum):
    """Verdict on one claim by the contexts."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    """A chunk states the contrary."""
    NOT_STATED = "not_stated"
    """No chunk states it, and none the contrary."""
    UNSURE = "unsure"
    """The judge cannot tell. Counts neither for nor against the answer."""


@dataclass(frozen=True, slots=True)
class Support:
    """Support of one claim by the chunks.

    Attributes:
        by_chunk: One flag per chunk, in the order of the sample's contexts: this chunk alone
            supports the claim.
        together: Several chunks support it together though none does alone.
        reason: The judge's words.
        verdict: One of four. By default `supported` if a chunk, or several together, support the
            claim, else `not_stated`.
        quote: Words of a chunk that decide it; empty if none do.
        probability: Calibrated probability in [0, 1] that the claim is supported; None for a
            judge that gives none, such as a language model.
        warning: Reason not to trust the verdict blindly, or empty.
        judge: Name of the judge that gave it, where there are several; else empty.
        sent_on: Probability with which a cascade sends such a verdict on to its second judge.

    Raises:
        ValueError: `verdict` contradicts the flags, or `probability` is outside [0, 1].
    """

    by_chunk: tuple[bool, ...]
    together: bool = False
    reason: str = ""
    verdict: ClaimVerdict = None  # type: ignore[assignment] # derived below
    quote: str = ""
    probability: float | None = None
    warning: str = ""
    judge: str = ""
    sent_on: float | None = None

    def __post_init__(self) -> None:
        """Derive a verdict that is not given, and refuse one that contradicts the flags."""
        supported = self.together or any(self.by_chunk)
        default = ClaimVerdict.SUPPORTED if supported else ClaimVerdict.NOT_STATED
        verdict = ClaimVerdict(self.verdict or default)
        if (verdict is ClaimVerdict.SUPPORTED) != supported:
            wants = "supported if and only if a chunk, or several together, support the claim"
            raise ValueError(f"verdict: got {verdict.value!r}; wants {wants}")
        _require_probability(self.probability)
        object.__setattr__(self, "verdict", verdict)

    @property
    def supported(self) -> bool:
        """True if the contexts support the claim."""
        return self.verdict is ClaimVerdict.SUPPORTED

    @property
    def sure(self) -> bool:
        """False if the judge cannot tell."""
        return self.verdict is not ClaimVerdict.UNSURE


@dataclass(frozen=True, slots=True)
class Verdict:
    """One yes or no with its reason.

    Attributes:
        holds: The verdict.
        reason: The judge's words.
        sure: False if the judge cannot tell; `holds` means nothing then.
        probability: Calibrated probability in [0, 1] that it holds, or None.
        judge: Name of the judge that gave it, where there are several; else empty.
        sent_on: Probability with which a cascade sends such a verdict on to its second judge.

    Raises:
        ValueError: `probability` is outside [0, 1].
    """

    holds: bool
    reason: str = ""
    sure: bool = True
    probability: float | None = None
    judge: str = ""
    sent_on: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no probability."""
        _require_probability(self.probability)


def _require_probability(value: float | None) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"probability: got {value!r}; wants a number in [0, 1]")
