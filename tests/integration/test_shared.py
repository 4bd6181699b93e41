"""Several real processes with one spool and one budget."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.shared import run
from tests.support.size import size


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")
def test_processes_share_a_spool_and_a_budget(tmp_path: Path) -> None:
    """Rates are within binomial bounds, the budget is spent and passed by no more than a call each.

    Everything that any of them accepted is in the file once, and all books add up.
    """
    report = run(tmp_path, processes=size(4, 8), each=size(80, 40))
    assert report.findings() == []
    assert report.refused > 0
    assert report.accepted > 0
