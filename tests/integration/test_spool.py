"""The spool: what is on disk, who claims it, and what happens when the disk fails."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import random
import shutil
import sqlite3
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import ConfigError, JsonlSink, RagEval, RagEvalConfig, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge
from tests.support.evaluation import FAITHFUL as GOOD
from tests.support.fleet import lines
from tests.support.limits import small_limits
from tests.support.scripts import run_script
from tests.waiting import until

Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")


def sample(number: int = 0, **fields: Any) -> Sample:
    base = {"question": f"q {number}", "contexts": ("c",), "answer": "a", "sample_id": f"s{number}"}
    return Sample(**(base | fields))


@pytest.fixture(autouse=True)
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this one take leases of more than a second for expired ones."""
    monkeypatch.setattr(outbox_file, "LEASE_S", 1.0)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[RagEval] = []

    def build(judge: Any = None, sinks: Any = (), redact: Any = None, **config: Any) -> RagEval:
        config.setdefault("spool", str(tmp_path / "spool"))
        with small_limits(config):
            made.append(
                RagEval(
                    metrics=["ragas.faithfulness"],
                    judge=judge or ScriptedJudge(GOOD),
                    sinks=sinks,
                    redact=redact,
                    config=RagEvalConfig(**config),
                )
            )
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


PRELUDE = """
import os, signal, sys, threading, time
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import FAITHFUL as GOOD

def sample(name):
    return Sample(question="q", contexts=("c",), answer="a", sample_id=str(name))
"""


def run_until_killed(folder: Path, script: str) -> None:
    run_script(folder, script, prelude=PRELUDE, end=-9)


def rows(folder: Path, columns: str = "json_extract(payload, '$.sample.sample_id')") -> list[Any]:
    """Columns of all jobs in a spool, in their order."""
    path = folder / "outbox.sqlite"
    if not path.exists():
        return []
    # A file has no tables at the moment of its creation.
    with closing(sqlite3.connect(path)) as db, suppress(sqlite3.DatabaseError):
        return db.execute(f"SELECT {columns} FROM jobs ORDER BY id").fetchall()
    return []


