"""With a spool, what a sink did not take stays there and is delivered again."""

from __future__ import annotations

import asyncio
import gc
import json
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import Outcomes, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.delivery.sink import RetryLater
from rag_eval_hooks.runtime import spooled
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge, Support
from tests.support.limits import small_limits
from tests.waiting import PATIENCE, until

GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


def sample(number: int, **fields: Any) -> Sample:
    base = {"question": f"q {number}", "contexts": ("c",), "answer": "a", "sample_id": f"s{number}"}
    return Sample(**(base | fields))


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


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[RagEval] = []
    # A result that waited longer for a busy disk would be delivered without being stored.
    monkeypatch.setattr(spooled, "PATIENCE_S", PATIENCE)
    # What a killed process left is claimed at once.
    monkeypatch.setattr(outbox_file, "LEASE_S", 0.5)

    def build(*sinks: Any, judge: ScriptedJudge | None = None, **config: Any) -> RagEval:
        config.setdefault("spool", str(tmp_path / "spool"))
        with small_limits(config):
            made.append(
                RagEval(
                    metrics=["ragas.faithfulness"],
                    judge=judge or ScriptedJudge(GOOD),
                    sinks=sinks,
                    config=RagEvalConfig(**config),
                )
            )
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


def offer(evals: RagEval, count: int, **fields: Any) -> None:
    for number in range(count):
        assert evals.offer(sample(number, **fields))
    assert evals.flush(PATIENCE)


def books(evals: RagEval) -> dict[str, int]:
    return {name: count for name, count in evals.spooled().items() if count}


def test_a_sink_gets_what_it_missed_and_the_others_nothing_twice(make: Make) -> None:
    """A result leaves the spool when every sink has taken it; flush does not wait for that."""
    down, other = Table(), Table(down=False)
    evals = make(down, other)
    offer(evals, 3)
    assert evals.stats().scored == 3
    until(lambda: books(evals) == {"accepted": 3, "scored": 3, "undelivered": 3})
    down.down = False
    until(lambda: books(evals) == {"accepted": 3, "scored": 3})
    assert down.rows == other.rows == {"s0": 1, "s1": 1, "s2": 1}
    assert evals.stats().scored == evals.stats().offered == 3
    assert evals.stats().incidents["sink CallableSink: ConnectionError"] == down.tries - 3


def test_an_async_function_is_called_again(make: Make) -> None:
    """An awaitable that raises is no delivery."""
    table = Table()

    async def write(sample: Sample, outcomes: Outcomes) -> None:
        table(sample, outcomes)

    evals = make(write)
    offer(evals, 2)
    table.down = False
    until(lambda: books(evals) == {"accepted": 2, "scored": 2})
    assert table.rows == {"s0": 1, "s1": 1}


def test_a_file_gets_its_lines_when_it_can_be_written_again(make: Make, tmp_path: Path) -> None:
    """A folder that is gone for a while costs no line."""
    folder = tmp_path / "results"
    folder.mkdir()
    evals = make(f"jsonl:{folder / 'r.jsonl'}")
    shutil.rmtree(folder)
    offer(evals, 2)
    folder.mkdir()
    until(lambda: books(evals) == {"accepted": 2, "scored": 2})
    found = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    assert sorted(line["sample"]["sample_id"] for line in found) == ["s0", "s1"]


def test_a_sink_that_hung_gets_what_came_meanwhile(make: Make) -> None:
    """Results whose turn never came are delivered when the sink returns."""
    free, rows = threading.Event(), Counter[str]()

    def slow(sample: Sample, outcomes: Outcomes) -> None:
        rows[sample.sample_id] += 1
        free.wait(PATIENCE)

    evals = make(slow, SINK_SECONDS=0.2)
    offer(evals, 4)
    assert len(rows) == 1
    free.set()
    until(lambda: books(evals) == {"accepted": 4, "scored": 4})
    assert rows == {"s0": 1, "s1": 1, "s2": 1, "s3": 1}


