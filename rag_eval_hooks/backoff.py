from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10


def pause_after(failures: int) -> float:
    """Return the seconds to wait before the next attempt.

    The longest pause is 0.5 s after one failure. Each further failure doubles the longest pause, up
    to 15 s. To spread retries, the result is random: 50 to 100 % of the longest pause.
    """
    longest = min(_FIRST * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST)
    return random.uniform(longest / 2, longest)
