"""The demo with `--viewer`, as someone takes a first look."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.viewers.demo import COMMAND, results
from tests.viewers.phoenix import Phoenix
from tests.viewers.processes import ROOT, executable


def shown(command: Sequence[str], folder: Path, **variables: str) -> subprocess.Popen[str]:
    """Start a demo that waits for Ctrl-C, in a process group of its own as a terminal does."""
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**own, "TMPDIR": str(folder), **variables},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until_shown(process: subprocess.Popen[str]) -> str:
    """Return what it prints until it waits."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Ctrl-C"):
            break
    return "".join(lines)


def test_a_first_look(tmp_path: Path) -> None:
    """The demo is in the Phoenix that it links to; Ctrl-C ends both, and data goes with it."""
    phoenix = executable("phoenix", "RAGEVAL_PHOENIX")
    output = ("--output", f"{tmp_path}/demo-output")
    command = [*COMMAND, *output, "--viewer", "phoenix", "--viewer-command", phoenix]
    with shown(command, tmp_path) as process:
        (link,) = re.findall(r"in Phoenix: (\S+)", until_shown(process))
        try:
            assert httpx.get(link, timeout=30).status_code == 200
            url, _, project = link.partition("/projects/")
            spans = Phoenix(url).spans()
            low = Phoenix(url).spans("annotations['ragas.faithfulness'].score < 0.5")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(60)
    assert code == 0
    assert {span["project"] for span in spans.values()} == {project.split("/")[0]}
    scores = {one.span_id: one.scores.get("ragas.faithfulness", 1.0) for one in results(tmp_path)}
    assert set(low) == {span_id for span_id, score in scores.items() if score < 0.5} != set()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz", timeout=5)
    assert not list(tmp_path.glob("rag-eval-hooks-phoenix-*"))


@pytest.mark.parametrize(
    ("viewer", "advice"),
    [
        ("phoenix", ["pip install arize-phoenix"]),
        ("jaeger", ["docker run", "--otlp-endpoint"]),
    ],
)
def test_a_missing_viewer_is_told(viewer: str, advice: list[str]) -> None:
    """The message about a missing viewer says how to get it."""
    done = subprocess.run(
        [*COMMAND, "--viewer", viewer, "--viewer-command", f"no-such-{viewer}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert all(words in done.stderr for words in advice)
