"""Zero-code under real servers, each installed from its package index.

Run by `make servers`, which makes their environment.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.waiting import PATIENCE
from tests.zero_code.served import BIN, CHAINLIT, Server

pytestmark = pytest.mark.skipif(not BIN.is_dir(), reason="make servers makes the environment")

SCORE = "rag.eval.ragas.faithfulness.score"
PATIENT = ["--timeout-worker-healthcheck", "120"]
WEB = {
    "uvicorn": ["uvicorn", "web:app", "--port", "PORT"],
    "uvicorn, 2 workers": ["uvicorn", "web:app", "--port", "PORT", "--workers", "2", *PATIENT],
    "gunicorn, 2 workers": ["gunicorn", "web:application", "--bind", "127.0.0.1:PORT", "-w", "2"],
    "flask": ["flask", "--app", "web:application", "run", "--port", "PORT"],
}


def attributes(span: Any) -> dict[str, Any]:
    return {item.key: item.value for item in span.attributes}


def started(folder: Path, command: Sequence[str], bin: Path = BIN) -> Server:
    port = free_port()
    return Server(folder, [part.replace("PORT", str(port)) for part in command], port, bin=bin)


def assert_scored(spans: Sequence[Any], count: int, log: str) -> None:
    scores = [attributes(span).get(SCORE) for span in spans]
    assert [score.double_value for score in scores if score is not None] == [1.0] * count, log
    assert len(spans) == count, log


@pytest.mark.parametrize("name", WEB)
def test_each_request_has_its_scores_in_its_own_trace(name: str, tmp_path: Path) -> None:
    """By hand, by a chain, in a block, also right before SIGTERM; an ingestion is none."""
    with started(tmp_path, WEB[name]) as server:
        for number, page in enumerate(["/ask", "/chain", "/block", "/ask", "/chain"], 3):
            question = f"Which key opens locker {number}?"
            said = server.get(page, question=question)
            assert said == f"Locker {number} is opened by the key with the number {number}7."
        assert server.get("/ingest") == "done"
        server.get("/ask", question="Which key opens locker 8?")
        server.stop()
        spans = server.rag_spans()
        assert_scored(spans, 6, server.log)
        assert {span.trace_id for span in spans} <= server.traces_of_requests(), server.log
        assert len({span.trace_id for span in spans}) == 6, server.log


def test_langgraph_dev(tmp_path: Path) -> None:
    """A graph's run has its scores, also the last before SIGTERM; the ingestion graph is none."""
    graphs = {
        "dependencies": ["."],
        "graphs": {"ask": "./graphs.py:ask", "index": "./web.py:indexing"},
    }
    (tmp_path / "langgraph.json").write_text(json.dumps(graphs))
    command = [
        "langgraph",
        "dev",
        "--no-browser",
        "--no-reload",
        "--port",
        "PORT",
        "--allow-blocking",
    ]
    with started(tmp_path, command) as server:

        def run(graph: str, given: object) -> Any:
            return json.loads(
                server.post(
                    "/runs/wait", json.dumps({"assistant_id": graph, "input": given}).encode()
                )
            )

        for number in (3, 4):
            got = run("ask", {"question": f"Which key opens locker {number}?"})
            assert (
                got["answer"] == f"Locker {number} is opened by the key with the number {number}7."
            )
        run("index", {"docs": []})
        run("ask", {"question": "Which key opens locker 5?"})
        server.stop()
        assert_scored(server.rag_spans(), 3, server.log)


@pytest.mark.long
@pytest.mark.skipif(not CHAINLIT.is_dir(), reason="make servers ARGS=--long makes the environment")
def test_chainlit(tmp_path: Path) -> None:
    """Each message is scored, also the last before SIGTERM; an ingestion is none."""
    questions = [f"Which key opens locker {number}?" for number in (3, 4, 5)]
    command = ["chainlit", "run", "page.py", "--headless", "--port", "PORT"]
    with started(tmp_path, command, CHAINLIT) as server:
        server.get("/")
        ask = [str(CHAINLIT / "python"), str(tmp_path / "ask_page.py"), server.url]
        asked = subprocess.run(
            [*ask, *questions[:2], "ingest", questions[2]],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        server.stop()
        answers = [f"Locker {n} is opened by the key with the number {n}7." for n in (3, 4, 5)]
        assert asked.stdout.splitlines() == [*answers[:2], "done", answers[2]], server.log
        assert_scored(server.rag_spans(), 3, server.log)
        assert len({span.trace_id for span in server.rag_spans()}) == 3, server.log


@pytest.mark.long
def test_streamlit(tmp_path: Path) -> None:
    """Each question to the page is scored, also the last before SIGTERM; an ingestion is none."""
    with Server(tmp_path, ["python", "ask_chat.py", "3", "4", "ingest", "5"], 0) as server:
        server.wait()
        said = [f"Locker {n} is opened by the key with the number {n}7." for n in (3, 4, 5)]
        printed = [line for line in server.log.splitlines() if line in {*said, "done"}]
        assert printed == [*said[:2], "done", said[2]], server.log
        assert_scored(server.rag_spans(), 3, server.log)
