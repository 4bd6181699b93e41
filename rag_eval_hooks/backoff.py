"""Pauses between tries of what fails."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["pause_after"]

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10
"""Bound of the exponent: a float cannot hold the power of a long history."""


def pause_after(failures: int) -> float:
    """Return the seconds to pause after so many failures in a row: 0.5, doubled up to 15.

    Each pause is drawn from its upper half, so that many processes do not return at one moment.

    Args:
        failures: Failures in a row, from 1.
    """
    longest = min(_FIRST * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST)
    return random.uniform(longest / 2, longest)
