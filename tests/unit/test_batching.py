"""Laws of joining the items of concurrent callers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from rag_eval_hooks.errors import JudgeError
from rag_eval_hooks.judges.batching import Batcher
from tests.waiting import PATIENCE


class Doubler:
    """Doubles numbers, and notes each call; a held one waits, a bad number fails its call."""

    def __init__(self, *, held: bool = False, bad: int | None = None) -> None:
        self.calls: list[list[int]] = []
        self.bad = bad
        self.go = asyncio.Event()
        if not held:
            self.go.set()

    async def __call__(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        await self.go.wait()
        if self.bad in items:
            raise ValueError("bad item")
        return [2 * item for item in items]


def batcher(run: Doubler, *, size: int = 100, concurrency: int = 1) -> Batcher[int, int]:
    return Batcher(
        "doubler",
        run,
        size=size,
        window=0.02,
        concurrency=concurrency,
        divisible=lambda error: isinstance(error, ValueError),
    )


async def until_called(run: Doubler, times: int = 1) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(run.calls) < times:
            await asyncio.sleep(0.001)


async def test_concurrent_callers_share_a_call() -> None:
    """Callers within the window become one call; equal items are in it once."""
    run = Doubler()
    joined = batcher(run)
    results = await asyncio.gather(*(joined.submit([n, 7]) for n in range(5)))
    assert results == [[2 * n, 14] for n in range(5)]
    assert run.calls == [[0, 7, 1, 2, 3, 4]]


async def test_a_full_batch_waits_no_longer() -> None:
    """As soon as there are enough items they run; a caller's items are never torn apart."""
    run = Doubler()
    joined = Batcher("doubler", run, size=4, window=60.0, concurrency=2)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(joined.submit([1, 2, 3]), joined.submit([4, 5, 6]))
        await joined.submit([7, 8, 9, 10, 11])
    assert run.calls == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11]]


async def test_what_comes_while_one_runs_waits_for_the_next() -> None:
    """No more batches run at once than allowed; the next takes all that came meanwhile."""
    run = Doubler(held=True)
    joined = batcher(run)
    first = asyncio.create_task(joined.submit([1]))
    await until_called(run)
    others = [asyncio.create_task(joined.submit([n])) for n in (2, 3, 4)]
    await asyncio.sleep(0.05)
    assert run.calls == [[1]]
    run.go.set()
    assert await asyncio.gather(first, *others) == [[2], [4], [6], [8]]
    assert run.calls == [[1], [2, 3, 4]]


async def test_a_cancelled_caller_harms_no_other() -> None:
    """Cancelling one caller, waiting or already in a call, leaves the others their results."""
    run = Doubler(held=True)
    joined = batcher(run)
    early = [asyncio.create_task(joined.submit([n])) for n in (1, 2)]
    await until_called(run)
    late = [asyncio.create_task(joined.submit([n])) for n in (3, 4)]
    await asyncio.sleep(0)
    early[0].cancel()
    late[0].cancel()
    await asyncio.sleep(0)
    run.go.set()
    assert [await early[1], await late[1]] == [[4], [8]]
    assert run.calls == [[1, 2], [4]]
    assert early[0].cancelled()
    assert late[0].cancelled()


async def test_an_error_reaches_the_callers_concerned() -> None:
    """Callers are served alone if one item may be at fault: only the one with it fails."""
    run = Doubler(bad=2)
    joined = batcher(run)
    results = await asyncio.gather(*(joined.submit([n]) for n in (1, 2, 3)), return_exceptions=True)
    assert results[0] == [2]
    assert isinstance(results[1], ValueError)
    assert results[2] == [6]
    assert run.calls == [[1, 2, 3], [1], [2], [3]]


async def test_an_outage_is_not_multiplied() -> None:
    """An error that is no item's fault reaches all callers of the batch after one call."""

    async def down(items: Sequence[int]) -> list[int]:
        calls.append(len(items))
        raise JudgeError("down")

    calls: list[int] = []
    joined: Batcher[int, int] = Batcher("down", down, size=10, window=0.01)
    results = await asyncio.gather(*(joined.submit([n]) for n in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["down"] * 3
    assert calls == [3]


async def test_too_few_results_are_an_error() -> None:
    """A call that does not give one result per item gives nobody a result of another."""

    async def short(items: Sequence[int]) -> list[int]:
        return list(items)[1:]

    joined: Batcher[int, int] = Batcher("short", short, size=10, window=0.0)
    with pytest.raises(JudgeError, match="1 results of 2"):
        await joined.submit([1, 2])


async def test_no_items_are_no_call() -> None:
    """Nothing to do is done without a call."""
    run = Doubler()
    assert await batcher(run).submit([]) == []
    assert run.calls == []


async def test_closing_leaves_no_task() -> None:
    """Closing ends what runs and what waits; its callers get a judge error, later ones a result."""
    run = Doubler(held=True)
    joined = batcher(run)
    before = asyncio.all_tasks()
    callers = [asyncio.create_task(joined.submit([1]))]
    await until_called(run)
    callers.append(asyncio.create_task(joined.submit([2])))
    await asyncio.sleep(0)
    await joined.aclose()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert all(isinstance(result, JudgeError) for result in results)
    assert asyncio.all_tasks() == before
    run.go.set()
    assert await joined.submit([3]) == [6]


def test_each_loop_has_its_own_batches() -> None:
    """One object serves one event loop after another, however the first one ended."""

    async def run(items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]

    async def leave() -> None:
        asyncio.get_running_loop().create_task(joined.submit([1]))
        await asyncio.sleep(0)

    joined: Batcher[int, int] = Batcher("doubler", run, size=10, window=0.01)
    asyncio.run(leave())
    assert asyncio.run(joined.submit([2])) == [4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_can_use_it() -> None:
    """A child that was forked while a batch ran in the parent gets results of its own."""

    async def run(items: Sequence[int]) -> list[int]:
        return [2 * item for item in items]

    async def fork_amid() -> int:
        waiting = asyncio.create_task(joined.submit([1]))
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            os._exit(_in_new_loop(joined))
        assert await waiting == [2]
        return child

    joined: Batcher[int, int] = Batcher("doubler", run, size=10, window=0.01)
    child = asyncio.run(fork_amid())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


def _in_new_loop(joined: Batcher[int, int]) -> int:
    """42 from a loop that is not the one that the fork has copied."""
    asyncio.events._set_running_loop(None)
    loop = asyncio.new_event_loop()
    return loop.run_until_complete(asyncio.wait_for(joined.submit([21]), PATIENCE))[0]
