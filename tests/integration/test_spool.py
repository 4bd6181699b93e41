"""The spool: what is on disk, who claims it, and what happens when the disk fails."""

from __future__ import annotations

import hmac
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
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import ConfigError, JsonlSink, RagEval, Sample
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery import outbox_file
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import read
from rag_eval_hooks.testing import MemorySink, ScriptedJudge
from tests.support.evaluation import FAITHFUL as GOOD
from tests.support.fleet import lines
from tests.support.limits import small_limits
from tests.support.scripts import run_script
from tests.waiting import PATIENCE, until

Make = Callable[..., RagEval]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX file locks")
METRIC = "ragas.faithfulness"
SAMPLE_ID = "json_extract(payload, '$.sample.sample_id')"


def sample(number: int = 0, **fields: Any) -> Sample:
    base = {"question": f"q {number}", "contexts": ("c",), "answer": "a", "sample_id": f"s{number}"}
    return Sample(**(base | fields))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Evaluators of one spool, each as if the process of the one before had died."""
    monkeypatch.setattr(outbox_file, "LEASE_S", 1.0)
    made: list[RagEval] = []

    def build(judge: Any = None, **settings: Any) -> RagEval:
        settings.setdefault("spool", str(folder))
        with small_limits(settings):
            made.append(RagEval(METRIC, judge or ScriptedJudge(GOOD), **settings))
        return made[-1]

    yield build
    for evals in made:
        evals.shutdown(0.1)


@pytest.fixture
def stuck(make: Make) -> Make:
    return partial(make, ScriptedJudge(GOOD, latency=600))


PRELUDE = """
import os, signal, time
from rag_eval_hooks import JsonlSink, RagEval, Sample
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import FAITHFUL as GOOD

def sample(name):
    return Sample(question="q", contexts=("c",), answer="a", sample_id=str(name))
"""


def run_until_killed(folder: Path, script: str) -> None:
    run_script(folder, script, prelude=PRELUDE, end=-9)


def file_in(folder: Path) -> Path:
    (path,) = folder.glob("*.sqlite")
    return path


def rows(folder: Path, columns: str = SAMPLE_ID) -> list[Any]:
    """Columns of all jobs in a spool, in their order."""
    if not (folder / outbox_file.NAME).exists():
        return []
    # A file has no tables at the moment of its creation.
    with closing(sqlite3.connect(file_in(folder))) as db, suppress(sqlite3.DatabaseError):
        return db.execute(f"SELECT {columns} FROM jobs ORDER BY id").fetchall()
    return []


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def test_samples_of_a_killed_process_are_scored_by_the_next(make: Make, tmp_path: Path) -> None:
    run_until_killed(
        tmp_path,
        """
        evals = RagEval("ragas.faithfulness", ScriptedJudge(GOOD, latency=600), spool="spool")
        for n in range(7): assert evals.submit(sample(n))
        while evals.spooled().get("pending") != 7: time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )
    evals = make(sinks=[memory := MemorySink()])
    until(lambda: evals.stats().scored == 7 and len(memory.results) == 7)
    assert sorted(result.sample.sample_id for result in memory.results) == list("0123456")
    assert memory.results[0].sample == Sample(question="q", contexts=("c",), answer="a")  # type: ignore[arg-type]
    stats = evals.stats()
    assert (stats.offered, stats.recovered, stats.scored) == (7, 7, 7)


def test_reader_of_a_file_gets_each_result_once(make: Make, tmp_path: Path) -> None:
    """A process that died between writing a line and noting it leads to a line that repeats it."""
    path = tmp_path / "results.jsonl"
    script = """
    class Deadly(JsonlSink):
        def deliver(self, evaluation):
            super().deliver(evaluation)
            os.kill(os.getpid(), signal.SIGKILL)
    evals = RagEval("ragas.faithfulness", ScriptedJudge(GOOD, latency=0.3),
                    sinks=[Deadly("results.jsonl")], spool="spool")
    evals.submit(sample("s0"))
    time.sleep(120)
    """
    run_until_killed(tmp_path, script)
    written = lines(path)
    second = make(sinks=[JsonlSink(path), memory := MemorySink()])
    until(lambda: second.spooled()["pending"] == 0 and "undelivered" not in second.spooled())
    assert [line["result_id"] for line in lines(path)] == [written[0]["result_id"]] * 2
    assert lines(path)[0]["evaluated"] == lines(path)[1]["evaluated"]
    assert len(list(read(path))) == 1
    assert (second.stats().offered, memory.results) == (0, [])


def test_line_left_unfinished_is_ended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    sink = JsonlSink(path)
    empty = Evaluation(sample=sample(1), outcomes={}, probability=None, start=0, end=0)
    sink.deliver(empty)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    sink.deliver(empty)
    assert path.read_bytes() == whole[:-20] + b"\n" + whole


