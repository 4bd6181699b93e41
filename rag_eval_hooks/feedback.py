"""What a user or an application says about an answer, later."""

from __future__ import annotations

import math
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Feedback", "id_of"]

_LONGEST_UUID: Final = len("urn:uuid:{00000000-0000-0000-0000-000000000000}")
# Between letters and digits it is another word; an underscore joins words.
_DOWN: Final = re.compile(r"(?<![^\W_])thumbs?[ _-]?down(?![^\W_])|👎", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One feedback.

    Attributes:
        score: A number in the scale of who gives it, such as 0 and 1, or 1 to 5; or None.
        label: A word, such as `thumbs_down`; or None.
        reference: The right answer; or None.
        time: When it was given, in nanoseconds since the epoch.
        id: Unique id of this feedback; not part of equality.
        sample_id: Of the sample that it joined, where that was made.
        trace_id: 32 hex digits of the RAG span's trace, where a span was recorded.
        span_id: 16 hex digits of the RAG span.
    """

    score: float | None = None
    label: str | None = None
    reference: str | None = None
    time: int = field(default_factory=time.time_ns, compare=False)
    id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)
    sample_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None

    def __post_init__(self) -> None:
        """Refuses what says nothing.

        Raises:
            TypeError: A field has the wrong type, or none is set.
            ValueError: The score is not finite.
        """
        _check_texts(self)
        if self.score is not None:
            object.__setattr__(self, "score", _number(self.score))
        if (self.score, self.label, self.reference) == (None, None, None):
            raise TypeError("feedback: wants a score, a label or a reference")

    @property
    def is_thumbs_down(self) -> bool:
        """A score below 0.5, or a label that says so."""
        low = self.score is not None and self.score < 0.5
        return low or (self.label is not None and _DOWN.search(self.label) is not None)


def id_of(value: object) -> str:
    """An id as interactions are known by: hexadecimal digits in small letters without dashes.

    Whatever is no such id, as a sample id of the application's own, stays as it is but for white
    space around it.

    Args:
        value: A trace id, a sample id, or a framework's run id, as text, UUID or whole number;
            as text in capitals, with dashes or `0x` as well.
    """
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, int):
        return f"{value:032x}"
    text = str(value).strip()
    if len(text) > _LONGEST_UUID:
        return text
    try:
        return uuid.UUID(text.removeprefix("0x").removeprefix("0X")).hex
    except ValueError:
        return text


def _number(score: object) -> float:
    if not isinstance(score, int | float):
        raise TypeError(f"score: got {type(score).__name__}; wants a number")
    if not math.isfinite(score):
        raise ValueError("score: wants a finite number")
    return float(score)


def _check_texts(feedback: Feedback) -> None:
    for name in ("label", "reference"):
        value = getattr(feedback, name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name}: got {type(value).__name__}; wants str")