def test_what_a_killed_process_accepted_is_scored_by_the_next(make: Make, tmp_path: Path) -> None:
    run_until_killed(
        tmp_path,
        """
        evals = RagEval("ragas.faithfulness", ScriptedJudge(GOOD, latency=600), spool="spool")
        for n in range(7): assert evals.submit(sample(n))
        while evals.spooled().get("pending") != 7: time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    memory = MemorySink()
    evals = make(sinks=[memory])
    until(lambda: evals.stats().scored == 7 and len(memory.results) == 7)
    assert sorted(result.sample.sample_id for result in memory.results) == list("0123456")
    assert memory.results[0].sample == Sample(question="q", contexts=("c",), answer="a")  # type: ignore[arg-type]
    stats = evals.stats()
    assert (stats.offered, stats.recovered, stats.scored) == (7, 7, 7)


def test_reader_of_a_file_gets_each_result_once(make: Make, tmp_path: Path) -> None:
    """A process that died between writing a line and noting it leads to a line that repeats it."""
    path = tmp_path / "results.jsonl"
    script = """
    from rag_eval_hooks import JsonlSink
    class Deadly(JsonlSink):
        def deliver(self, evaluation):
            super().deliver(evaluation)
            os.kill(os.getpid(), signal.SIGKILL)
    evals = RagEval(metrics=["ragas.faithfulness"], judge=ScriptedJudge(GOOD, latency=0.3),
                    sinks=[Deadly("results.jsonl")], config=RagEvalConfig(spool="spool"))
    evals.submit(sample("s0"))
    time.sleep(120)
    """
    run_until_killed(tmp_path, script)
    written = lines(path)
    assert len(written) == 1
    memory = MemorySink()
    second = make(sinks=[JsonlSink(path), memory])
    until(lambda: second.spooled()["pending"] == 0 and "undelivered" not in second.spooled())
    assert [line["result_id"] for line in lines(path)] == [written[0]["result_id"]] * 2
    assert lines(path)[0]["evaluated"] == lines(path)[1]["evaluated"]
    assert len(list(read(path))) == 1
    assert (second.stats().offered, memory.results) == (0, [])


EMPTY = Evaluation(sample=sample(1), outcomes={}, probability=None, start=0, end=0)


def test_a_line_left_unfinished_is_no_obstacle(tmp_path: Path) -> None:
    """The next line begins on a line of its own, and the broken one counts as not written."""
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    sink.deliver(EMPTY)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    sink.deliver(EMPTY)
    sink.close()
    assert path.read_bytes() == whole[:-20] + b"\n" + whole


@pytest.mark.parametrize(
    "prepare", [lambda path: path.write_text("notes of mine"), lambda path: path.parent.rmdir()]
)
def test_path_that_cannot_be_a_folder_is_refused(
    tmp_path: Path, prepare: Callable[[Path], Any]
) -> None:
    """At start-up, by name, and without a byte of it changed."""
    path = tmp_path / "folder" / "spool"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ConfigError, match="a folder that exists") as raised:
        RagEval(config=RagEvalConfig(spool=str(path)))
    assert raised.value.field == "spool"
    assert (path.read_bytes() if path.is_file() else None) == before


def test_relative_path_after_chdir_stays_the_same_folder(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evals = make(spool="relative")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    evals.submit(sample())
    assert evals.flush(300)
    assert (tmp_path / "relative").is_dir()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_nobody_else_can_read_it(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir(mode=0o755)
    old = os.umask(0)
    try:
        evals = make(ScriptedJudge(GOOD, latency=600))
        evals.submit(sample())
        until(lambda: any(folder.glob("*-wal")))
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert {name: mode & 0o077 for name, mode in modes.items()} == dict.fromkeys(modes, 0)
    assert len(modes) == 4


def left_behind_samples(make: Make, folder: Path, number: int, **fields: Any) -> Path:
    """The file that a process leaves with so many samples that nobody has evaluated."""
    evals = make(ScriptedJudge(GOOD, latency=600))
    for n in range(number):
        evals.submit(sample(n, **fields))
    until(lambda: len(rows(folder)) >= number)
    assert not evals.shutdown(0)
    return own_file(folder)


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[200:] = random.Random(1).randbytes(len(content) - 200)
    path.write_bytes(content)


def torn(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def no_database(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def unreadable_schema(path: Path) -> None:
    """SQLite's message about it quotes bytes that are no text."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET name = CAST(X'CC28' AS TEXT), sql = 'CREATE TABLE ('")


@pytest.mark.parametrize("damage", [damaged, torn, no_database, unreadable_schema])
def test_a_damaged_file_is_renamed(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    """New samples are stored and scored as ever; the file is renamed, with a line in the log."""
    folder = tmp_path / "spool"
    left = left_behind_samples(make, folder, 30, contexts=("c" * 3000,))
    damage(left)
    with caplog.at_level(logging.WARNING, "rag_eval_hooks"):
        evals = make(sinks=[memory := MemorySink()])
        until(left.with_name(f"{left.name}.damaged").exists)
        for number in range(100, 110):
            evals.submit(sample(number))
        assert evals.flush(300)
    until(lambda: evals.stats().pending == 0)
    stats = evals.stats()
    assert (stats.offered, stats.undurable) == (10 + stats.recovered, 0)
    assert {f"s{n}" for n in range(100, 110)} <= {r.sample.sample_id for r in memory.results}
    assert any("spool" in kind for kind in stats.incidents)
    assert evals.spooled()["pending"] == 0


@pytest.mark.parametrize("harm", [no_database, lambda path: shutil.rmtree(path.parent)])
def test_harm_to_the_file_of_a_running_process_costs_none_of_its_samples(
    make: Make, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """What the process has in memory is stored again in the new file."""
    evals = make(ScriptedJudge(GOOD, latency=600))
    for number in range(20):
        evals.submit(sample(number))
    until(lambda: len(rows(tmp_path / "spool")) == 20)
    path = own_file(tmp_path / "spool")
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    harm(path)
    evals.submit(sample(20))
    until(lambda: sorted(rows(tmp_path / "spool")) == sorted((f"s{n}",) for n in range(21)))
    assert evals.stats().undurable == 0


DAMAGES = [
    "payload = json_set(payload, '$.probability', 'abc')",
    "payload = json_set(payload, '$.probability', 1e300)",
    "payload = json_remove(payload, '$.reason')",
    "payload = '{'",
    "payload = '[]'",
    "payload = ''",
    "payload = X'CC28'",
    "payload = json_set(payload, '$.outcomes', 'none')",
    "tries = 'many'",
    "accepted = 'late'",
]


def test_spool_with_damaged_rows_refuses_these_alone(make: Make, tmp_path: Path) -> None:
    left = left_behind_samples(make, tmp_path / "spool", 30)
    with closing(sqlite3.connect(left)) as db, db:
        for row, change in enumerate(DAMAGES, 3):
            db.execute(f"UPDATE jobs SET {change} WHERE id = {row}")
    evals, bad = make(), len(DAMAGES)
    until(lambda: evals.stats().scored == 30 - bad and evals.stats().pending == 0)
    until(lambda: evals.spooled().get("pending") == 0)
    assert evals.stats().dropped == {"unreadable": bad}
    assert evals.spooled() == {
        "accepted": 30, "scored": 30 - bad, "dropped:unreadable": bad, "pending": 0,
    }  # fmt: skip


def own_file(folder: Path) -> Path:
    """The only file of a spool."""
    (path,) = folder.glob("*.sqlite")
    return path


def test_a_locked_file_disturbs_nobody(make: Make, tmp_path: Path) -> None:
    """While another program holds the file, samples are scored from memory; then kept again."""
    evals = make(sinks=[memory := MemorySink()])
    assert evals.submit(sample(1))
    assert evals.flush(300)
    with closing(sqlite3.connect(own_file(tmp_path / "spool"), isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert evals.submit(sample(2))
        until(lambda: len(memory.results) == 2)
        until(lambda: evals.stats().undurable == 1)
        db.execute("ROLLBACK")
    evals.submit(sample(3))
    assert evals.flush(300)
    until(lambda: len(memory.results) == 3)
    assert evals.stats().undurable == 1


def test_the_spool_is_bounded(make: Make, tmp_path: Path) -> None:
    """Beyond its size samples are scored from memory, counted; the file does not grow."""
    go = threading.Event()

    class Waiting(ScriptedJudge):
        async def make(self, *call: Any) -> Findings:
            while not go.is_set():
                await asyncio.sleep(0.05)
            return await super().make(*call)

    evals = make(Waiting(GOOD), SPOOL_BYTES=1_000_000, judge_concurrency=64)
    for number in range(60):
        evals.submit(sample(number, contexts=("x" * 60_000,)))
    until(lambda: evals.stats().undurable + len(rows(tmp_path / "spool")) == 60)
    go.set()
    assert evals.flush(300)
    stats = evals.stats()
    assert stats.scored == 60
    assert 30 < stats.undurable < 60
    assert own_file(tmp_path / "spool").stat().st_size < 1_100_000


@pytest.mark.long
def test_what_ends_its_process_is_given_up(make: Make, tmp_path: Path) -> None:
    """A sample that kills whoever evaluates it is tried ten times, then counted and left."""
    script = """
    class Deadly(ScriptedJudge):
        async def make(self, *call):
            # The first time not before it is on disk, then at once, as a native crash is.
            while first and evals.spooled().get("pending") != 1: time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
    evals = RagEval(metrics=["ragas.faithfulness"], judge=Deadly(GOOD),
                    config=RagEvalConfig(spool="spool"))
    first = not evals.spooled().get("pending")
    if first: evals.submit(sample("deadly"))
    time.sleep(120)
    """
    for tries in range(3):
        run_until_killed(tmp_path, script)
        assert rows(tmp_path / "spool", "tries") == [(tries,)]
    with closing(sqlite3.connect(own_file(tmp_path / "spool"))) as db, db:
        db.execute("UPDATE jobs SET tries = 10")
    evals = make()
    until(lambda: evals.spooled()["pending"] == 0)
    assert evals.spooled()["dropped:gave_up"] == 1
    assert evals.stats().dropped == {"gave_up": 1}


def test_what_finds_no_room_is_not_taken_over_without_pause(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples too long for the queue stay in the spool; looking for them takes no processor."""
    seen: Counter[str] = Counter()

    def count(text: str) -> str:
        seen[text] += 1
        return text

    first = make(ScriptedJudge(GOOD, latency=60), judge_concurrency=1)
    for number in range(40):
        assert first.submit(sample(number, contexts=("c" * 1000,)))
    first.shutdown(0.1)
    # It is asked once about each text of a sample whenever that is taken over.
    monkeypatch.setattr(limits, "QUEUE_CHARS", 3000)
    second = make(ScriptedJudge(GOOD, latency=60), redact=count, judge_concurrency=1)
    until(lambda: second.stats().recovered == 3)
    time.sleep(2)
    second.shutdown(0.1)
    assert seen["c" * 1000] < 200


def left_behind(make: Make, **settings: Any) -> None:
    """A sample that a process left in the spool."""
    evals = make(ScriptedJudge(GOOD, latency=600), redact=shouted, **settings)
    text = "Write to ada@example.com or <EMAIL_1>."
    evals.submit(sample(question=text, user_id="ada", contexts=(text,)))
    assert not evals.shutdown(0)


def shouted(text: str) -> str:
    """A user's function that is not to be applied twice."""
    return text + "!"


def taken_over(make: Make, redact: Any, **settings: Any) -> Sample:
    """Return the sample as the next process reads it."""
    evals = make(sinks=[memory := MemorySink()], redact=redact, **settings)
    until(lambda: memory.results)
    assert evals.stats().recovered == 1
    return memory.results[0].sample


def test_what_is_taken_over_is_redacted_as_the_settings_say_now(make: Make) -> None:
    """Settings that came after the sample hold for it; placeholders that stand in it stay."""
    left_behind(make)
    found = taken_over(make, ["email"])
    assert found.question == "Write to <EMAIL_2> or <EMAIL_1>.!"
    assert found.contexts is not None
    assert found.contexts[0].text == found.question


def test_what_is_taken_over_is_not_redacted_twice(make: Make) -> None:
    left_behind(make, redact_ids_key="k")
    found = taken_over(make, shouted, redact_ids_key="k")
    assert found.question.endswith(".!")
    assert found.user_id == hmac.new(b"k", b"ada", "sha256").hexdigest()[:16]


def test_what_cannot_be_redacted_is_not_taken_over(make: Make) -> None:
    def fails(_text: str) -> str:
        raise ValueError

    left_behind(make)
    evals = make(judge := ScriptedJudge(GOOD), redact=fails)
    until(lambda: evals.spooled()["pending"] == 0)
    assert evals.stats().dropped == {"redaction_failed": 1}
    assert judge.calls == []


def test_slow_redaction_holds_no_file(make: Make, tmp_path: Path) -> None:
    """Samples are built outside of the file's transaction: others can lock it meanwhile."""
    building, go_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if text == "slow":
            building.set()
            go_on.wait(120)
        return text

    evals = make(redact=redact)
    evals.submit(sample(question="quick"))
    assert evals.flush(300)
    evals.submit(sample(question="slow"))
    assert building.wait(120)
    path = own_file(tmp_path / "spool")
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    go_on.set()
    assert evals.flush(300)
    assert evals.stats().undurable == 0
