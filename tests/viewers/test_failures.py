"""Nothing is lost uncounted and memory stays bounded, in whichever way a back end fails."""

from __future__ import annotations

import pytest

from tests.viewers.backend import FAULTS
from tests.viewers.failures import SINKS, Cell, alone, run

SAMPLES = 80


def cell(sink: str, fault: str) -> Cell:
    # The SDK tells a failure of one kind once a while: each run is a process of its own.
    return (alone if sink.endswith("OTLP") else run)(sink, fault, SAMPLES)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("sink", SINKS)
def test_nothing_is_lost_silently(sink: str, fault: str) -> None:
    """All are scored; what did not arrive is told, by count where it is ours; little waits."""
    got = cell(sink, fault)
    assert (got.offered, got.scored) == (SAMPLES, SAMPLES)
    assert got.kept <= got.limit
    if fault == "well":
        assert (got.arrived, got.told) == (SAMPLES, {})
    elif sink.endswith("OTLP"):
        # The application's SDK sends these, and tells by its logs.
        assert got.lost == SAMPLES
        assert sum(got.told.values()) > 0
    else:
        assert sum(got.told.values()) == got.lost == SAMPLES
