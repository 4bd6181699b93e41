"""What is on disk outlives kills, damage, locks and forks, and reaches each sink once."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from rag_eval_hooks import Feedback, JsonlSink, RagEval, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox, outbox_file
from rag_eval_hooks.results import read
from rag_eval_hooks.sqlite_file import SqliteFile
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.delivery import PLATFORMS
from tests.support.evaluation import FAITHFUL
from tests.support.fleet import lines
from tests.support.limits import small_limits
from tests.support.scripts import run_script
from tests.support.servers.platform_server import Answer, PlatformServer, Request
from tests.waiting import PATIENCE, until

Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks and POSIX file locks")
METRIC = "ragas.faithfulness"


def sample(number: int = 0, **fields: Any) -> Sample:
    base = {"question": f"q {number}", "contexts": ("c",), "answer": "a", "sample_id": f"s{number}"}
    ids = {"trace_id": f"{number + 1:032x}", "span_id": f"{number + 1:016x}"}
    return Sample(**(base | ids | fields))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    # Longer leases of killed processes count as expired.
    monkeypatch.setattr(outbox_file, "LEASE_S", 1.0)
    # A result that waited longer for a busy disk would be delivered without being stored.
    monkeypatch.setattr(outbox, "PATIENCE_S", PATIENCE)
    made: list[RagEval] = []

    def build(*sinks: Any, judge: Any = None, **settings: Any) -> RagEval:
        settings = {"spool": str(folder), "SINK_SECONDS": 60.0, **settings}
        with small_limits(settings):
            judge = judge or ScriptedJudge(FAITHFUL)
            made.append(RagEval(METRIC, judge, sinks=list(sinks), **settings))
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


@pytest.fixture
def left_behind(make: Make, folder: Path) -> Callable[..., Path]:
    def leave(*samples: Sample, **settings: Any) -> Path:
        evals = make(judge=ScriptedJudge(FAITHFUL, latency=600), **settings)
        for one in samples:
            assert evals.submit(one)
        until(lambda: len(rows(folder)) == len(samples))
        assert not evals.shutdown(0)
        return folder / outbox_file.NAME

    return leave


PRELUDE = """
import asyncio, os, signal, time
from rag_eval_hooks import JsonlSink, RagEval
from rag_eval_hooks.testing import ScriptedJudge
from tests.integration.test_durability import FAITHFUL, METRIC, PLATFORMS, sample
"""


def killed(folder: Path, script: str) -> None:
    run_script(folder, script, prelude=PRELUDE, end=-9)


def rows(folder: Path, column: str = "json_extract(payload, '$.sample.sample_id')") -> list[Any]:
    if not (path := folder / outbox_file.NAME).exists():
        return []
    # A file has no tables at the moment of its creation.
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.DatabaseError):
        return [one for (one,) in db.execute(f"SELECT {column} FROM jobs ORDER BY id")]
    return []


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def books(evals: RagEval) -> dict[str, int]:
    return {name: count for name, count in evals.spooled().items() if count}


def offer(evals: RagEval, *numbers: int, **fields: Any) -> None:
    for number in numbers:
        assert evals.submit(sample(number, **fields))
    assert evals.flush(PATIENCE)


class Platform:
    def __init__(self) -> None:
        self.is_down = True
        self.taken: Counter[int] = Counter()
        self.server = PlatformServer(self._answer)
        self.url = self.server.url

    def _answer(self, request: Request) -> Answer:
        if self.is_down:
            return Answer(503, {"error": "down"})
        self.taken.update(int(one["span_id"], 16) - 1 for one in request.body["data"])
        return Answer(body={"data": []})


@pytest.fixture
def platform() -> Iterator[Platform]:
    one = Platform()
    with one.server:
        yield one


class Table:
    def __init__(self, *, is_down: bool = True) -> None:
        self.is_down = is_down
        self.rows: Counter[str] = Counter()
        self.tries = 0

    def __call__(self, sample: Sample, _outcomes: object) -> None:
        self.tries += 1
        if self.is_down:
            raise ConnectionError("no database")
        self.rows[sample.sample_id] += 1


def test_samples_and_scores_outlive_their_killed_process(
    make: Make, platform: Platform, tmp_path: Path
) -> None:
    killed(
        tmp_path,
        f"""
        class Stuck(ScriptedJudge):
            async def make(self, given, *call):
                await asyncio.sleep(600 * (given.question > "q 4"))
                return await super().make(given, *call)
        evals = RagEval(METRIC, Stuck(FAITHFUL), sinks=PLATFORMS["phoenix"]("{platform.url}"),
                        spool="spool")
        for n in range(8): evals.submit(sample(n))
        while (evals.spooled().get("undelivered"), evals.spooled().get("pending")) != (5, 3):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    platform.is_down = False
    evals = make(PLATFORMS["phoenix"](platform.url), memory := MemorySink())
    assert evals.spooled()["undelivered"] == 5
    until(lambda: books(evals) == {})
    until(lambda: len(platform.taken) == 8 and len(memory.results) == 3)
    assert set(platform.taken.values()) == {1}
    # The process that scored the others has settled them.
    found = sorted((one.sample for one in memory.results), key=lambda one: one.sample_id)
    assert found == [sample(number) for number in (5, 6, 7)]
    stats = evals.stats()
    assert (stats.offered, stats.recovered, stats.scored) == (3, 3, 3)


