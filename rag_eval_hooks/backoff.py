"""Pauses between retries."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["pause_after"]

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10
"""Bound of the exponent: a float would overflow after a long series of failures."""


def pause_after(failures: int) -> float:
    """Return the pause in seconds after consecutive failures: 0.5, doubled up to 15.

    A pause is drawn from the upper half of its range, so that many processes do not retry at once.

    Args:
        failures: Consecutive failures, from 1.
    """
    longest = min(_FIRST * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST)
    return random.uniform(longest / 2, longest)
