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

from tests.viewers.demo import results
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
    low = [one for one in results(tmp_path) if one.scores.get("ragas.faithfulness", 1.0) < 0.5]
    assert low
    assert set(found) == {one.span_id for one in low}
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


@pytest.mark.skipif(
    not all((ROOT / made).exists() for made in (".venv-demo/.demo", ".venv-phoenix/.installed")),
    reason="`make viewers` makes the environments that the target would install first",
)
def test_make_shows_it_and_ends_on_ctrl_c() -> None:
    """The target prints a link that leads to the traces; Ctrl-C ends it with its Phoenix."""
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_", "PYTHON", "MAKE")
    own = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    with subprocess.Popen(
        ["make", "demo", "VIEWER=phoenix", "ARGS=--plain"],
        cwd=ROOT,
        env=own,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        link = ""
        for line in process.stdout:
            link = next(iter(re.findall(r"in Phoenix: (\S+)", line)), link)
            if line.startswith("Ctrl-C"):
                break
        try:
            assert httpx.get(link, timeout=30).status_code == 200
            url, _, project = link.partition("/projects/")
            spans = Phoenix(url).spans()
            assert any(span["name"].startswith("invoke_workflow") for span in spans.values())
            assert {span["project"] for span in spans.values()} == {project.split("/")[0]}
        finally:
            # As the terminal does: to make and all that it started.
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, timeout=5)


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