def test_reader_of_a_file_gets_each_result_once(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    script = """
    class Deadly(JsonlSink):
        def deliver(self, evaluation):
            super().deliver(evaluation)
            os.kill(os.getpid(), signal.SIGKILL)
    judge = ScriptedJudge(FAITHFUL, latency=0.3)
    evals = RagEval(METRIC, judge, sinks=[Deadly("results.jsonl")], spool="spool")
    evals.submit(sample())
    time.sleep(120)
    """
    killed(tmp_path, script)
    (written,) = lines(path)
    whole = path.read_bytes()
    # The killed process left a part of another line.
    path.write_bytes(whole + whole[:-20])
    second = make(JsonlSink(path), memory := MemorySink())
    until(lambda: books(second) == {})
    first, part, again = path.read_text().splitlines()
    assert (json.loads(first), part) == (written, first[:-19])
    assert json.loads(again)["result_id"] == written["result_id"]
    assert json.loads(again)["evaluated"] == written["evaluated"]
    assert len(list(read(path))) == 1
    assert (second.stats().offered, memory.results) == (0, [])


@pytest.mark.long
def test_sample_that_ends_its_processes_is_given_up_after_ten(
    make: Make, tmp_path: Path, folder: Path
) -> None:
    script = """
    def deadly(text): os.kill(os.getpid(), signal.SIGKILL)
    first = not os.path.exists("spool")
    class Deadly(ScriptedJudge):
        async def make(self, *call):
            # The first time not before it is on disk, then at once, as a native crash is.
            while first and evals.spooled().get("pending") != 1: time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
    redact = None if first else deadly
    evals = RagEval(METRIC, Deadly(FAITHFUL), spool="spool", redact=redact)
    if first: evals.submit(sample())
    time.sleep(120)
    """
    for tries in range(3):
        killed(tmp_path, script)
        assert rows(folder, "tries") == [tries]
    execute(folder / outbox_file.NAME, "UPDATE jobs SET tries = 10")
    evals = make()
    until(lambda: evals.stats().dropped == {"gave_up": 1})
    until(lambda: books(evals) == {})


def test_relative_spool_stays_in_its_folder_and_is_readable_by_its_owner_alone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    evals = make(spool="relative")
    make(spool=str(elsewhere))
    monkeypatch.chdir(elsewhere)
    old = os.umask(0)
    offer(evals, 1)
    os.umask(old)
    made = [elsewhere, folder := tmp_path / "relative", *folder.iterdir()]
    assert {one.stat().st_mode & 0o077 for one in made} == {0}
    assert not [*elsewhere.iterdir()]


def noise(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:200] + random.Random(1).randbytes(len(content) - 200))


def unreadable_schema(path: Path) -> None:
    """SQLite's message about it quotes bytes that are no text."""
    name = "UPDATE sqlite_master SET name = CAST(X'CC28' AS TEXT), sql = 'CREATE TABLE ('"
    execute(path, "PRAGMA writable_schema = ON", name)


@pytest.mark.parametrize("damage", [noise, unreadable_schema])
def test_damaged_file_is_renamed_and_costs_no_new_sample(
    make: Make, left_behind: Callable[..., Path], damage: Callable[[Path], None]
) -> None:
    left = left_behind(*(sample(number, contexts=("c" * 3000,)) for number in range(30)))
    damage(left)
    evals = make(memory := MemorySink())
    until(left.with_name(f"{left.name}.damaged").exists)
    offer(evals, *range(100, 110))
    until(lambda: evals.stats().pending == 0)
    stats = evals.stats()
    assert (stats.offered, stats.undurable) == (10 + stats.recovered, 0)
    assert {f"s{n}" for n in range(100, 110)} <= {r.sample.sample_id for r in memory.results}
    assert any("spool" in kind for kind in stats.incidents)
    assert evals.spooled()["pending"] == 0


