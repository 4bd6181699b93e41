"""Zero-code under real servers and in a notebook, each installed from its package index.

Run by `make servers`, which makes their environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.servers.otlp_collector import OtlpCollector
from tests.support.ports import free_port
from tests.waiting import PATIENCE
from tests.zero_code.served import BIN, CHAINLIT, HERE, Server

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
    """Return the RAG spans, each of which has its score."""
    spans = server.rag_spans()
    assert [scores(span) for span in spans] == [[1.0]] * count, server.log
    return spans


@pytest.mark.parametrize("name", WEB)
def test_each_request_has_its_scores_in_its_own_trace(name: str, tmp_path: Path) -> None:
    """By hand and by a chain, also right before SIGTERM; an ingestion is none."""
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
    """A graph's run has its scores, also the last before SIGTERM; the ingestion graph is none."""
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
    """Each message is scored, also the last before SIGTERM; an ingestion is none."""
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
    """Each question to the page is scored, also the last before SIGTERM; an ingestion is none."""
    with Server(tmp_path, ["python", "ask_chat.py", "3", "4", "ingest", "5"], 0) as server:
        server.wait()
        said = [answer(3), answer(4), "done", answer(5)]
        assert [line for line in server.log.splitlines() if line in said] == said, server.log
        assert_scored(server, 3)


CELLS = """
from rag_eval_hooks import RagEval, setup_tracing
setup_tracing(endpoint="COLLECTOR")
evals = RagEval(metrics=["ragas.faithfulness"])
said = {"question": "How long?", "contexts": ["It lasts 2 years."], "answer": "It lasts 5 years."}
evals
# %%
with evals.interaction(said["question"]) as asked:
    asked.contexts(said["contexts"])
    asked.answer(said["answer"])
# %%
await evals.aevaluate(said)
# %%
evals.evaluate(said)
"""


@pytest.mark.parametrize(("end", "last"), [("shutdown", ""), ("SIGTERM", "# %%\nevals.flush()")])
def test_a_kernel_shows_tables_and_loses_no_span(end: str, last: str, tmp_path: Path) -> None:
    """Results are tables; Jupyter's shutdown waits for spans; after `flush` SIGTERM loses none."""
    with OtlpCollector() as collector:
        done = subprocess.run(
            [BIN / "python", HERE / "kernel.py", end],
            input=CELLS.replace("COLLECTOR", collector.url) + last,
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        (span,) = [s for s in collector.received if s.name.startswith("invoke_workflow")]
    assert scores(span) == [0.0]
    about, *results = json.loads(done.stdout)
    assert "ragas.faithfulness" in about
    assert [table.count("It lasts 5 years.") for table in results] == [1, 1]
