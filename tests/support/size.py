"""Size of the tests that are worth more the longer they run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings

VARIABLE: Final = "RAGEVAL_TESTS_LONG"
FULL: Final = bool(os.environ.get(VARIABLE))
"""True under `pytest --long`. Subprocesses see it too, by the variable."""
T = TypeVar("T")


def size(quick: T, full: T) -> T:
    """Return `full` under `pytest --long`, else `quick`: counts, seeds, lists of cases."""
    return full if FULL else quick


def fixed_machine(quick: int, full: int, steps: int) -> settings:
    return settings(
        max_examples=size(quick, full),
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )


def each_once(*columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows with every value of every column; under `pytest --long`, all combinations."""
    rows = range(max(map(len, columns)))
    quick = [tuple(column[row % len(column)] for column in columns) for row in rows]
    return size(quick, list(product(*columns)))