@pytest.mark.parametrize(
    "prepare", [lambda path: path.write_text("notes of mine"), lambda path: path.parent.rmdir()]
)
def test_path_that_cannot_be_a_folder_is_refused_at_start_and_left_alone(
    tmp_path: Path, prepare: Callable[[Path], Any]
) -> None:
    path = tmp_path / "folder" / "spool"
    path.parent.mkdir()
    prepare(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(ConfigError, match="a folder that exists") as raised:
        RagEval(spool=str(path))
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
    assert evals.flush(PATIENCE)
    assert (tmp_path / "relative").is_dir()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_spool_is_readable_only_by_its_owner(stuck: Make, folder: Path) -> None:
    folder.mkdir(mode=0o755)
    old = os.umask(0)
    try:
        stuck().submit(sample())
        until(lambda: any(folder.glob("*-wal")))
    finally:
        os.umask(old)
    modes = [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, *folder.iterdir())]
    assert modes == [0] * 4


def left_behind(stuck: Make, folder: Path, number: int, **fields: Any) -> Path:
    """The file that a process leaves with so many samples that nobody has evaluated."""
    evals = stuck()
    for n in range(number):
        evals.submit(sample(n, **fields))
    until(lambda: len(rows(folder)) >= number)
    assert not evals.shutdown(0)
    return file_in(folder)


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[200:] = random.Random(1).randbytes(len(content) - 200)
    path.write_bytes(content)


def no_database(path: Path) -> None:
    path.write_bytes(b"no database " * 1000)


def unreadable_schema(path: Path) -> None:
    """SQLite's message about it quotes bytes that are no text."""
    name = "UPDATE sqlite_master SET name = CAST(X'CC28' AS TEXT), sql = 'CREATE TABLE ('"
    execute(path, "PRAGMA writable_schema = ON", name)


