"""Every example runs as a user runs it, and prints its score."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.brokers import REDIS, RedisServer
from tests.support.command_line import run_command
from tests.support.fleet import WorkerProcess
from tests.support.scripts import run_script

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="not in a source tree")


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("langgraph_agent.py", r"0\.00  ragas\.faithfulness(.|\n)*'08:40' where a chunk says"),
        ("llama_index_agent.py", r"0\.00  ragas\.faithfulness(.|\n)*'09:15' where a chunk says"),
    ],
)
def test_agent_prints_its_score_and_the_failing_claim(
    script: str, shown: str, tmp_path: Path
) -> None:
    code = (EXAMPLES / script).read_text(encoding="utf-8")
    assert re.search(shown, run_script(tmp_path, code))


def test_ci_gate_fails_the_build_of_a_bad_pipeline(tmp_path: Path) -> None:
    for name in ("ci_gate.py", "questions.csv"):
        shutil.copy(EXAMPLES / name, tmp_path)
    options = ("--chain", "ci_gate:chain", "-o", "new.jsonl", "--fail-on-point")
    ask = ("evaluate", "questions.csv", *options)
    assert run_command(tmp_path, *ask, "ragas.faithfulness<0.8", variables={}).code == 1
    assert run_command(tmp_path, *ask, "ragas.faithfulness<0.4", variables={}).code == 0


def test_service_answers_and_its_answers_are_scored(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    script = f"""
    import runpy
    from starlette.testclient import TestClient
    app = runpy.run_path({str(EXAMPLES / "fastapi_service.py")!r})["app"]
    with TestClient(app) as client:
        print(client.get("/ask", params={{"question": "When do ships leave?"}}).json()["answer"])
    """
    printed = run_script(tmp_path, script, RAG_EVAL_SINKS="jsonl:scores.jsonl")
    assert printed == "Ships to Skerrow leave at 07:15 and 22:00.\n"
    (line,) = (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["outcomes"]["ragas.faithfulness"]["value"] == 0.0


@pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")
@pytest.mark.long
def test_fleet_gets_its_score_back_from_a_worker(tmp_path: Path, redis: RedisServer) -> None:
    pytest.importorskip("celery")
    code = (EXAMPLES / "fleet.py").read_text(encoding="utf-8")
    with WorkerProcess(tmp_path, redis.url):
        assert "scored=1" in run_script(tmp_path, code, RAG_EVAL_BROKER=redis.url)


def test_notebook_runs_in_jupyter_and_is_kept_without_output(tmp_path: Path) -> None:
    pytest.importorskip("nbclient")
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    printed = run_script(
        tmp_path,
        f"""
        import nbclient, nbformat
        notebook = nbformat.read({str(EXAMPLES / "notebook.ipynb")!r}, 4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
        print(notebook.cells)
        """,
    )
    assert "contradicted" in printed
    assert re.search(r"0\.20, 0\.\d\d to", printed)


@pytest.mark.parametrize(
    ("module", "client", "maker"),
    [
        ("langgraph_agent", "langchain_openai", "model"),
        ("fastapi_service", "langchain_openai", "model"),
        ("ci_gate", "langchain_openai", "model"),
        ("llama_index_agent", "llama_index.llms.openai", "model"),
    ],
)
def test_example_with_a_key_uses_a_real_model(
    module: str, client: str, maker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(client)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, module, raising=False)
    made: Any = getattr(importlib.import_module(module), maker)()
    assert type(made).__module__.startswith(client)
