"""The demo as a user starts it: a process of its own, without a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("examples.demo.handbook", reason="not in a source tree")

from examples.demo.handbook import QUESTIONS, Question
from tests.support.scripts import environment
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
FAITHFUL = "ragas.faithfulness"
UNFAITHFUL = ("number", "invented", "negated")


class Run:
    """A finished demo."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "examples.demo", "--output", str(folder), *arguments]
        more: dict[str, Any] = {"cwd": ROOT, "env": environment(), "encoding": "utf-8"}
        self.done = subprocess.run(command, capture_output=True, timeout=2 * PATIENCE, **more)
        self.folder = folder
        self.results = {one["sample"]["question_id"]: one for one in self.lines("results.jsonl")}

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def faithfulness(self, one: Question) -> Any:
        return self.results[one.id]["outcomes"][FAITHFUL].get("value")


@pytest.fixture(
    scope="module",
    params=["langchain", pytest.param("llama-index", marks=pytest.mark.long)],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("demo"), "--framework", request.param)


def test_demo_scores_every_question(run: Run) -> None:
    assert (run.done.returncode, run.done.stderr) == (0, "")
    assert run.results.keys() == {one.id for one in QUESTIONS}
    for one in QUESTIONS:
        assert run.results[one.id]["sample"].get("reference") == one.reference
        assert one.question in run.done.stdout


def test_demo_scores_planted_mistakes_below_quotations(run: Run) -> None:
    """The judge may leave a claim undecided; refusals have no faithfulness."""
    quoted = [run.faithfulness(one) for one in QUESTIONS if one.reference and not one.mistake]
    spoiled = [run.faithfulness(one) for one in QUESTIONS if one.mistake in UNFAITHFUL]
    low = [value for value in spoiled if value is not None]
    assert len(low) >= 2
    assert max(low) < min(value for value in quoted if value is not None)
    for one in QUESTIONS:
        outcome = run.results[one.id]["outcomes"][FAITHFUL]
        assert one.reference is not None or outcome["not_scored"] == "undefined"


def test_demo_prints_a_failing_claim_first_and_no_score_for_a_refusal(run: Run) -> None:
    """The metrics of the first answer that fails begin with its faithfulness and the claim."""
    shown = {part.partition("\n")[0]: part for part in run.done.stdout.split("Question: ")[1:]}
    for one in QUESTIONS:
        told = shown[one.question]
        names = re.findall(r"(?:\d\.\d\d|-)  (\S+)", told)
        if run.faithfulness(one) == 0.0:
            assert re.search(r"0\.00  ragas\.faithfulness.*\n +- contradicted: ", told)
        assert names[:1] == [FAITHFUL] or one.reference is None
        assert one.reference is not None or "0.00" not in told.partition("\n\n")[0]
    (metrics,) = {tuple(sorted(result["outcomes"])) for result in run.results.values()}
    assert metrics[0] == FAITHFUL


def test_demo_lets_only_the_owner_read_its_files(run: Run) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.folder.iterdir()}
    assert modes == {"traces.jsonl": 0o600, "results.jsonl": 0o600}


def test_demo_puts_scores_on_the_rag_span_of_each_trace(run: Run) -> None:
    spans = [
        span
        for line in run.lines("traces.jsonl")
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if not span["name"].startswith("evaluation ")
    ]
    roots = {span["spanId"]: span for span in spans if not span.get("parentSpanId")}
    assert len(roots) == len(QUESTIONS)
    for one in QUESTIONS:
        root = roots[run.results[one.id]["sample"]["span_id"]]
        told = {item["key"]: next(iter(item["value"].values())) for item in root["attributes"]}
        assert told.get(f"rag.eval.{FAITHFUL}.score") == run.faithfulness(one)
        assert re.fullmatch(r"[0-9a-f]{32}", root["traceId"])
        names = {s["name"].split()[0] for s in spans if s["traceId"] == root["traceId"]}
        assert names >= {"invoke_workflow", "retrieval", "chat"}
