"""Values that a claim may have worked out from values that a text states."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rag_eval_hooks.text.measures import Measure

__all__ = ["Derived"]

_MOST: Final = 60  # stated values that are looked at
_EXACT, _ROUNDED = 1e-6, 0.006  # relative
_FACTORS: Final = (2, 3, 4, 5, 7, 10, 12, 24, 30, 52, 60, 100, 365, 1000)
_SMALL: Final = 12  # up to here a bare number may count what a text lists


class Derived:
    """Values that follow from stated ones by simple arithmetic."""

    def __init__(self, stated: Iterable[Measure]) -> None:
        values = sorted({value for one in stated for value in _plain(one)})[:_MOST]
        self._exact = sorted(filter(math.isfinite, _sums(values)))
        self._rounded = sorted(filter(math.isfinite, _ratios(values)))

    def holds(self, said: Measure) -> bool:
        """Return whether a quantity may follow from stated ones by counting or arithmetic."""
        is_bare = said.text.isalpha() or said.number % 1 == 0
        if not said.unit and is_bare and said.number <= _SMALL:
            return True
        wanted = [value for value in (said.value, said.number) if not math.isnan(value)]
        if said.unit == "clock":
            wanted.append(said.value * 60)
        return not wanted or any(
            _is_near(value, self._exact, _EXACT) or _is_near(value, self._rounded, _ROUNDED)
            for value in wanted
        )


def _is_near(value: float, ascending: Sequence[float], tolerance: float) -> bool:
    at = bisect_left(ascending, value)
    return any(
        math.isclose(one, value, rel_tol=tolerance) for one in ascending[max(0, at - 1) : at + 1]
    )


def _plain(one: Measure) -> Iterator[float]:
    if one.unit == "date":
        yield from (float(part) for date in one.dates for part in date if part)
    elif one.unit == "clock":
        yield from (one.value, one.value * 60)
    else:
        yield from (value for value in (one.value, one.number) if not math.isnan(value))


def _sums(values: Sequence[float]) -> Iterator[float]:
    if len(values) > 1:
        yield sum(values)
    for at, one in enumerate(values):
        yield 100 - one
        yield from (made for factor in _FACTORS for made in (one * factor, one / factor))
        for two in values[at + 1 :]:
            yield from (one + two, two - one, two - one - 1, two - one + 1, one * two)


def _ratios(values: Sequence[float]) -> Iterator[float]:
    for at, one in enumerate(values):
        for two in values[at + 1 :]:
            yield one * two / 100
            for less, more in ((one, two), (two, one)):
                if less:
                    share = more / less
                    yield from (share, 100 * share, abs(100 * (share - 1)))
