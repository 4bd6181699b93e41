"""What tests with real frameworks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.matrix.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """Return an evaluator of which everything can be seen."""
    made = World()
    yield made
    made.close()
