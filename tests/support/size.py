"""Size of the tests that are worth more the longer they run."""

from __future__ import annotations

import os
from typing import Final, TypeVar

VARIABLE: Final = "RAGEVAL_TESTS_LONG"
FULL: Final = bool(os.environ.get(VARIABLE))
"""True under `pytest --long`. Subprocesses see it too, by the variable."""
T = TypeVar("T")


def size(quick: T, full: T) -> T:
    """Return `full` under `pytest --long`, else `quick`: counts, seeds, lists of cases."""
    return full if FULL else quick
