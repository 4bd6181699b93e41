"""With a spool, scores reach a platform though processes are killed and platforms are down."""

from __future__ import annotations

import asyncio
import gc
import itertools
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.sink import RetryLater
from rag_eval_hooks.runtime import process
from rag_eval_hooks.score import Outcomes
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.servers.platform_server import Answer, PlatformServer, Request
from tests.support.delivery import PLATFORMS as SINKS
from tests.support.limits import small_limits
from tests.support.scripts import run_script
from tests.waiting import PATIENCE, until

METRIC = "lexical.source_citation"
Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


def sample(number: int, **fields: Any) -> Sample:
    base = {"question": "q", "answer": "see page 1", "sample_id": f"s{number}"}
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    return Sample(**(base | ids | fields))


class Platform:
    """Phoenix, which can be down, and keeps a score by its key."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.taken: Counter[str] = Counter()
        self.server = PlatformServer(self._answer)
        self.url = self.server.url

    def _answer(self, request: Request) -> Answer:
        if self.status is not None:
            return Answer(self.status, {"error": "down"})
        self.taken.update(f"{one['span_id']} {one['name']}" for one in request.body["data"])
        return Answer(body={"data": []})


@pytest.fixture
def platform() -> Iterator[Platform]:
    one = Platform()
    with one.server:
        yield one


@pytest.fixture(autouse=True)
def quick_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this one take leases of more than a second for expired ones."""
    monkeypatch.setattr(outbox_file, "LEASE_S", 1.0)
    # A result that waited longer for a busy disk would be delivered without being stored.
    monkeypatch.setattr(process, "PATIENCE_S", PATIENCE)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RagEval] = []

    def build(sinks: Any, metrics: Any = METRIC, **config: Any) -> RagEval:
        config = {"spool": str(tmp_path / "spool"), "SINK_SECONDS": 60.0, **config}
        with small_limits(config):
            made.append(RagEval(metrics, sinks=sinks, config=RagEvalConfig(**config)))
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


PRELUDE = """
import os, signal, time
from tests.integration.test_durable_delivery import METRIC, SINKS, sample
from rag_eval_hooks import RagEval

def begin(sinks):
    evals = RagEval(METRIC, sinks=sinks, spool="spool")
    for n in range(5):
        evals.submit(sample(n))
    while evals.spooled().get("scored") != 5:
        time.sleep(0.01)
"""


def killed(folder: Path, script: str) -> None:
    """Run a script in a process of its own that ends by `kill -9`."""
    run_script(folder, script, prelude=PRELUDE, end=-9)


def test_scores_outlive_their_process(make: Make, platform: Platform, tmp_path: Path) -> None:
    platform.status = 503
    killed(
        tmp_path,
        f"""
        begin(SINKS["phoenix"]("{platform.url}"))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert not platform.taken
    platform.status = None
    memory = MemorySink()
    evals = make([SINKS["phoenix"](platform.url), memory])
    assert evals.spooled()["undelivered"] == 5
    until(lambda: "undelivered" not in evals.spooled())
    assert len(platform.taken) == 5
    assert set(platform.taken.values()) == {1}
    # Their samples were settled by the process that scored them.
    assert memory.results == []
    assert evals.stats().offered == 0


def test_results_for_sinks_of_other_settings_stop_no_recovery(
    make: Make, platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These wait for their own address, for a day; no other platform gets them."""
    platform.status = 503
    for number in range(9):
        evals = make(SINKS["phoenix"](f"{platform.url}/{number}"), SINK_RETRY_SECONDS=0.1)
        evals.submit(sample(number))
        assert evals.flush(PATIENCE)
        evals.shutdown(0.1)
    until(lambda: evals.spooled().get("undelivered") == 9)
    left = RagEval("ragas.faithfulness", ScriptedJudge(latency=600), spool=str(tmp_path / "spool"))
    left.submit(sample(9999, contexts=("c",)))
    assert not left.shutdown(0)
    platform.status = None
    second = make([SINKS["phoenix"](platform.url)])
    second.submit(sample(99))
    until(lambda: second.stats().recovered == 1)
    until(lambda: second.spooled()["pending"] == 0)
    until(lambda: second.spooled()["undelivered"] == 9)
    spans = {key.split()[0] for key in platform.taken}
    assert spans == {f"{number + 1:016x}" for number in (99, 9999)}
    second.shutdown(1)
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.0)
    third = make([])
    third.submit(sample(1))
    until(lambda: "undelivered" not in third.spooled())
    assert (
        third.stats().incidents["spool, results for a sink that is no longer configured: Lost"] == 9
    )


class Table:
    """A user's function that writes into a database, which is down at times."""

    def __init__(self, *, down: bool = True) -> None:
        self.down = down
        self.rows: Counter[str] = Counter()
        self.tries = 0

    def __call__(self, sample: Sample, outcomes: Outcomes) -> None:
        self.tries += 1
        if self.down:
            raise ConnectionError("no database")
        self.rows[sample.sample_id] += 1


def offer(evals: RagEval, count: int, **fields: Any) -> None:
    for number in range(count):
        assert evals.submit(sample(number, **fields))
    assert evals.flush(PATIENCE)


def books(evals: RagEval) -> dict[str, int]:
    return {name: count for name, count in evals.spooled().items() if count}


