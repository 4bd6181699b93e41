"""Zero-code under real servers. `make servers` installs them and runs this file."""

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


def question(number: int) -> str:
    return f"Which key opens locker {number}?"


def answer(number: int) -> str:
    return f"Locker {number} is opened by the key with the number {number}7."


def started(folder: Path, command: Sequence[str], bin: Path = BIN) -> Server:
    port = free_port()
    return Server(folder, [part.replace("PORT", str(port)) for part in command], port, bin=bin)


def scores(span: Any) -> list[float]:
    return [item.value.double_value for item in span.attributes if item.key == SCORE]


def assert_scored(server: Server, count: int) -> list[Any]:
    spans = server.rag_spans()
    assert [scores(span) for span in spans] == [[1.0]] * count, server.log
    return spans


@pytest.mark.parametrize("name", WEB)
def test_each_request_has_its_scores_in_its_own_trace(name: str, tmp_path: Path) -> None:
    with started(tmp_path, WEB[name]) as server:
        for number, page in enumerate(["/ask", "/chain", "/chain", "/ask", "/chain"], 3):
            assert server.get(page, question=question(number)) == answer(number)
        assert server.get("/ingest") == "done"
        server.get("/ask", question=question(8))
        server.stop()
        traces = {span.trace_id for span in assert_scored(server, 6)}
        assert traces <= server.traces_of_requests(), server.log
        assert len(traces) == 6, server.log


def test_langgraph_dev(tmp_path: Path) -> None:
    graphs = {"ask": "./web.py:asking", "index": "./web.py:indexing"}
    config = {"dependencies": ["."], "graphs": graphs}
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    command = ["langgraph", "dev", "--no-browser", "--no-reload", "--allow-blocking"]
    with started(tmp_path, [*command, "--port", "PORT"]) as server:

        def run(graph: str, given: object) -> Any:
            body = json.dumps({"assistant_id": graph, "input": given}).encode()
            return json.loads(server.post("/runs/wait", body))

        for number in (3, 4):
            assert run("ask", {"question": question(number)})["answer"] == answer(number)
        run("index", {"docs": []})
        run("ask", {"question": question(5)})
        server.stop()
        assert_scored(server, 3)


@pytest.mark.long
@pytest.mark.skipif(not CHAINLIT.is_dir(), reason="make servers ARGS=--long makes the environment")
def test_chainlit(tmp_path: Path) -> None:
    command = ["chainlit", "run", "page.py", "--headless", "--port", "PORT"]
    with started(tmp_path, command, CHAINLIT) as server:
        server.get("/")
        ask = [str(CHAINLIT / "python"), str(tmp_path / "ask_page.py"), server.url]
        asked = subprocess.run(
            [*ask, question(3), question(4), "ingest", question(5)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE,
        )
        server.stop()
        said = [answer(3), answer(4), "done", answer(5)]
        assert asked.stdout.splitlines() == said, server.log
        assert len({span.trace_id for span in assert_scored(server, 3)}) == 3, server.log


@pytest.mark.long
def test_streamlit(tmp_path: Path) -> None:
    with Server(tmp_path, ["python", "ask_chat.py", "3", "4", "ingest", "5"], 0) as server:
        server.wait()
        said = [answer(3), answer(4), "done", answer(5)]
        assert [line for line in server.log.splitlines() if line in said] == said, server.log
        assert_scored(server, 3)
