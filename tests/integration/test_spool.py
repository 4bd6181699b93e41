"""The spool: what is on disk, who takes it over, and what happens when the disk fails."""

from __future__ import annotations

import hmac
import json
import logging
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kill9 import run as kill_often
from rag_eval_hooks import ConfigError, JsonlSink, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.sqlite_file import SqliteFile
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge, Support
from rag_eval_hooks.work import Evaluation
from tests.waiting import until

GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


def sample(number: int = 0, **fields: Any) -> Sample:
    base = {"question": f"q {number}", "contexts": ("c",), "answer": "a", "sample_id": f"s{number}"}
    return Sample(**(base | fields))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RagEval] = []

    def build(judge: Any = None, sinks: Any = (), **config: Any) -> RagEval:
        config.setdefault("spool", str(tmp_path / "spool.sqlite"))
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


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def run(folder: Path, script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a script as its own process, with the names of this module's helpers."""
    prelude = """
import os, signal, sys, threading, time
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.testing import Findings, ScriptedJudge, Support
GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,)),))

def make(latency, **config):
    return RagEval(metrics=["ragas.faithfulness"], judge=ScriptedJudge(GOOD, latency=latency),
                   sinks=["jsonl:results.jsonl"],
                   config=RagEvalConfig(**({"spool": "spool.sqlite"} | config)))

def sample(name):
    return Sample(question="q", contexts=("c",), answer="a", sample_id=str(name))
"""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", prelude + textwrap.dedent(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        **options,
    )


@pytest.mark.parametrize("durability", ["sync", "batch"])
def test_samples_leave_the_spool_when_they_are_delivered(make: Make, durability: str) -> None:
    """After a flush nothing is left in it, and its books tell what became of everything."""
    memory = MemorySink()
    evals = make(sinks=[memory], durability=durability, spool_wait=10.0)
    assert all(evals.offer(sample(n)) for n in range(20))
    assert evals.flush(10)
    assert len(memory.results) == 20
    assert evals.spooled() == {"accepted": 20, "scored": 20, "pending": 0}
    stats = evals.stats()
    assert (stats.scored, stats.undurable, stats.recovered) == (20, 0, 0)


def test_failures_are_in_the_books_by_their_cause(make: Make) -> None:
    """A sample without a score leaves the spool too."""
    evals = make(ScriptedJudge(error=RuntimeError("down")))
    evals.offer(sample())
    assert evals.flush(10)
    assert evals.spooled() == {"accepted": 1, "failed:judge_failed": 1, "pending": 0}


def test_an_accepted_sample_is_on_disk(make: Make, tmp_path: Path) -> None:
    """With `sync`, another process can read the sample as soon as `offer` has given True."""
    evals = make(ScriptedJudge(GOOD, latency=600), durability="sync", spool_wait=10.0)
    for number in range(5):
        assert evals.offer(sample(number, reference="r", metadata={"k": [1, "é"]}))
        with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as db:
            kept = [row[0] for row in db.execute("SELECT id FROM samples ORDER BY seq")]
        assert kept == [f"s{n}" for n in range(number + 1)]


