"""Every example runs as a user runs it, and shows what it promises: printed, and in Jaeger."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.servers.brokers import REDIS, RedisServer
from tests.servers.judge_server import JudgeServer
from tests.support.command_line import run_command
from tests.support.fleet import WorkerProcess
from tests.support.scripts import run_script
from tests.viewers.genai_tab import headline, problems
from tests.viewers.jaeger import JaegerSpan, jaeger_spans, warnings_of

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    # The first of the answer's two claims stands in the passages, the second does not.
    "langchain_quickstart.py": r"0\.50  ragas\.faithfulness",
    # The tool's artifact holds one passage, with another time than the agent's.
    "langgraph_agent.py": r"0\.00  ragas\.faithfulness(.|\n)*'08:40' where a chunk says '07:40'",
    # Both answers are passages word for word.
    "without_framework.py": r"ferry(.*)faithfulness 1\.0\n(.*)ticket(.*)faithfulness 1\.0",
    "llama_index_quickstart.py": r"0\.50  ragas\.faithfulness",
    # The agent gives a time that the passage does not have.
    "llama_index_agent.py": r"contexts: \['h1'\](.|\n)*faithfulness: 0\.0",
    # The second sentence names no source.
    "own_metric.py": r"own\.cites_a_source +0\.50",
    # One of two relevant passages comes second; the second claim cites it, and is of the other.
    "known_passages.py": r"0\.50  retrieval\.recall\n0\.50  retrieval\.mrr\n0\.50  rag\.citation",
    "own_criterion.py": r"not met: Three months\. (.*)\nmet: Three months, to the end",
    "alerts.py": r"30 requests of workflow (.*): ragas\.faithfulness<0\.8: the mean is 0\.333",
}
TRACED = """
import runpy, sys
sys.path.append(sys.argv[2])
from opentelemetry import trace
from examples.demo.otlp_file import file_provider
trace.set_tracer_provider(file_provider("traces.jsonl"))
runpy.run_path(sys.argv[1], run_name="__main__")
"""
SCRIPTS = pytest.mark.parametrize(
    "script", [EXAMPLES / name for name in EXPECTED], ids=lambda path: str(path.name)
)


def run(script: Path, folder: Path, **variables: str) -> list[list[JaegerSpan]]:
    """Run an example in an application that has tracing, and return its traces."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED, str(script), str(EXAMPLES.parent)],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(EXPECTED[script.name], done.stdout), done.stdout
    lines = (folder / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    spans = sorted(jaeger_spans(map(json.loads, lines)), key=lambda span: span.trace_id)
    return [list(trace) for _, trace in groupby(spans, key=lambda span: span.trace_id)]


@SCRIPTS
def test_example(script: Path, tmp_path: Path) -> None:
    """An example ends well, writes nothing to standard error, and prints its score.

    Jaeger can show each of its spans, and on the first click question, answer, score and reason.
    """
    traces = run(script, tmp_path, RAG_EVAL_CAPTURE_CONTENT="true")
    assert traces
    for trace in traces:
        assert warnings_of(trace) == []
        assert [text for span in trace for text in problems(span.operation, span.tags)] == []
        (root,) = [span for span in trace if span.parent is None]
        assert {"gen_ai.input.messages", "gen_ai.output.messages"} <= root.tags.keys()
        assert {"name", "score.value", "explanation"} <= headline(root.tags).keys()


def test_a_judge_of_ones_own_is_asked(tmp_path: Path) -> None:
    """`own_judge` scores by the replies of the model that its function asks."""
    with JudgeServer() as judge:
        code = (EXAMPLES / "own_judge.py").read_text(encoding="utf-8")
        printed = run_script(tmp_path, code, OPENAI_BASE_URL=judge.url, OPENAI_API_KEY="none")
        assert judge.calls()
    assert printed.startswith("faithfulness 0.50")


def test_a_gate_fails_the_build_of_a_bad_pipeline(tmp_path: Path) -> None:
    """`dataset_gate` ends as its commands say: a mean below the gate is exit code 1."""
    for name in ("dataset_gate.py", "questions.csv"):
        shutil.copy(EXAMPLES / name, tmp_path)
    ask = "evaluate questions.csv --chain dataset_gate:chain -o new.jsonl"
    assert run_command(tmp_path, *ask.split(), variables={}).code == 0
    shutil.copy(tmp_path / "new.jsonl", tmp_path / "base.jsonl")
    gate = ("compare", "base.jsonl", "new.jsonl", "--fail-on-point")
    assert run_command(tmp_path, *gate, "ragas.faithfulness<0.8", variables={}).code == 1
    assert run_command(tmp_path, *gate, "ragas.faithfulness<0.4", variables={}).code == 0


def test_a_service_answers_and_its_answers_are_scored(tmp_path: Path) -> None:
    """`fastapi_service` answers over HTTP, and what it was asked is scored when it ends."""
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
def test_a_worker_judges_what_an_application_ships(tmp_path: Path, redis: RedisServer) -> None:
    """`celery_fleet` ships its sample, and the worker's score comes back to it."""
    pytest.importorskip("celery")
    code = (EXAMPLES / "celery_fleet.py").read_text(encoding="utf-8")
    with WorkerProcess(tmp_path, redis.url):
        assert "scored=1" in run_script(tmp_path, code, RAG_EVAL_BROKER=redis.url)


def test_the_cells_of_the_notebook_run(tmp_path: Path) -> None:
    """`notebook` runs from its first cell to its last; it is kept without output."""
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    printed = run_script(tmp_path, "\n".join("".join(cell["source"]) for cell in code))
    assert re.search(r"^0\.00 contradicted\n", printed)
    assert re.search(r"^ragas\.faithfulness +0\.20 ", printed, re.M)
