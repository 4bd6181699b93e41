"""A judge budget that several processes share through one file."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks.errors import BudgetError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget
from tests.waiting import PATIENCE

PROCESSES = 8
LIMITS = {"calls_per_day": 400.0, "tokens_per_day": 100_000.0}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "budget.db")


def budget(path: str, limits: dict[str, float]) -> Budget:
    return Budget(limits, Path(path), incidents=Incidents(), now=lambda: 1_000_000.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_shares_the_file_and_not_the_connection(path: str) -> None:
    limited = budget(path, {"calls_per_hour": 10})
    asyncio.run(limited.reserve(1))
    child = os.fork()
    if child == 0:
        limited.forked()
        for _ in range(4):
            asyncio.run(limited.reserve(1))
        os._exit(round(limited.spent()["hour"].calls))
    for _ in range(2):
        asyncio.run(limited.reserve(1))
    _, status = os.waitpid(child, 0)
    assert 5 <= os.waitstatus_to_exitcode(status) <= 7
    assert limited.spent()["hour"].calls == 7


def _spend(path: str, worker: int, results: Any) -> None:
    limited = Budget(LIMITS, Path(path), incidents=Incidents(), now=lambda: 0.0)
    sent = refused = 0
    while refused < 5:
        try:
            call = asyncio.run(limited.reserve(100))
        except BudgetError:
            refused += 1
            continue
        sent += 1
        call.settle(150, 250 + worker)
    limited.close()
    results.put(sent)


@pytest.mark.long
def test_processes_share_one_budget(path: str) -> None:
    """Together they spend no more than the limit and one call in flight for each of them."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=_spend, args=(path, n, queue)) for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    sent = [queue.get(timeout=PATIENCE) for _ in workers]
    for worker in workers:
        worker.join()
    spent = Budget(LIMITS, Path(path), incidents=Incidents(), now=lambda: 0.0).spent()["day"]
    assert spent.calls == sum(sent) <= 400
    assert 100_000 - PROCESSES * 500 <= spent.tokens <= 100_000 + PROCESSES * 410