def test_what_no_sink_ever_takes_stops_no_other(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result that no sink takes is given up after `SINK_KEEP_SECONDS`; others arrive before."""
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 30.0)
    rows: Counter[str] = Counter()
    down = threading.Event()
    down.set()

    def picky(sample: Sample, outcomes: Outcomes) -> None:
        if down.is_set() or sample.sample_id in ("s0", "s1", "s2"):
            raise ValueError
        rows[sample.sample_id] += 1

    evals = make(picky, SINK_RETRY_SECONDS=1.0)
    offer(evals, 6)
    down.clear()
    until(lambda: rows == {"s3": 1, "s4": 1, "s5": 1})
    until(lambda: books(evals) == {"accepted": 6, "scored": 6, "undelivered": 3})
    until(lambda: books(evals) == {"accepted": 6, "scored": 6})
    assert evals.stats().incidents["sink CallableSink, kept too long: Lost"] == 3


def count_in_memory(chars: int) -> int:
    """Number of samples in this process whose question has so many characters."""
    gc.collect()
    return sum(type(one) is Sample and len(one.question) == chars for one in gc.get_objects())


def test_what_is_too_much_for_memory_is_left_in_the_spool(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded, whatever is down; the rest is taken up when the sink is back."""
    monkeypatch.setattr(limits, "SINK_QUEUE_CHARS", 5000)
    table, judge = Table(), ScriptedJudge(GOOD)
    evals = make(table, judge=judge, FEEDBACK_SAMPLES=0)
    offer(evals, 20, question="q" * 1000)
    # The scripted judge keeps every sample that it was asked about.
    judge.calls.clear()
    # The thread that writes holds the others until they are on disk.
    until(lambda: count_in_memory(1000) <= 4)
    assert evals.stats().incidents["sink CallableSink: left in the spool"] >= 17
    assert evals.stats().scored == evals.stats().offered == 20
    until(lambda: books(evals)["undelivered"] == 20)
    table.down = False
    until(lambda: books(evals) == {"accepted": 20, "scored": 20})
    assert table.rows == {f"s{number}": 1 for number in range(20)}


def test_what_was_left_in_the_spool_outlives_the_process(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results that memory had no capacity for are delivered by the next process, too."""
    monkeypatch.setattr(limits, "SINK_QUEUE_CHARS", 5000)
    table = Table()
    evals = make(table)
    offer(evals, 20, question="q" * 1000)
    evals.shutdown(PATIENCE)
    table.down = False
    following = make(table)
    until(lambda: books(following) == {"accepted": 20, "scored": 20})
    assert table.rows == {f"s{number}": 1 for number in range(20)}


def test_a_sink_that_is_too_slow_keeps_no_other_waiting(make: Make) -> None:
    """While it fails slowly, evaluation and the other sinks go on, and it gets all in the end."""
    down, others = threading.Event(), Table(down=False)
    down.set()
    rows: Counter[str] = Counter()

    def slow(sample: Sample, outcomes: Outcomes) -> None:
        if down.is_set():
            time.sleep(0.2)
            raise ConnectionError("no database")
        rows[sample.sample_id] += 1

    evals = make(slow, others, SINK_SECONDS=0.3, judge_concurrency=8)
    offer(evals, 60)
    assert sum(others.rows.values()) == 60
    down.clear()
    until(lambda: books(evals) == {"accepted": 60, "scored": 60})
    assert rows == {f"s{number}": 1 for number in range(60)}


def test_each_sink_has_its_own_pace(make: Make) -> None:
    """One that is down for long, with much waiting for it, delays no other."""
    tries, is_for_long, shaky = [], threading.Event(), Table(down=False)

    def down(sample: Sample, outcomes: Outcomes) -> None:
        long = is_for_long.is_set()
        tries.append(long)
        raise RetryLater("HTTP 503", 60.0) if long else ConnectionError

    evals = make(down, shaky)
    offer(evals, 10)
    is_for_long.set()
    until(lambda: tries[-1])
    shaky.down = True
    assert evals.offer(sample(10))
    assert evals.flush(PATIENCE)
    shaky.down = False
    until(lambda: shaky.rows["s10"])
    # The other one is still left alone.
    assert tries.count(True) == 1
    assert shaky.rows == {f"s{number}": 1 for number in range(11)}


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("is_async", [False, True])
def test_no_exception_of_a_sink_ends_anything(
    make: Make, error: type[BaseException], is_async: bool
) -> None:
    """A sink's exit or cancellation is counted and ends nothing; the delivery is tried again."""
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

    evals = make(awrite if is_async else write, good)
    offer(evals, 3)
    until(lambda: books(evals) == {"accepted": 3, "scored": 3})
    assert bad.rows == good.rows == {"s0": 1, "s1": 1, "s2": 1}
    assert evals.stats().incidents[f"sink CallableSink: {error.__name__}"] == 4
    offer(evals, 1, sample_id="later")
    assert good.rows["later"] == 1
    assert evals.shutdown(PATIENCE)


@pytest.mark.parametrize("returned", [None, 1, "INSERT 1"])
def test_what_a_slow_sink_took_in_the_end_is_not_repeated(make: Make, returned: Any) -> None:
    """A call that outlasted its time and returned well has delivered, whatever it returned."""
    rows: Counter[str] = Counter()

    def slow(sample: Sample, outcomes: Outcomes) -> Any:
        time.sleep(0.4)
        rows[sample.sample_id] += 1
        return returned

    evals = make(slow, SINK_SECONDS=0.1)
    offer(evals, 3)
    until(lambda: books(evals) == {"accepted": 3, "scored": 3})
    assert rows == {"s0": 1, "s1": 1, "s2": 1}


def test_a_shutdown_lets_a_try_in_flight_end(make: Make) -> None:
    """A delivery in flight at the shutdown is noted: the next process does not repeat it."""
    table, began = Table(), threading.Event()

    def write(sample: Sample, outcomes: Outcomes) -> None:
        if not table.down:
            began.set()
            time.sleep(0.5)
        table(sample, outcomes)

    first = make(write)
    offer(first, 1)
    table.down = False
    assert began.wait(PATIENCE)
    first.shutdown(PATIENCE)
    second = make(write)
    time.sleep(3)
    assert table.rows == {"s0": 1}
    until(lambda: books(second) == {"accepted": 1, "scored": 1})


def test_what_is_old_is_tried_for_a_while_all_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that starts after a weekend gives its sinks time to come up."""
    first = make(Table())
    offer(first, 2)
    first.shutdown(PATIENCE)
    table = Table()
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.001)
    second = make(table, SINK_RETRY_SECONDS=30.0)
    until(lambda: table.tries >= 4)
    table.down = False
    until(lambda: books(second) == {"accepted": 2, "scored": 2})
    assert table.rows == {"s0": 1, "s1": 1}


def test_the_next_process_delivers_what_one_could_not(make: Make, tmp_path: Path) -> None:
    """A shutdown leaves it in the spool; a sink that has its results gets nothing twice."""
    path = tmp_path / "r.jsonl"
    first = make(Table(), f"jsonl:{path}")
    offer(first, 3)
    first.shutdown(PATIENCE)
    table = Table(down=False)
    second = make(table, f"jsonl:{path}")
    until(lambda: books(second) == {"accepted": 3, "scored": 3})
    assert table.rows == {"s0": 1, "s1": 1, "s2": 1}
    assert len(path.read_text().splitlines()) == 3


def test_a_kill_loses_nothing_that_a_sink_did_not_take(make: Make, tmp_path: Path) -> None:
    """Results that wait for a sink survive `kill -9`."""
    script = f"""
        import os, signal
        from rag_eval_hooks import RagEval, RagEvalConfig, Sample

        def down(sample, outcomes):
            raise ConnectionError

        config = RagEvalConfig(spool={str(tmp_path / "spool")!r})
        evals = RagEval(metrics=["lexical.source_citation"], sinks=[down], config=config)
        for number in range(5):
            assert evals.offer(Sample(question="q", answer="see page 1", sample_id=f"s{{number}}"))
        assert evals.flush({PATIENCE})
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -9
    table = Table(down=False)
    evals = make(table)
    until(lambda: books(evals) == {"accepted": 5, "scored": 5})
    assert table.rows == {f"s{number}": 1 for number in range(5)}


def test_without_a_spool_a_failed_delivery_is_counted(make: Make) -> None:
    """Memory alone promises nothing: it is not called again."""
    table, memory = Table(), MemorySink()
    evals = make(table, memory, spool=None)
    offer(evals, 2)
    table.down = False
    time.sleep(1.5)
    assert table.tries == 2
    assert len(memory.results) == 2
    assert evals.stats().incidents == {"sink CallableSink: ConnectionError": 2}
