from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10


def pause_after(failures: int) -> float:
    """Return the seconds before the next try: 0.5 after one failure, then doubled up to 15.

    The result is random in the upper half of that range, so that processes retry at different
    times.
    """
    longest = min(_FIRST * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST)
    return random.uniform(longest / 2, longest)
