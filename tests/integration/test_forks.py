"""Files that parent, child and other processes share stay whole whoever forks, closes or ends."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_hooks.sqlite_file import SqliteFile
from tests.support.scripts import run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

STORY = """
    import asyncio, os, subprocess, sys
    from rag_eval_hooks.judges.memo import Memo

    def use(memo, name):
        for n in range(10):
            memo.keep(f"{name} {n}".encode(), "text")
        # The writer's queue is in order: this is looked for after all was written.
        assert asyncio.run(memo.recall(b"unknown")) is None

    async def found(memo):
        names = [f"{name} {n}" for name in ("a", "b", "c", "d") for n in range(10)]
        return [await memo.recall(name.encode()) for name in names]

    if sys.argv[1:] == ["stranger"]:
        use(Memo("memo"), "c")
        sys.exit()
    if sys.argv[1:] == ["look"]:
        assert asyncio.run(found(Memo("memo"))) == ["text"] * 40
        sys.exit()
    ours, closed, begun = Memo("memo"), os.pipe(), os.pipe()
    use(ours, "a")
    child = os.fork()
    if child == 0:
        use(ours, "b")
        os.write(begun[1], b".")
        os.read(closed[0], 1)
        use(ours, "d")
        os._exit(0)
    os.read(begun[0], 1)
    asyncio.run(ours.aclose())
    os.write(closed[1], b".")
    subprocess.run([sys.executable, __file__, "stranger"], check=True)
    assert os.waitpid(child, 0)[1] == 0
    subprocess.run([sys.executable, __file__, "look"], check=True)
"""


def test_writes_of_a_forked_child_are_kept(tmp_path: Path) -> None:
    run_script(tmp_path, STORY)


def test_threads_that_were_at_work_are_missed_by_no_child(tmp_path: Path) -> None:
    told = run_script(
        tmp_path,
        """
        import asyncio, os, threading, time
        from rag_eval_hooks.threads import Threads

        threads, begun = Threads("judge", 1), threading.Event()

        def work():
            begun.set()
            time.sleep(2)
            return "parent"

        parent = threading.Thread(target=lambda: print(asyncio.run(threads.run(work))))
        parent.start()
        begun.wait()
        if (child := os.fork()) == 0:
            assert asyncio.run(threads.run(lambda: "child")) == "child"
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        parent.join()
        """,
    )
    assert told == "parent\n"


def test_a_file_of_results_stays_whole_across_forks(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        """
        import os
        from rag_eval_hooks import JsonlSink, Sample
        from rag_eval_hooks.result import Evaluation

        sink = JsonlSink("r.jsonl")

        def deliver(question):
            sample = Sample(question=question)
            sink.deliver(Evaluation(sample=sample, outcomes={}, probability=None, start=0, end=0))

        deliver("before")
        child = os.fork()
        for number in range(200):
            deliver("parent " * 500 if child else "child " * 500)
        if not child:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """,
    )
    lines = (tmp_path / "r.jsonl").read_text().splitlines()
    asked = [json.loads(line)["sample"]["question"].split()[0] for line in lines]
    assert asked[0] == "before"
    assert (asked.count("parent"), asked.count("child"), len(asked)) == (200, 200, 401)


def test_a_child_ends_by_its_own_hooks_alone(tmp_path: Path) -> None:
    printed = run_script(
        tmp_path,
        """
        import os
        from rag_eval_hooks import RagEval, Sample

        class Sink:
            def deliver(self, sample, outcomes):
                pass

            def close(self):
                print("closed by the parent:", os.getpid() == parent, flush=True)

        parent = os.getpid()
        evals = RagEval("lexical", sinks=[Sink()])
        evals.submit(Sample(question="q", answer="a", reference="a"))
        if child := os.fork():
            assert os.waitpid(child, 0)[1] == 0
        """,
    )
    assert printed.splitlines() == ["closed by the parent: True"]


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