def test_what_a_killed_process_accepted_is_scored_by_the_next(make: Make, tmp_path: Path) -> None:
    """After `kill -9` the next process finds every sample as it was, and its sampling with it."""
    done = run(
        tmp_path,
        """
        evals = make(600, durability="sync", spool_wait=10.0, sample_rate=1.0)
        for n in range(7): assert evals.offer(sample(n))
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    assert done.returncode == -9, done.stderr
    memory = MemorySink()
    evals = make(sinks=[memory])
    until(lambda: evals.spooled()["pending"] == 0)
    assert sorted(result.sample.sample_id for result in memory.results) == list("0123456")
    assert memory.results[0].sample == Sample(question="q", contexts=("c",), answer="a")  # type: ignore[arg-type]
    stats = evals.stats()
    assert (stats.offered, stats.recovered, stats.scored) == (7, 7, 7)


def test_a_frozen_process_keeps_its_samples(make: Make, tmp_path: Path) -> None:
    """A process that is stopped, for however long, is not dead: nobody takes its samples over."""
    script = """
    evals = make(0.5, durability="sync", spool_wait=10.0)
    assert evals.offer(sample("frozen"))
    os.kill(os.getpid(), signal.SIGSTOP)
    assert evals.flush(30) and evals.stats().scored == 1
    """
    child: list[Any] = []
    thread = threading.Thread(target=lambda: child.append(run(tmp_path, script)))
    thread.start()
    spool = tmp_path / "spool.sqlite"
    evals = make()
    until(lambda: evals.spooled().get("pending") == 1)
    pid = _stopped()
    evals.offer(sample(1))
    assert evals.flush(10)
    # Long enough for several looks at what others left behind.
    time.sleep(2.5)
    assert evals.stats().recovered == 0
    os.kill(pid, signal.SIGCONT)
    thread.join(60)
    assert child[0].returncode == 0, child[0].stderr
    assert spool.exists()
    assert len(lines(tmp_path / "results.jsonl")) == 1


def _stopped() -> int:
    """The id of a child of this process that is stopped."""
    found: list[int] = []

    def look() -> list[int]:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                if fields[0] == "T" and int(fields[1]) == os.getpid():
                    found.append(int(entry.name))
        return found

    until(look)
    return found[0]


def test_what_a_shutdown_leaves_is_for_the_next(make: Make, tmp_path: Path) -> None:
    """What is not finished in time stays in the spool, counted, and nobody has to die for it."""
    first = make(ScriptedJudge(GOOD, latency=600))
    for number in range(3):
        first.offer(sample(number))
    assert not first.shutdown(0.1)
    assert first.stats().dropped == {"spooled": 3}
    second = make()
    until(lambda: second.spooled()["pending"] == 0)
    assert second.stats().scored == 3
    assert list((tmp_path / "spool.sqlite-owners").iterdir()) != []
    second.shutdown(1)
    assert list((tmp_path / "spool.sqlite-owners").iterdir()) == []


def test_a_file_gets_each_result_once(make: Make, tmp_path: Path) -> None:
    """A process that died between writing a line and noting it leads to no second line."""
    path = tmp_path / "results.jsonl"
    first = make(sinks=[JsonlSink(path)])
    first.offer(sample(0))
    first.flush(10)
    first.shutdown(1)
    # As it was between the two: the line is in the file, the sample still in the spool.
    outcomes = lines(path)
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as db, db:
        db.execute(
            "INSERT INTO samples (id, owner, sample, probability, reason, positions, accepted_at)"
            " VALUES ('s0', NULL, ?, 1.0, 'ratio', '{}', 0)",
            (json.dumps(sample(0).to_dict()),),
        )
    memory = MemorySink()
    second = make(sinks=[JsonlSink(path), memory])
    until(lambda: second.spooled()["pending"] == 0)
    assert len(memory.results) == 1
    assert lines(path) == outcomes


EMPTY = Evaluation(sample=sample(1), outcomes={}, probability=None, start=0, end=0)


def test_a_line_left_unfinished_is_no_obstacle(tmp_path: Path) -> None:
    """The next line begins on a line of its own, and the broken one counts as not written."""
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    sink.deliver(EMPTY)
    whole = path.read_bytes()
    result = json.loads(whole)["result_id"]
    path.write_bytes(whole[:-20])
    assert not sink.holds(result, 0)
    sink.deliver(EMPTY)
    sink.close()
    assert path.read_bytes() == whole[:-20] + b"\n" + whole
    assert sink.holds(result, 0)
    assert not sink.holds(result, sink.position())


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine (x)")


def newer(path: Path) -> None:
    evals = RagEval(config=RagEvalConfig(spool=str(path)), judge=ScriptedJudge(GOOD))
    evals.offer(sample())
    evals.shutdown(5)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda path: path.write_text("notes of mine, not to be touched"), "no database"),
        (foreign, "another program's"),
        (newer, "version 99"),
        (lambda path: path.mkdir(), "a file in a folder"),
        (lambda path: path.parent.rmdir(), "a folder that exists"),
    ],
)
def test_a_file_that_is_not_ours_is_refused(
    tmp_path: Path, prepare: Callable[[Path], Any], words: str
) -> None:
    """At start-up, by name, and without a byte of it changed."""
    path = tmp_path / "folder" / "spool.sqlite"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ConfigError, match=words) as raised:
        RagEval(config=RagEvalConfig(spool=str(path)))
    assert raised.value.field == "spool"
    assert (path.read_bytes() if path.is_file() else None) == before


def test_nobody_else_can_read_it(make: Make, tmp_path: Path) -> None:
    """The file, its log and its folder of names are the owner's alone, whatever the umask."""
    old = os.umask(0)
    try:
        evals = make(ScriptedJudge(GOOD, latency=600), durability="sync", spool_wait=10.0)
        evals.offer(sample())
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {name: mode & 0o077 for name, mode in modes.items()} == dict.fromkeys(modes, 0)
    assert "spool.sqlite-wal" in modes


def test_looking_makes_no_file(make: Make, tmp_path: Path) -> None:
    """Asking for the books before the first sample makes no file, and is no incident."""
    evals = make()
    assert evals.spooled() == {}
    assert not list(tmp_path.iterdir())
    assert evals.stats().incidents == {}


def test_a_file_that_others_could_read_is_closed_to_them(make: Make, tmp_path: Path) -> None:
    """Whoever made it, and though SQLite's log beside it is in use already."""
    path = tmp_path / "spool.sqlite"
    newer(path)
    path.chmod(0o644)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
        db.commit()
        assert stat.S_IMODE((tmp_path / "spool.sqlite-wal").stat().st_mode) == 0o644
        evals = make(ScriptedJudge(GOOD, latency=600), durability="sync", spool_wait=10.0)
        assert evals.offer(sample())
        files = [entry for entry in tmp_path.iterdir() if entry.is_file()]
        assert len(files) == 3
        assert {stat.S_IMODE(entry.stat().st_mode) for entry in files} == {0o600}


def corrupt(path: Path) -> None:
    newer(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    content = bytearray(path.read_bytes())
    content[200:] = os.urandom(len(content) - 200)
    path.write_bytes(content)


@pytest.mark.parametrize("durability", ["sync", "batch"])
def test_a_corrupt_file_disturbs_nobody(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, durability: str
) -> None:
    """Samples are scored from memory, each counted, with one line in the log."""
    corrupt(tmp_path / "spool.sqlite")
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        evals = make(durability=durability)
        for number in range(10):
            evals.offer(sample(number))
        assert evals.flush(20)
    stats = evals.stats()
    assert (stats.scored, stats.undurable) == (10, 10)
    told = [r.getMessage() for r in caplog.records if "spool" in r.getMessage()]
    assert len(told) == 1


def test_damage_that_sqlite_cannot_put_into_words_disturbs_nobody(
    make: Make, tmp_path: Path
) -> None:
    """Its message quotes bytes that are no text: neither start-up nor requests raise."""
    path = tmp_path / "spool.sqlite"
    make().shutdown(1)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("CREATE TABLE samples (id)")
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET name = CAST(X'CC28' AS TEXT), sql = 'CREATE TABLE ('")
    with pytest.raises(UnicodeDecodeError), closing(sqlite3.connect(path)) as db:
        db.execute("SELECT 1 FROM samples")
    evals = make()
    for number in range(3):
        evals.offer(sample(number))
    assert evals.flush(20)
    assert (evals.stats().scored, evals.stats().undurable) == (3, 3)
    assert evals.spooled() == {}
    assert evals.stats().incidents["spool: UnicodeDecodeError"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write")
def test_a_folder_that_cannot_be_written_disturbs_nobody(make: Make) -> None:
    """Samples are scored from memory, counted."""
    evals = make(spool="/proc/spool.sqlite")
    evals.offer(sample())
    assert evals.flush(20)
    assert (evals.stats().scored, evals.stats().undurable) == (1, 1)


def test_a_full_disk_disturbs_nobody(tmp_path: Path) -> None:
    """Where no file can grow any more, samples are scored from memory, each counted."""
    done = run(
        tmp_path,
        """
        import resource
        evals = make(0.0)
        evals.offer(sample("before"))
        assert evals.flush(10)
        size = os.stat("spool.sqlite-wal").st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        for n in range(10): evals.offer(Sample(question="x" * 50_000, contexts=("c",), answer="a"))
        assert evals.flush(30)
        stats = evals.stats()
        assert (stats.scored, stats.undurable) == (11, 10), stats
        """,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("spool") == 1


def test_a_locked_file_disturbs_nobody(make: Make, tmp_path: Path) -> None:
    """While another program holds the file, samples are scored from memory; then kept again."""
    evals = make(durability="sync", spool_wait=10.0)
    assert evals.offer(sample(1))
    with closing(sqlite3.connect(tmp_path / "spool.sqlite", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert not evals.offer(sample(2))
        assert evals.flush(20)
        db.execute("ROLLBACK")
    assert evals.stats().scored == 2
    assert evals.stats().undurable == 1

    def kept() -> bool:
        return evals.offer(sample(time.monotonic_ns()))

    until(kept)


def test_samples_wait_for_a_file_that_is_locked(make: Make, tmp_path: Path) -> None:
    """A lock of another program, however long, costs no sample its place on the disk."""
    evals = make(ScriptedJudge(GOOD, latency=600))
    evals.offer(sample(1))
    until(lambda: evals.spooled().get("pending") == 1)
    with closing(sqlite3.connect(tmp_path / "spool.sqlite", isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        evals.offer(sample(2))
        until(lambda: "spool: OperationalError" in evals.stats().incidents)
        evals.offer(sample(3))
        assert not evals.flush(0.3)
        db.execute("ROLLBACK")
    until(lambda: evals.spooled().get("pending") == 3)
    assert evals.stats().undurable == 0
    assert not evals.shutdown(0)
    assert evals.stats().dropped == {"spooled": 3}


@pytest.mark.parametrize("position", [None, {1}, float("nan")])
def test_a_position_that_is_none_is_the_sinks_fault(make: Make, position: Any) -> None:
    """A sink that cannot tell where it stands costs no sample its place, and no flush its end."""

    class Odd(MemorySink):
        place = "odd"

        def position(self) -> Any:
            return position

        def holds(self, result_id: str, since: int) -> bool:
            return False

    memory = Odd()
    evals = make(sinks=[memory])
    evals.offer(sample(1))
    assert evals.flush(20)
    assert evals.spooled() == {"accepted": 1, "scored": 1, "pending": 0}
    assert len(memory.results) == 1
    assert any(kind.startswith("sink Odd: ") for kind in evals.stats().incidents)


def test_a_new_file_waits_for_others_that_open_it(tmp_path: Path) -> None:
    """Processes that open a new file at the same moment do not refuse one another."""
    path = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as first:
        first.execute("BEGIN EXCLUSIVE")
        impatient, patient = (SqliteFile(path, (), patience=seconds) for seconds in (0, 30))
        with pytest.raises(sqlite3.OperationalError, match="locked"), impatient.opened():
            pass
        modes: list[str] = []
        waiting = threading.Thread(target=_mode, args=(patient, modes))
        waiting.start()
        time.sleep(0.2)
        first.execute("ROLLBACK")
        waiting.join()
    assert modes == ["wal"]


def _mode(file: SqliteFile, modes: list[str]) -> None:
    with file.opened() as db:
        modes += db.execute("PRAGMA journal_mode").fetchone()
    file.close()


def test_a_deleted_file_is_made_again(make: Make, tmp_path: Path) -> None:
    """What was accepted is scored from memory, what comes is kept in the new file."""
    evals = make(ScriptedJudge(GOOD, latency=0.3), durability="sync", spool_wait=10.0)
    assert evals.offer(sample(1))
    for path in tmp_path.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert evals.offer(sample(2))
    assert evals.flush(20)
    stats = evals.stats()
    assert stats.scored == 2
    assert stats.incidents["spool: FileNotFoundError"] == 1
    assert evals.spooled() == {"accepted": 1, "scored": 1, "pending": 0}


def test_the_spool_is_bounded(make: Make, tmp_path: Path) -> None:
    """Beyond its size samples are scored from memory, counted; the file does not grow."""
    evals = make(ScriptedJudge(GOOD, latency=1.0), spool_max_mb=1, judge_concurrency=64)
    for number in range(60):
        evals.offer(sample(number, contexts=("x" * 60_000,)))
    assert evals.flush(60)
    stats = evals.stats()
    assert stats.scored == 60
    assert 30 < stats.undurable < 60
    assert (tmp_path / "spool.sqlite").stat().st_size < 1_100_000


def test_what_ends_its_process_is_given_up(make: Make, tmp_path: Path) -> None:
    """A sample that kills whoever evaluates it is tried ten times, then counted and left."""
    script = """
    class Deadly(ScriptedJudge):
        async def decompose(self, task):
            # The first time not before it is on disk, then at once, as a native crash is.
            time.sleep(0.5 if first else 0.0)
            os.kill(os.getpid(), signal.SIGKILL)
    evals = RagEval(metrics=["ragas.faithfulness"], judge=Deadly(GOOD),
                    config=RagEvalConfig(spool="spool.sqlite", spool_wait=10.0))
    first = not evals.spooled().get("pending")
    if first: evals.offer(sample("deadly"))
    time.sleep(60)
    """
    for tries in range(3):
        assert run(tmp_path, script).returncode == -9
        with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as db:
            assert db.execute("SELECT tries FROM samples").fetchall() == [(tries,)]
    with closing(sqlite3.connect(tmp_path / "spool.sqlite")) as db, db:
        assert db.execute("UPDATE samples SET tries = 10").rowcount == 1
    evals = make()
    until(lambda: evals.spooled()["pending"] == 0)
    assert evals.spooled()["dropped:gave_up"] == 1
    assert evals.stats().dropped == {"gave_up": 1}


def test_what_finds_no_room_is_not_taken_over_without_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples too long for the queue stay in the spool; looking for them takes no processor."""
    seen: Counter[str] = Counter()

    def count(text: str) -> str:
        seen[text] += 1
        return text

    def make(redact: Any = None, **config: Any) -> RagEval:
        return RagEval(
            metrics=["ragas.faithfulness"],
            judge=ScriptedJudge(GOOD, latency=60),
            redact=redact,
            config=RagEvalConfig(
                spool=str(tmp_path / "spool.sqlite"), judge_concurrency=1, **config
            ),
        )

    first = make()
    for number in range(40):
        assert first.offer(sample(number, contexts=("c" * 1000,)))
    first.shutdown(0.1)
    # It is asked once about each text of a sample whenever that is taken over.
    monkeypatch.setattr(limits, "QUEUE_CHARS", 3000)
    second = make(count)
    until(lambda: second.stats().recovered == 3)
    time.sleep(2)
    second.shutdown(0.1)
    assert seen["c" * 1000] < 200


@pytest.mark.long
def test_eight_processes_share_a_spool(tmp_path: Path) -> None:
    """Everything that any of them accepted is scored, nothing twice, though half are killed."""
    script = """
    pids = []
    for n in range(8):
        pid = os.fork()
        if pid == 0:
            evals = make(0.02, durability="sync", spool_wait=10.0)
            log = os.open("told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            for i in range(60):
                name = f"{n}-{i}"
                if evals.offer(sample(name)):
                    os.write(log, f"{name}\\n".encode())
                if n % 2 and i == 40:
                    os.kill(os.getpid(), signal.SIGKILL)
            while evals.spooled().get("pending") != 0:
                time.sleep(0.1)
            evals.shutdown(5)
            os._exit(0)
        pids.append(pid)
    print([os.waitpid(pid, 0)[1] for pid in pids])
    """
    done = run(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 9] * 4, done.stderr[-3000:]
    told = (tmp_path / "told").read_text().split()
    found = [line["sample"]["sample_id"] for line in lines(tmp_path / "results.jsonl")]
    assert len(set(found)) == len(found)
    assert set(told) <= set(found)
    # Of 404: on a busy machine some wait too long for the file, and are not promised.
    assert len(told) > 300


def test_the_child_of_a_fork_has_a_spool_of_its_own(tmp_path: Path) -> None:
    """Both sides go on with the same file, under names of their own."""
    done = run(
        tmp_path,
        """
        evals = make(0.2)
        evals.offer(sample("before"))
        pid = os.fork()
        if pid == 0:
            evals.offer(sample("child"))
            assert evals.flush(10) and evals.stats().scored == 1
            evals.shutdown(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        evals.offer(sample("after"))
        assert evals.flush(10) and evals.stats().scored == 2
        assert evals.spooled() == {"accepted": 3, "scored": 3, "pending": 0}, evals.spooled()
        """,
    )
    assert done.returncode == 0, done.stderr
    assert len(lines(tmp_path / "results.jsonl")) == 3


@pytest.mark.long
def test_nothing_accepted_is_lost_by_kills_and_nothing_is_scored_twice(tmp_path: Path) -> None:
    """Six `kill -9` at random moments, with a judge over HTTP; a hundred in the benchmark."""
    report = kill_often(tmp_path, 6, "sync", seed=3)
    assert report.told > 0
    assert (report.lost, report.twice, report.broken) == (0, 0, 0)
    assert report.adds_up
    assert report.books["pending"] == 0
    assert report.delivered == report.books["accepted"] >= report.told


def left_behind(folder: Path, **settings: Any) -> None:
    """A sample that a process left in the spool."""
    config = RagEvalConfig(spool=str(folder / "spool.sqlite"), **settings)
    judge = ScriptedJudge(GOOD, latency=600)
    evals = RagEval(["ragas.faithfulness"], judge, config=config, redact=shouted)
    text = "Write to ada@example.com or <EMAIL_1>."
    evals.offer(sample(question=text, answer="a", user_id="ada", contexts=(text,)))
    assert not evals.shutdown(0)


def shouted(text: str) -> str:
    """A user's function that is not to be applied twice."""
    return text + "!"


def taken_over(folder: Path, redact: Any, **settings: Any) -> Sample:
    """What the next process makes of it."""
    memory = MemorySink()
    config = RagEvalConfig(spool=str(folder / "spool.sqlite"), **settings)
    judge = ScriptedJudge(GOOD)
    with RagEval(["ragas.faithfulness"], judge, sinks=[memory], config=config, redact=redact) as by:
        until(lambda: by.spooled()["pending"] == 0)
        assert by.stats().recovered == 1
    return memory.results[0].sample


def test_what_is_taken_over_is_redacted_as_the_settings_say_now(tmp_path: Path) -> None:
    """Settings that came after the sample hold for it; placeholders that stand in it stay."""
    left_behind(tmp_path)
    found = taken_over(tmp_path, ["email"])
    assert found.question == "Write to <EMAIL_2> or <EMAIL_1>.!"
    assert found.contexts is not None
    assert found.contexts[0].text == found.question


def test_what_is_taken_over_is_not_redacted_twice(tmp_path: Path) -> None:
    """By the same settings nothing is done again: neither a function nor the hash of an id."""
    left_behind(tmp_path, redact_ids_key="k")
    found = taken_over(tmp_path, shouted, redact_ids_key="k")
    assert found.question.endswith(".!")
    assert found.user_id == hmac.new(b"k", b"ada", "sha256").hexdigest()[:16]


def test_what_cannot_be_redacted_is_not_taken_over(tmp_path: Path) -> None:
    """It is dropped, counted, and seen by no judge."""

    def fails(_text: str) -> str:
        raise ValueError

    left_behind(tmp_path)
    config = RagEvalConfig(spool=str(tmp_path / "spool.sqlite"))
    judge = ScriptedJudge(GOOD)
    with RagEval(["ragas.faithfulness"], judge, config=config, redact=fails) as evals:
        until(lambda: evals.spooled()["pending"] == 0)
        assert evals.stats().dropped == {"redaction_failed": 1}
    assert judge.tasks == []


def test_slow_redaction_holds_neither_the_file_nor_a_fork(tmp_path: Path) -> None:
    """Samples are built outside of the file's transaction: another process can write meanwhile."""
    path = tmp_path / "spool.sqlite"
    building, go_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if text == "slow":
            building.set()
            go_on.wait(10)
        return text

    config = RagEvalConfig(spool=str(path), carrier="off")
    with RagEval(["lexical"], ScriptedJudge(), redact=redact, config=config) as evals:
        evals.offer(Sample(question="quick", answer="a", reference="a"))
        assert evals.flush(10)
        evals.offer(Sample(question="slow", answer="a", reference="a"))
        assert building.wait(10)
        # Whichever thread builds it, the writer waits for it by now.
        time.sleep(0.3)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        go_on.set()
        assert evals.flush(10)
        assert evals.stats().undurable == 0
