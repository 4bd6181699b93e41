"""`Feedback`: a user's opinion on one answer."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Final

from rag_eval_hooks.errors import InputError, check_number, check_type

# Match whole words only. Underscores separate words.
_DOWN: Final = re.compile(r"(?<![^\W_])thumbs?[ _-]?down(?![^\W_])|👎", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """Feedback on one answer. Raises `InputError` if score, label and reference are all None.

    Attributes:
        score: A number on the caller's own scale, such as 0 to 1 or 1 to 5, or None.
        label: A word such as `thumbs_down`, or None.
        reference: The correct answer, or None.
        time: Time of the feedback in nanoseconds since the epoch.
        id: Unique id of this feedback. `==` does not compare the id.
        sample_id: The sample's id, or None if unknown.
        trace_id: The RAG span's trace id, 32 hex digits, or None without a span.
        span_id: The RAG span's id, 16 hex digits, or None without a span.
    """

    score: float | None = None
    label: str | None = None
    reference: str | None = None
    time: int = field(default_factory=time.time_ns, compare=False)
    id: str = field(default_factory=lambda: secrets.token_hex(16), compare=False)
    sample_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("label", "reference"):
            check_type(name, getattr(self, name), str, "str")
        check_number("score", self.score, "a number")
        if self.score is not None:
            object.__setattr__(self, "score", float(self.score))
        if (self.score, self.label, self.reference) == (None, None, None):
            raise InputError("Feedback needs a score, a label or a reference.")

    @property
    def is_thumbs_down(self) -> bool:
        """True if the score is below 0.5 or the label means thumbs down."""
        low = self.score is not None and self.score < 0.5
        return low or (self.label is not None and _DOWN.search(self.label) is not None)
