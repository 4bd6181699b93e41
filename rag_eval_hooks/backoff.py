from __future__ import annotations

import random
from typing import Final

__all__ = ["pause_after"]

_FIRST: Final = 0.5
_LONGEST: Final = 15.0
_MOST_DOUBLINGS: Final = 10
"""Maximum number of doublings, because 2.0 ** failures would overflow a float."""


def pause_after(failures: int) -> float:
    """Return the seconds to wait before the next try: 0.5 after one failure, doubled up to 15.

    The pause is random within the upper half of that range. Otherwise many processes would retry at
    the same moment.
    """
    longest = min(_FIRST * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), _LONGEST)
    return random.uniform(longest / 2, longest)
