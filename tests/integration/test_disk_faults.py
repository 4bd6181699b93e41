"""A real application on a disk that is full, locked by another process, or torn."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts, and POSIX file locks")

_APP = """
import json, logging, os, sqlite3, subprocess, sys, time
logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from rag_eval_hooks.testing import Findings, MemorySink, ScriptedJudge, Support
from tests.servers.platform_server import Answer, PlatformServer

GOOD = Findings(answer_claims=("a",), answer_support=(Support((True,)),))
server = PlatformServer(lambda request: Answer(body={"data": []}))
server.__enter__()
memory = MemorySink()
evals = RagEval(
    metrics=["ragas.faithfulness"], judge=ScriptedJudge(GOOD),
    sinks=[memory, f"phoenix:{server.url}"],
    config=RagEvalConfig(spool="disk/spool"),
)

def offer(first, count):
    for n in range(first, first + count):
        text = f"{n} " + "x" * 5000
        ids = {"trace_id": f"{n + 1:032x}", "span_id": f"{n + 1:016x}"}
        evals.offer(Sample(question=text, contexts=("c",), answer="a", **ids))
    assert evals.flush(300)

def told():
    stats = evals.stats()
    sent = sum(len(request.body["data"]) for request in server.requests)
    assert stats.offered == stats.scored == len(memory.results) == sent, (stats, sent)
    print(json.dumps({"scored": stats.scored, "undurable": stats.undurable}))
"""


def run(folder: Path, script: str, *before: str) -> list[dict[str, Any]]:
    """Return the application's output; its log has at most one line for each kind of failure."""
    (folder / "disk").mkdir(exist_ok=True)
    code = _APP + textwrap.dedent(script)
    (folder / "app.py").write_text(code)
    done = subprocess.run(
        [*before, sys.executable, "-W", "ignore", "app.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "rag_eval_hooks:" in line]
    assert len(lines) == len(set(lines)) <= 2, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def own_mounts(folder: Path) -> list[str]:
    """A command that begins a process with a small file system of its own, if that may be."""
    (folder / "disk").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size=1m tmpfs {folder}/disk"
    command = ["unshare", "-Urm", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no mounts of one's own here")
    return command


def test_a_full_file_system_disturbs_nobody(tmp_path: Path) -> None:
    """All is scored and delivered from memory, counted, with one line; later all is kept again."""
    first, full, later = run(
        tmp_path,
        """
        offer(0, 3); told()
        filler = os.open("disk/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while True: os.write(filler, b"x" * 512)
        except OSError: pass
        offer(10, 30); told()
        os.close(filler); os.unlink("disk/filler")
        time.sleep(2.5)
        offer(100, 3); told()
        """,
        *own_mounts(tmp_path),
    )
    assert first == {"scored": 3, "undurable": 0}
    assert full["undurable"] > 0
    assert later == {"scored": 36, "undurable": full["undurable"]}


def test_a_lock_of_another_process_disturbs_nobody(tmp_path: Path) -> None:
    """While a backup or a person holds the file, all goes on; then all is kept again."""
    first, locked, later = run(
        tmp_path,
        """
        offer(0, 3); told()
        holder = subprocess.Popen([sys.executable, "-c", '''
        import glob, sqlite3, sys
        db = sqlite3.connect(glob.glob("disk/spool/*.sqlite")[0], isolation_level=None)
        db.execute("BEGIN EXCLUSIVE")
        print("held", flush=True)
        sys.stdin.read()
        '''.replace("        ", "")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert holder.stdout.readline()
        offer(10, 30); told()
        holder.communicate()
        time.sleep(2.5)
        offer(100, 3); told()
        """,
    )
    assert first == {"scored": 3, "undurable": 0}
    assert locked == {"scored": 33, "undurable": 30}
    assert later == {"scored": 36, "undurable": 30}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_torn_file_disturbs_nobody(share: float, tmp_path: Path) -> None:
    """A file that lost its end, as by a broken copy, is told once, and samples are scored."""
    run(tmp_path, "offer(0, 40); evals.shutdown(10)")
    (spool,) = (tmp_path / "disk" / "spool").glob("*.sqlite")
    assert spool.stat().st_size > 20_000
    os.truncate(spool, int(spool.stat().st_size * share))
    (told,) = run(tmp_path, "offer(100, 10); told()")
    assert told["scored"] == 10