def test_sink_after_a_hang_gets_each_result_once(make: Make) -> None:
    """A call that returns late has delivered, whatever it returns; the others follow."""
    free, rows = threading.Event(), Counter[str]()

    def slow(sample: Sample, outcomes: Outcomes) -> Any:
        rows[sample.sample_id] += 1
        free.wait(PATIENCE)
        return "INSERT 1"

    evals = make([slow], SINK_SECONDS=0.2)
    for number in range(4):
        assert evals.submit(sample(number))
    # Whoever waits is not told that all is delivered.
    assert not evals.flush(1)
    assert len(rows) == 1
    free.set()
    until(lambda: books(evals) == {"accepted": 4, "scored": 4})
    assert rows == {"s0": 1, "s1": 1, "s2": 1, "s3": 1}


def test_rejected_result_does_not_block_others(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that no sink takes is given up after `SINK_KEEP_SECONDS`; others arrive before."""
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 10.0)
    rows: Counter[str] = Counter()
    down = threading.Event()
    down.set()

    def picky(sample: Sample, outcomes: Outcomes) -> None:
        if down.is_set() or sample.sample_id in ("s0", "s1", "s2"):
            raise ValueError
        rows[sample.sample_id] += 1

    evals = make([picky], SINK_RETRY_SECONDS=1.0)
    offer(evals, 6)
    down.clear()
    until(lambda: rows == {"s3": 1, "s4": 1, "s5": 1})
    until(lambda: books(evals) == {"accepted": 6, "scored": 6, "undelivered": 3})
    until(lambda: books(evals) == {"accepted": 6, "scored": 6})
    assert evals.stats().incidents["sink picky, kept too long: Lost"] == 3


def count_in_memory(chars: int) -> int:
    """Number of samples in this process whose question has so many characters."""
    gc.collect()
    return sum(type(one) is Sample and len(one.question) == chars for one in gc.get_objects())


def test_a_sink_that_fails_gets_each_result_though_the_disk_hangs(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an overloaded machine the file takes nothing for seconds."""
    monkeypatch.setattr(process, "PATIENCE_S", 0.1)
    calls, taken = itertools.count(), Counter[str]()

    def fails_at_times(sample: Sample, _outcomes: Outcomes) -> None:
        if next(calls) % 3 == 1:
            raise ConnectionError
        taken[sample.sample_id] += 1

    evals = make([fails_at_times])
    offer(evals, 1)
    file = tmp_path / "spool" / outbox_file.NAME
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        for number in range(1, 10):
            assert evals.submit(sample(number))
        until(lambda: len(taken) == 10)
        db.execute("ROLLBACK")
    assert set(taken.values()) == {1}
    assert evals.stats().scored == evals.stats().offered == 10


def test_result_beyond_memory_stays_in_the_spool(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SINK_QUEUE_CHARS", 5000)
    table = Table()
    evals = make([table], FEEDBACK_SAMPLES=0)
    offer(evals, 20, question="q" * 1000)
    # The thread that writes holds the others until they are on disk.
    until(lambda: count_in_memory(1000) <= 4)
    assert evals.stats().incidents["sink CallableSink: undelivered results stay in the spool"] >= 17
    assert evals.stats().scored == evals.stats().offered == 20
    until(lambda: books(evals)["undelivered"] == 20)
    table.down = False
    until(lambda: books(evals) == {"accepted": 20, "scored": 20})
    assert table.rows == {f"s{number}": 1 for number in range(20)}


def test_each_sink_has_its_own_pace(make: Make) -> None:
    tries, is_for_long, shaky = [], threading.Event(), Table(down=False)

    def down(sample: Sample, outcomes: Outcomes) -> None:
        long = is_for_long.is_set()
        tries.append(long)
        raise RetryLater("HTTP 503", 60.0) if long else ConnectionError

    evals = make([down, shaky])
    offer(evals, 10)
    is_for_long.set()
    until(lambda: tries[-1])
    shaky.down = True
    assert evals.submit(sample(10))
    assert evals.flush(PATIENCE)
    shaky.down = False
    until(lambda: shaky.rows["s10"])
    # The other one is still left alone.
    assert tries.count(True) == 1
    assert shaky.rows == {f"s{number}": 1 for number in range(11)}


@pytest.mark.parametrize(
    ("error", "is_async"),
    [(asyncio.CancelledError, True), (SystemExit, False), (KeyboardInterrupt, True)],
)
def test_no_exception_of_a_sink_ends_anything(
    make: Make, error: type[BaseException], is_async: bool
) -> None:
    bad, good = Table(down=False), Table(down=False)
    tries = 0

    def write(sample: Sample, outcomes: Outcomes) -> None:
        nonlocal tries
        tries += 1
        if tries <= 4:
            raise error
        bad(sample, outcomes)

    async def awrite(sample: Sample, outcomes: Outcomes) -> None:
        write(sample, outcomes)

    evals = make([awrite if is_async else write, good])
    offer(evals, 3)
    until(lambda: books(evals) == {"accepted": 3, "scored": 3})
    assert bad.rows == good.rows == {"s0": 1, "s1": 1, "s2": 1}
    assert evals.stats().incidents[f"sink {'a' * is_async}write: {error.__name__}"] == 4
    offer(evals, 1, sample_id="later")
    assert good.rows["later"] == 1
    assert evals.shutdown(PATIENCE)


def test_old_result_is_retried_for_a_while(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that starts after a weekend gives its sinks time to come up."""
    first = make([Table()])
    offer(first, 2)
    first.shutdown(PATIENCE)
    table = Table()
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.001)
    second = make([table], SINK_RETRY_SECONDS=30.0)
    until(lambda: table.tries >= 4)
    table.down = False
    until(lambda: books(second) == {"accepted": 2, "scored": 2})
    assert table.rows == {"s0": 1, "s1": 1}
