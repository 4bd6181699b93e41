"""How long to leave alone what fails."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["Backoff"]

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10
"""A float cannot hold the power of a long history."""


class Backoff:
    """Pauses after failures in a row: 0.5 s, doubled up to 15 s.

    Each is spread over its upper half, so that many processes do not come back at the same moment.
    Not thread-safe.
    """

    def __init__(self) -> None:
        self._failures = 0

    @property
    def is_failing(self) -> bool:
        """Whether the last try failed."""
        return self._failures > 0

    def failed(self) -> float:
        """Enters a failure; seconds until the next try."""
        longest = min(_FIRST * 2.0 ** min(self._failures, _MOST_DOUBLINGS), _LONGEST)
        self._failures += 1
        return random.uniform(longest / 2, longest)

    def succeeded(self) -> None:
        """Forgets the failures so far."""
        self._failures = 0