def test_samples_in_memory_are_stored_again_after_their_file_is_gone(
    make: Make, folder: Path
) -> None:
    evals = make(judge=ScriptedJudge(FAITHFUL, latency=600))
    for number in range(20):
        evals.submit(sample(number))
    until(lambda: len(rows(folder)) == 20)
    shutil.rmtree(folder)
    evals.submit(sample(20))
    until(lambda: sorted(rows(folder)) == sorted(f"s{n}" for n in range(21)))
    assert evals.stats().undurable == 0


BROKEN = [
    "payload = json_set(payload, '$.decision.position', 'abc')",
    "payload = json_set(payload, '$.decision.shares.x', json('[9, \"\"]'))",
    "payload = json_remove(payload, '$.decision')",
    "payload = '{'",
    "payload = '[]'",
    "payload = ''",
    "payload = X'CC28'",
    "payload = json_set(payload, '$.sample', 'none')",
    "tries = 'many'",
    "accepted = 'late'",
]


def test_rows_that_cannot_be_read_are_dropped_alone(
    make: Make, left_behind: Callable[..., Path]
) -> None:
    left, bad = left_behind(*map(sample, range(30))), len(BROKEN)
    execute(left, *(f"UPDATE jobs SET {one} WHERE id = {row}" for row, one in enumerate(BROKEN, 3)))
    evals = make()
    until(lambda: evals.stats().scored == 30 - bad and evals.stats().pending == 0)
    until(lambda: books(evals) == {})
    assert evals.stats().dropped == {"unreadable": bad}


