"""The demo with `--viewer`, as someone takes a first look."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.viewers.demo import COMMAND, results, variables
from tests.viewers.phoenix import Phoenix
from tests.viewers.processes import ROOT, executable


def test_a_first_look(tmp_path: Path) -> None:
    program = executable("phoenix", "RAGEVAL_PHOENIX")
    command = [*COMMAND, "--output", f"{tmp_path}/demo-output"]
    # In a process group of its own, as a terminal starts it.
    with subprocess.Popen(
        [*command, "--viewer", "phoenix", "--viewer-command", program],
        cwd=ROOT,
        env=variables(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        while "\nCtrl-C" not in printed and (line := process.stdout.readline()):
            printed += line
        (link,) = re.findall(r"in Phoenix: (\S+)", printed)
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