DAMAGES = [
    damaged,
    lambda path: os.truncate(path, path.stat().st_size // 2),
    no_database,
    unreadable_schema,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_renamed_and_costs_no_new_sample(
    make: Make, stuck: Make, folder: Path, damage: Callable[[Path], None]
) -> None:
    left = left_behind(stuck, folder, 30, contexts=("c" * 3000,))
    damage(left)
    evals = make(sinks=[memory := MemorySink()])
    until(left.with_name(f"{left.name}.damaged").exists)
    for number in range(100, 110):
        evals.submit(sample(number))
    assert evals.flush(PATIENCE)
    until(lambda: evals.stats().pending == 0)
    stats = evals.stats()
    assert (stats.offered, stats.undurable) == (10 + stats.recovered, 0)
    assert {f"s{n}" for n in range(100, 110)} <= {r.sample.sample_id for r in memory.results}
    assert any("spool" in kind for kind in stats.incidents)
    assert evals.spooled()["pending"] == 0


@pytest.mark.parametrize("harm", [no_database, lambda path: shutil.rmtree(path.parent)])
def test_samples_in_memory_are_stored_again_after_harm_to_the_file(
    stuck: Make, folder: Path, harm: Callable[[Path], object]
) -> None:
    evals = stuck()
    for number in range(20):
        evals.submit(sample(number))
    until(lambda: len(rows(folder)) == 20)
    execute(path := file_in(folder), "PRAGMA wal_checkpoint(TRUNCATE)")
    harm(path)
    evals.submit(sample(20))
    until(lambda: sorted(rows(folder)) == sorted((f"s{n}",) for n in range(21)))
    assert evals.stats().undurable == 0


BROKEN = [
    "payload = json_set(payload, '$.decision.position', 'abc')",
    "payload = json_set(payload, '$.decision.shares[0][0]', 1e300)",
    "payload = json_remove(payload, '$.decision')",
    "payload = '{'",
    "payload = '[]'",
    "payload = ''",
    "payload = X'CC28'",
    "payload = json_set(payload, '$.sample', 'none')",
    "tries = 'many'",
    "accepted = 'late'",
]


def test_rows_that_cannot_be_read_are_dropped_alone(make: Make, stuck: Make, folder: Path) -> None:
    left, bad = left_behind(stuck, folder, 30), len(BROKEN)
    execute(left, *(f"UPDATE jobs SET {one} WHERE id = {row}" for row, one in enumerate(BROKEN, 3)))
    evals = make()
    until(lambda: evals.stats().scored == 30 - bad and evals.stats().pending == 0)
    until(lambda: evals.spooled().get("pending") == 0)
    assert evals.stats().dropped == {"unreadable": bad}
    counts = {"accepted": 30, "scored": 30 - bad, "dropped:unreadable": bad, "pending": 0}
    assert evals.spooled() == counts


def test_samples_are_scored_from_memory_while_the_file_is_locked(make: Make, folder: Path) -> None:
    evals = make(sinks=[memory := MemorySink()])
    assert evals.submit(sample(1))
    assert evals.flush(PATIENCE)
    with closing(sqlite3.connect(file_in(folder), isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert evals.submit(sample(2))
        until(lambda: len(memory.results) == 2)
        until(lambda: evals.stats().undurable == 1)
        db.execute("ROLLBACK")
    evals.submit(sample(3))
    assert evals.flush(PATIENCE)
    until(lambda: len(memory.results) == 3)
    assert evals.stats().undurable == 1


@pytest.mark.long
@pytest.mark.parametrize("redact", ["None", "deadly"])
def test_sample_that_ends_its_processes_is_given_up_after_ten(
    make: Make, tmp_path: Path, folder: Path, redact: str
) -> None:
    script = f"""
    import pathlib
    def deadly(text): os.kill(os.getpid(), signal.SIGKILL)
    first = not pathlib.Path("spool").exists()
    class Deadly(ScriptedJudge):
        async def make(self, *call):
            # The first time not before it is on disk, then at once, as a native crash is.
            while first and evals.spooled().get("pending") != 1: time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
    redact = None if first else {redact}
    evals = RagEval("ragas.faithfulness", Deadly(GOOD), spool="spool", redact=redact)
    if first: evals.submit(sample("deadly"))
    time.sleep(120)
    """
    for tries in range(3):
        run_until_killed(tmp_path, script)
        assert rows(folder, "tries") == [(tries,)]
    execute(file_in(folder), "UPDATE jobs SET tries = 10")
    evals = make()
    until(lambda: evals.spooled()["pending"] == 0)
    assert evals.spooled()["dropped:gave_up"] == 1
    assert evals.stats().dropped == {"gave_up": 1}


def test_samples_that_find_no_room_are_not_claimed_without_pause(
    stuck: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Counter[str] = Counter()

    def count(text: str) -> str:
        seen[text] += 1
        return text

    first = stuck(judge_concurrency=1)
    for number in range(40):
        assert first.submit(sample(number, contexts=("c" * 1000,)))
    first.shutdown(0.1)
    # A rule sees each text of a sample whenever that is claimed.
    monkeypatch.setattr(limits, "QUEUE_CHARS", 3000)
    second = stuck(redact=count, judge_concurrency=1)
    until(lambda: second.stats().recovered == 3)
    time.sleep(2)
    second.shutdown(0.1)
    assert seen["c" * 1000] < 200


def shouted(text: str) -> str:
    """A user's function that is not to be applied twice."""
    return text + "!"


@pytest.mark.parametrize(
    ("redact", "settings", "ending"),
    [(["email"], {}, "<EMAIL_2> or <EMAIL_1>.!"), (shouted, {"redact_ids_key": "k"}, ">.!")],
)
def test_recovered_sample_is_redacted_once_by_the_present_settings(
    make: Make, stuck: Make, redact: Any, settings: dict[str, Any], ending: str
) -> None:
    """Placeholders that stand in it stay; an id is hashed once."""
    text = "Write to ada@example.com or <EMAIL_1>."
    first = stuck(redact=shouted, **settings)
    first.submit(sample(question=text, user_id="ada", contexts=(text,)))
    assert not first.shutdown(0)
    evals = make(sinks=[memory := MemorySink()], redact=redact, **settings)
    until(lambda: memory.results)
    found = memory.results[0].sample
    assert evals.stats().recovered == 1
    assert found.question.endswith(ending)
    assert found.contexts is not None
    assert found.contexts[0].text == found.question
    hashed = hmac.new(b"k", b"ada", "sha256").hexdigest()[:16]
    assert found.user_id == (hashed if settings else "ada!")


def test_recovered_sample_that_cannot_be_redacted_reaches_no_judge(
    make: Make, stuck: Make, folder: Path
) -> None:
    def fails(_text: str) -> str:
        raise ValueError

    left_behind(stuck, folder, 1)
    evals = make(judge := ScriptedJudge(GOOD), redact=fails)
    until(lambda: evals.spooled()["pending"] == 0)
    assert evals.stats().dropped == {"redaction_failed": 1}
    assert judge.calls == []


def test_slow_redaction_holds_no_file(make: Make, folder: Path) -> None:
    """Samples are built outside of the file's transaction: others can lock it meanwhile."""
    building, go_on = threading.Event(), threading.Event()

    def redact(text: str) -> str:
        if text == "slow":
            building.set()
            go_on.wait(120)
        return text

    evals = make(redact=redact)
    evals.submit(sample(question="quick"))
    assert evals.flush(PATIENCE)
    evals.submit(sample(question="slow"))
    assert building.wait(120)
    with closing(sqlite3.connect(file_in(folder), timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    go_on.set()
    assert evals.flush(PATIENCE)
    assert evals.stats().undurable == 0
