"""Data sets evaluated from the command line: resumed after kills, paid for once, captured alike."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import RagEval
from rag_eval_hooks.datasets.data_rows import ROW_KEY, data_rows
from rag_eval_hooks.results import read, to_frame
from tests.support.command_line import Finished, run_command
from tests.support.scripts import environment
from tests.support.servers.brain import truthful_reply
from tests.support.servers.judge_server import JudgeServer
from tests.support.size import size
from tests.waiting import until

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
COMMAND = (sys.executable, "-m", "rag_eval_hooks.cli.main", "evaluate")


def data(folder: Path, rows: int) -> Path:
    path = folder / "d.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            row = {
                "question": f"When does ferry {number} leave?",
                "contexts": [f"Ferry {number} leaves at 06:{number % 60:02}.", "Dogs travel free."],
                "answer": f"Ferry {number} leaves at 06:{number % 60:02}.",
                "reference": f"At 06:{number % 60:02}.",
                "method": ("local", "basic")[number % 2],
            }
            file.write(json.dumps(row) + "\n")
    return path


def evaluate(folder: Path, path: Path, *arguments: str, **variables: str) -> Finished:
    return run_command(folder, "evaluate", str(path), *arguments, variables=variables)


def judged_by(server: JudgeServer, **more: str) -> dict[str, str]:
    return {
        "RAG_EVAL_JUDGE": "openai:test-model",
        "RAG_EVAL_JUDGE_BASE_URL": server.url,
        "RAG_EVAL_EMBEDDER": "none",
        **more,
    }


def rows_in(path: Path) -> Counter[str]:
    return Counter(str(row.sample.metadata[ROW_KEY]).split("-")[0] for row in read(path))


def test_every_row_is_evaluated_as_inline(tmp_path: Path) -> None:
    path = data(tmp_path, 40)
    done = evaluate(tmp_path, path, "--metrics", "lexical,ragas")
    assert done.code == 3
    assert "40 rows were evaluated" in done.out
    results = {row.sample.question: row for row in read(tmp_path / "d.results.jsonl")}
    assert len(results) == 40
    with RagEval(["lexical", "ragas"]) as evals:
        for row in data_rows(path):
            assert row.sample is not None
            assert dict(results[row.sample.question].outcomes) == dict(evals.evaluate(row.sample))


def test_gate_sets_the_exit_code_of_an_evaluation(tmp_path: Path) -> None:
    gate = ("--fail-on", "lexical.exact_match<0.9")
    done = evaluate(tmp_path, data(tmp_path, 40), "--metrics", "lexical.exact_match", *gate)
    assert done.code == 1, done.err
    assert "FAILED lexical.exact_match<0.9: the mean" in done.out + done.err
    assert (tmp_path / "d.results.jsonl").exists()


def test_a_killed_run_resumes(tmp_path: Path) -> None:
    """After kills at any moment each row is there once, and no reply that came is paid for again.

    With one call at a time, at most the call that SIGKILL cut off is made again.
    """
    chance, number = random.Random(f"{SEED} killed"), size(30, 120)
    path, signs = data(tmp_path, number), size(1, 20) * [signal.SIGKILL, signal.SIGINT]
    output = tmp_path / "d.results.jsonl"
    with JudgeServer() as server:
        given = judged_by(server, RAG_EVAL_JUDGE_CONCURRENCY="1")
        options = ("--metrics", "ragas.faithfulness")
        command, variables = (*COMMAND, str(path), *options), environment(**given)
        sent = []
        for sign in signs:
            before = len(server.calls())
            process = subprocess.Popen(command, env=variables, cwd=tmp_path)
            target = before + chance.randint(1, max(2, 2 * number // len(signs) - 2))
            _await_calls(server, target, process)
            if process.poll() is None:
                process.send_signal(sign)
                sent.append(sign)
            process.wait()
        assert evaluate(tmp_path, path, *options, **given).code == 0
        prompts = Counter(json.dumps(call.body["messages"]) for call in server.calls())
    assert set(sent) == set(signs)
    assert rows_in(output) == Counter({str(n): 1 for n in range(number)})
    assert sum(prompts.values()) - len(prompts) <= sent.count(signal.SIGKILL)


def test_failed_rows_are_tried_again(tmp_path: Path) -> None:
    chance, number = random.Random(f"{SEED} failed"), 16
    path, broken = data(tmp_path, number), set(chance.sample(range(number), 5))
    output = tmp_path / "d.results.jsonl"

    def half_broken(body: Mapping[str, Any]) -> str:
        text = json.dumps(body["messages"])
        if any(f"ferry {row} leave?" in text for row in broken):
            return "no reply of this form"
        return json.dumps(truthful_reply(body))

    command = ("--metrics", "ragas.faithfulness")
    with JudgeServer(replies=half_broken) as server:
        first = evaluate(tmp_path, path, *command, **judged_by(server))
    assert first.code == 1
    assert "5 rows lack a score, because a metric failed" in first.out
    assert sum("ragas.faithfulness" not in row.scores for row in read(output)) == 5
    with JudgeServer() as server:
        assert evaluate(tmp_path, path, *command, **judged_by(server)).code == 0
        asked = json.dumps([call.body["messages"] for call in server.calls()])
        again = {row for row in range(number) if f"ferry {row} leave?" in asked}
        assert again == broken
    assert rows_in(output) == Counter({str(n): 1 for n in range(number)})
    assert all("ragas.faithfulness" in row.scores for row in read(output))


def _await_calls(server: JudgeServer, target: int, process: subprocess.Popen[bytes]) -> None:
    until(lambda: len(server.calls()) >= target or process.poll() is not None)


CHAIN = """
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

class Ferries(BaseRetriever):
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"About {query} the ferry leaves at 06:40.")]

prompt = ChatPromptTemplate.from_template("{context} Question: {question}")
chain = (
    {"context": Ferries(), "question": RunnablePassthrough()}
    | prompt | FakeListChatModel(responses=["It leaves at 06:40."])
)
def broken(question):
    raise LookupError("no index")
def silent(question):
    Ferries().invoke(question)
"""


def test_a_chain_is_asked_and_captured(tmp_path: Path) -> None:
    pytest.importorskip("langchain_core")
    path = data(tmp_path, 12)
    (tmp_path / "ferry_app.py").write_text(CHAIN)
    done = evaluate(tmp_path, path, "--chain", "ferry_app:chain", "--metrics", "lexical")
    assert done.code == 0, done.err
    rows = list(read(tmp_path / "d.results.jsonl"))
    assert rows_in(tmp_path / "d.results.jsonl") == Counter({str(n): 1 for n in range(12)})
    for row in rows:
        assert row.sample.answer == "It leaves at 06:40."
        assert row.sample.contexts is not None
        assert row.sample.question in row.sample.contexts[0].text
        assert row.sample.reference is not None
    assert len(to_frame(rows)) == 12
    broken = evaluate(tmp_path, path, "-o", "b.jsonl", "--chain", "ferry_app:broken")
    assert broken.code == 1
    assert "12 rows failed" in broken.out
    assert "ferry_app.py:18: no index" in broken.err
    for _ in range(2):
        silent = evaluate(tmp_path, path, "-o", "s.jsonl", "--chain", "ferry_app:silent")
        assert silent.code == 1
        assert "12 rows have no answer: ferry_app:silent returned None" in silent.err
