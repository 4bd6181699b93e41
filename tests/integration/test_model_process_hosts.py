"""The model process in hosts of every kind: scripts, forks, servers, and their sudden ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

HEAD = """
import json, os, sys, time
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from tests.servers.own_models import OwnEmbedder
METRIC = "graphrag.semantic_similarity_percentage"
def asked(text="text"):
    return Sample(question="q", answer=text, reference="another text")
"""
MAKE = """
embedder = OwnEmbedder(process=True)
evals = RagEval(METRIC, embedder=embedder)
def told():
    assert evals.evaluate(asked())[METRIC].value > 0
    return embedder.about
"""


@contextlib.contextmanager
def host(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, map(_absolute, sys.path)))},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _absolute(entry: str) -> str:
    return str(Path(entry).resolve())


def output(folder: Path, *command: str) -> list[Any]:
    with host(folder, *command) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    assert "Warning" not in err, err
    return [json.loads(line) for line in out.splitlines()]


def script(text: str) -> str:
    return HEAD + MAKE + textwrap.dedent(text)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    until(lambda: not is_there(pid))
    return True


PRINT = "print(json.dumps(told()), flush=True)"


def test_a_script_without_a_guard(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(script("print(json.dumps('main'))\n" + PRINT))
    main, there = output(tmp_path, str(path))
    assert main == "main"
    assert there["pid"] != there["parent"]
    assert gone(there["pid"])


@pytest.mark.long
def test_it_ends_with_a_host_that_is_killed(tmp_path: Path) -> None:
    for text in ("text", "hang"):
        code = script("print(json.dumps(told()), flush=True)")
        code += f"\nevals.submit(asked({text!r}))\ntime.sleep(600)"
        with host(tmp_path, "-c", code) as app:
            assert app.stdout is not None
            there = json.loads(app.stdout.readline())
            time.sleep(0.3)
            assert is_there(there["pid"])
            os.kill(app.pid, signal.SIGKILL)
            app.wait()
            assert gone(there["pid"])


def test_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    lines = output(
        tmp_path,
        "-c",
        script("""
            import gc
            before = told()
            for n in range(5):
                evals.submit(asked("sleep"))
            worker = os.fork()
            if worker == 0:
                evals.submit(asked())
                assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 1
                gc.collect()
                print(json.dumps(told()), flush=True)
                evals.shutdown()
                os._exit(0)
            assert os.waitpid(worker, 0)[1] == 0
            assert evals.flush(300) and evals.stats().scored == evals.stats().offered == 5
            print(json.dumps([before, told()]), flush=True)
        """),
    )
    worker, (before, after) = lines
    assert before["pid"] == after["pid"] != worker["pid"]
    assert worker["parent"] != before["parent"]
    assert gone(before["pid"])
    assert gone(worker["pid"])


@pytest.mark.long
def test_a_daemonic_process(tmp_path: Path) -> None:
    """A worker that `multiprocessing` allows no children of its own, as Celery's, has a model."""
    code = """
        import multiprocessing
        def work():
            print(json.dumps(told()), flush=True)
            evals.shutdown()
        worker = multiprocessing.get_context("fork").Process(target=work, daemon=True)
        worker.start()
        worker.join()
    """
    (there,) = output(tmp_path, "-c", script(code))
    assert there["parent"] != there["pid"]
    assert gone(there["pid"])
