"""Cache for functions of a text that keeps no long text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final, TypeVar

R = TypeVar("R")

_LONGEST: Final = 500
"""Characters; thousands of longer texts would take gigabytes."""


def cache_short(maxsize: int) -> Callable[[Callable[[str], R]], Callable[[str], R]]:
    """Cache a function's results for texts of at most 500 characters."""

    def decorate(function: Callable[[str], R]) -> Callable[[str], R]:
        cached = lru_cache(maxsize)(function)

        @wraps(function)
        def call(text: str) -> R:
            return cached(text) if len(text) <= _LONGEST else function(text)

        return call

    return decorate
