"""Every example, the README's code and the demo run as a user runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("examples.demo.handbook", reason="not in a source tree")

from examples.demo.handbook import QUESTIONS
from tests.support.command_line import run_command
from tests.support.fleet import WorkerProcess
from tests.support.optional import require
from tests.support.scripts import environment, run_script
from tests.support.servers.brokers import REDIS, RedisServer
from tests.support.servers.judge_server import JudgeServer
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FAITHFUL = "ragas.faithfulness"


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
    for limit, code in (("0.8", 1), ("0.4", 0)):
        ask = ("evaluate", "questions.csv", *options, f"{FAITHFUL}<{limit}")
        assert run_command(tmp_path, *ask, variables={}).code == code, limit


def test_service_answers_and_its_answers_are_scored(tmp_path: Path) -> None:
    require("fastapi")
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
    assert json.loads(line)["outcomes"][FAITHFUL]["value"] == 0.0


@pytest.mark.skipif(REDIS is None, reason="needs Debian's redis-server")
@pytest.mark.long
def test_fleet_gets_its_score_back_from_a_worker(tmp_path: Path, redis: RedisServer) -> None:
    pytest.importorskip("celery")
    code = (EXAMPLES / "fleet.py").read_text(encoding="utf-8")
    with WorkerProcess(tmp_path, redis.url):
        assert "scored=1" in run_script(tmp_path, code, RAG_EVAL_BROKER=redis.url)


def test_notebook_runs_in_jupyter_and_is_kept_without_output(tmp_path: Path) -> None:
    require("nbclient")
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    printed = run_script(
        tmp_path,
        f"""
        import nbclient, nbformat
        notebook = nbformat.read({str(EXAMPLES / "notebook.ipynb")!r}, 4)
        nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
        print(notebook.cells)
        """,
    )
    assert "contradicted" in printed
    assert re.search(r"0\.20, 0\.\d\d to", printed)


# The README.

APPLICATION = """
import os, sys, types
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from llama_index.core import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.settings import Settings

TEXTS = ["The ferry leaves the north quay at 07:40.", "A single ticket costs 4 crowns."]
Settings.embed_model = MockEmbedding(embed_dim=8)
nodes = [TextNode(text=text) for text in TEXTS]
retriever = RunnableLambda(lambda _: [Document(page_content=text) for text in TEXTS])
search_tool = tool("search", description="Search.")(lambda query: TEXTS[0])
# The client of LlamaIndex's OpenAI models excludes the newest `openai`.
sys.modules["llama_index.llms"] = types.ModuleType("llama_index.llms")
sys.modules["llama_index.llms.openai"] = types.SimpleNamespace(OpenAI=lambda **_: MockLLM())
"""
"""What the README's blocks use and do not define."""


def test_code_of_the_readme_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first, *others = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, re.S | re.M)
    (shown, *_) = re.findall(r"^```text[^\n]*\n(.*?)^```$", text, re.S | re.M)
    with JudgeServer() as judge:
        told = f"os.environ |= {{'OPENAI_API_KEY': 'none', 'OPENAI_BASE_URL': {judge.url!r}}}"
        code = "\n".join([first, "print('---')", APPLICATION, told, *others])
        printed, *_ = run_script(tmp_path, code).split("---")
    assert printed.strip() == shown.strip()


# The demo.

UNFAITHFUL = ("number", "invented", "negated")


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    "framework", ["langchain", pytest.param("llama-index", marks=pytest.mark.long)]
)
def test_demo_scores_every_question_and_finds_the_planted_mistakes(
    framework: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "examples.demo", "--output", str(tmp_path)]
    done = subprocess.run(
        [*command, "--framework", framework],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=2 * PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"traces.jsonl": 0o600, "results.jsonl": 0o600}
    written = lines(tmp_path / "results.jsonl")
    results = {one["sample"]["question_id"]: one for one in written}
    values = {name: one["outcomes"][FAITHFUL].get("value") for name, one in results.items()}
    assert results.keys() == {one.id for one in QUESTIONS}
    quoted = [values[one.id] for one in QUESTIONS if one.reference and not one.mistake]
    spoiled = [values[one.id] for one in QUESTIONS if one.mistake in UNFAITHFUL]
    low = [value for value in spoiled if value is not None]
    assert len(low) >= 2
    assert max(low) < min(value for value in quoted if value is not None)
    shown = {part.partition("\n")[0]: part for part in done.stdout.split("Question: ")[1:]}
    for one in QUESTIONS:
        if values[one.id] == 0.0:
            failing = r"0\.00  ragas\.faithfulness.*\n +- contradicted: "
            assert re.search(failing, shown[one.question]), one.id
        # Refusals have no faithfulness.
        outcome = results[one.id]["outcomes"][FAITHFUL]
        assert one.reference is not None or outcome["not_scored"] == "undefined", one.id
