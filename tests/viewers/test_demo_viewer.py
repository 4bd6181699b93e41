"""The demo with `--viewer`, as someone takes a first look."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
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


JAEGER = """
import http.server, json, os, pathlib, sys, threading
host, taken = os.environ["JAEGER_LISTEN_HOST"], pathlib.Path(sys.argv[0]).with_suffix(".bytes")
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"page")
    def do_POST(self):
        with taken.open("ab") as file:
            file.write(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200); self.end_headers()
    def log_message(self, *_):
        pass
receiver = http.server.ThreadingHTTPServer((host, 4318), Page)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
http.server.ThreadingHTTPServer((host, 16686), Page).serve_forever()
"""
"""A program with Jaeger's two ports: no package carries the real one."""


def test_jaeger_is_started_linked_and_ended(tmp_path: Path) -> None:
    """The program of `--viewer-command` gets the spans; the links name the failing requests."""
    program = tmp_path / "jaeger"
    program.write_text(f"#!{sys.executable}\n{JAEGER}")
    program.chmod(0o755)
    output = ("--output", str(tmp_path), "--limit", "3")
    command = [*COMMAND, *output, "--viewer", "jaeger", "--viewer-command", str(program)]
    with shown(command, tmp_path) as process:
        (search,) = re.findall(r"those that fail a threshold: (\S+)", until_shown(process))
        url = httpx.URL(search)
        assert (url.host, url.port, url.path) == ("127.0.0.1", 16686, "/search")
        assert url.params["service"] == "rag-eval-hooks-demo"
        assert url.params["tags"] == '{"rag.eval.pass": "false"}'
        assert httpx.get(url).status_code == 200
        process.terminate()
        assert process.wait(60) == 0
    assert b"rag.eval.ragas.faithfulness.score" in program.with_suffix(".bytes").read_bytes()
    with pytest.raises(httpx.ConnectError):
        httpx.get("http://127.0.0.1:16686", timeout=5)


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
