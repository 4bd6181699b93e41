"""`make demo VIEWER=phoenix`, as someone starts it for a first look, and ends it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.viewers.phoenix import Phoenix
from tests.viewers.processes import ROOT, executable


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_a_first_look(ended_by: signal.Signals, tmp_path: Path) -> None:
    """The demo is in the Phoenix that it links to; told to end, both end, and data goes with it."""
    command = [sys.executable, "-m", "rag_eval_hooks.cli.main", "demo", "--plain"]
    command += ["--viewer", "phoenix"]
    command += ["--viewer-command", executable("phoenix", "RAGEVAL_PHOENIX", ".venv-phoenix")]
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**own, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        url = None
        for line in process.stdout:
            link = re.search(r"in Phoenix: ((http://127\.0\.0\.1:\d+)/projects/\S+/spans)", line)
            url = link[2] if link else url
            if line.startswith("Ctrl-C"):
                break
        assert url is not None
        found = Phoenix(url).spans("annotations['ragas.faithfulness'].score < 0.5")
        process.send_signal(ended_by)
        assert process.wait(60) == 0
    assert len(found) == 2
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz", timeout=5)
    assert not list(tmp_path.glob("rag-eval-hooks-phoenix-*"))


def test_make_starts_it() -> None:
    """`make demo VIEWER=phoenix` makes Phoenix's environment and starts the demo with it."""
    makefile = ROOT / "Makefile"
    if shutil.which("make") is None or not makefile.exists():
        pytest.skip("no make, or no Makefile beside the tests")
    told = subprocess.run(
        ["make", "--dry-run", "demo", "VIEWER=phoenix", "PHOENIX_VENV=no-such"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert 'no-such/bin/pip install --quiet --no-compile "arize-phoenix' in told
    assert "--viewer phoenix --viewer-command no-such/bin/phoenix" in told


def test_a_missing_viewer_is_told(tmp_path: Path) -> None:
    """Where there is no Phoenix, the message says how to get one."""
    command = [sys.executable, "-m", "rag_eval_hooks.cli.main", "demo", "--viewer", "phoenix"]
    done = subprocess.run(
        [*command, "--viewer-command", "no-such-phoenix"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "pip install arize-phoenix" in done.stderr