def test_samples_that_find_no_room_in_memory_are_scored_later(
    make: Make, left_behind: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(*(sample(number, contexts=("c" * 1000,)) for number in range(9)))
    monkeypatch.setattr(limits, "QUEUE_CHARS", 3000)
    evals = make(judge=ScriptedJudge(FAITHFUL, latency=0.1), judge_concurrency=1)
    until(lambda: books(evals) == {})


def shouted(text: str) -> str:
    """A user's function that is not to be applied twice."""
    return text + "!"


@pytest.mark.parametrize(
    ("redact", "ending"), [(["email"], "<EMAIL_2> or <EMAIL_1>.!"), (shouted, ">.!")]
)
def test_recovered_sample_is_redacted_once_by_the_present_settings(
    make: Make, left_behind: Callable[..., Path], redact: Any, ending: str
) -> None:
    text = "Write to ada@example.com or <EMAIL_1>."
    left = sample(question=text, user_id="ada", contexts=(text,))
    left_behind(left, redact=shouted)
    evals = make(memory := MemorySink(), redact=redact)
    until(lambda: memory.results)
    found = memory.results[0].sample
    assert evals.stats().recovered == 1
    assert found.question.endswith(ending)
    assert [one.text for one in found.contexts or ()] == [found.question]
    assert found.user_id == "ada!"


def test_recovered_sample_that_cannot_be_redacted_reaches_no_judge(
    make: Make, left_behind: Callable[..., Path]
) -> None:
    left_behind(sample())
    evals = make(judge=(judge := ScriptedJudge(FAITHFUL)), redact=Mock(side_effect=ValueError))
    until(lambda: evals.stats().dropped == {"redaction_failed": 1})
    until(lambda: books(evals) == {})
    assert judge.calls == []


def test_results_for_sinks_of_other_settings_wait_and_stop_no_recovery(
    make: Make,
    left_behind: Callable[..., Path],
    platform: Platform,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(3):
        address = f"{platform.url}/{number}"
        evals = make(PLATFORMS["phoenix"](address), SINK_RETRY_SECONDS=0.1)
        offer(evals, number)
        evals.shutdown(0.1)
    until(lambda: evals.spooled().get("undelivered") == 3)
    left = make(judge=ScriptedJudge(FAITHFUL, latency=600))
    left.submit(sample(8))
    assert not left.shutdown(0)
    platform.is_down = False
    second = make(PLATFORMS["phoenix"](platform.url))
    offer(second, 9)
    until(lambda: second.stats().recovered == 1)
    until(lambda: books(second) == {"undelivered": 3})
    assert platform.taken == {8: 1, 9: 1}
    second.shutdown(1)
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.0)
    third = make()
    offer(third, 1)
    until(lambda: third.spooled()["undelivered"] == 0)
    kind = "spool: results are lost, because their sink is not configured"
    assert third.stats().incidents[kind] == 3


def test_old_results_are_retried_for_a_while_before_they_are_given_up(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make(Table())
    offer(first, 0)
    first.shutdown(PATIENCE)
    monkeypatch.setattr(limits, "SINK_KEEP_SECONDS", 0.001)
    second = make(table := Table(), SINK_RETRY_SECONDS=1.0)
    until(lambda: books(second) == {})
    assert table.tries >= 2
    assert second.stats().incidents["sink CallableSink: results are lost (kept too long)"] == 1


def count_in_memory(chars: int) -> int:
    gc.collect()
    return sum(type(one) is Sample and len(one.question) == chars for one in gc.get_objects())


def test_result_beyond_memory_stays_in_the_spool(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SINK_QUEUE_CHARS", 5000)
    judge = ScriptedJudge(FAITHFUL)
    evals = make(table := Table(), judge=judge, FEEDBACK_SAMPLES=0)
    offer(evals, *range(20), question="q" * 1000)
    judge.calls.clear()
    # The thread that writes holds the others until they are on disk.
    until(lambda: count_in_memory(1000) <= 4)
    assert evals.stats().incidents["sink CallableSink: undelivered results stay in the spool"] >= 17
    assert evals.stats().scored == evals.stats().offered == 20
    until(lambda: books(evals)["undelivered"] == 20)
    table.is_down = False
    until(lambda: books(evals) == {})
    assert table.rows == {f"s{number}": 1 for number in range(20)}


def test_no_exception_of_a_sink_ends_anything(make: Make) -> None:
    kinds = [asyncio.CancelledError, SystemExit, KeyboardInterrupt, GeneratorExit]
    errors, good, bad = iter(kinds), Table(is_down=False), Table(is_down=False)

    async def write(sample: Sample, outcomes: object) -> None:
        for error in errors:
            raise error
        bad(sample, outcomes)

    evals = make(write, good)
    offer(evals, 0, 1, 2)
    until(lambda: books(evals) == {})
    assert bad.rows == good.rows == {"s0": 1, "s1": 1, "s2": 1}
    told = {f"sink write: {kind.__name__}": 1 for kind in kinds}
    assert told.items() <= dict(evals.stats().incidents).items()
    assert evals.shutdown(PATIENCE)


def test_file_of_results_stays_whole_across_forks_and_a_child_closes_no_sink(
    tmp_path: Path,
) -> None:
    printed = run_script(
        tmp_path,
        """
        import os
        from rag_eval_hooks import JsonlSink, RagEval, Sample
        from rag_eval_hooks.result import Evaluation

        class Sink(JsonlSink):
            def close(self):
                print("closed by the parent:", os.getpid() == parent, flush=True)

        parent, sink = os.getpid(), Sink("r.jsonl")
        evals = RagEval("lexical", sinks=[sink])
        evals.submit(Sample(question="before", answer="a", reference="a"))
        evals.flush(300)
        child = os.fork()
        for number in range(200):
            one = Sample(question="parent " * 500 if child else "child " * 500)
            sink.deliver(Evaluation(sample=one, outcomes={}, probability=None, start=0, end=0))
        if child:
            assert os.waitpid(child, 0)[1] == 0
        """,
    )
    asked = [line["sample"]["question"].split()[0] for line in lines(tmp_path / "r.jsonl")]
    assert Counter(asked) == {"before": 1, "parent": 200, "child": 200}
    assert printed.splitlines() == ["closed by the parent: True"]


def test_a_child_that_is_forked_during_a_write_keeps_no_lock(tmp_path: Path) -> None:
    fcntl, path = pytest.importorskip("fcntl"), tmp_path / "r.jsonl"
    flock = fcntl.flock
    with pytest.MonkeyPatch.context() as patched, path.open("w") as file:
        patched.setattr(fcntl, "flock", lambda file, how: (flock(file, how), os.dup(file.fileno())))
        JsonlSink(path).feedback(Feedback(score=1.0))
        flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_second_opener_ends_no_lock_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    first, second = (SqliteFile(path, (), patience=0.1) for _ in range(2))
    script = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    )
    with first.transaction():
        with pytest.raises(sqlite3.OperationalError, match="locked"), second.transaction():
            pass
        second.close()
        stranger = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
        )
    first.close()
    assert "database is locked" in stranger.stderr
