"""The demo as a user starts it: a process of its own, without a key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Run:
    """A finished demo."""

    code: int
    out: str
    err: str
    folder: Path

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def results(self) -> dict[str, dict[str, Any]]:
        return {line["sample"]["question_id"]: line for line in self.lines("results.jsonl")}

    def faithfulness(self, one: Question) -> float | None:
        value: float | None = self.results()[one.id]["outcomes"][FAITHFUL].get("value")
        return value


def demo(folder: Path, *arguments: str) -> Run:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--output", str(folder), *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=2 * PATIENCE,
    )
    return Run(done.returncode, done.stdout, done.stderr, folder)


@pytest.fixture(
    scope="module",
    params=["langchain", pytest.param("llama-index", marks=pytest.mark.long)],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return demo(tmp_path_factory.mktemp("demo"), "--framework", request.param)


def test_demo_scores_every_question(run: Run) -> None:
    assert (run.code, run.err) == (0, "")
    results = run.results()
    assert results.keys() == {one.id for one in QUESTIONS}
    for one in QUESTIONS:
        assert results[one.id]["sample"].get("reference") == one.reference
        assert one.question in run.out


def test_demo_scores_planted_mistakes_below_quotations(run: Run) -> None:
    quoted = [run.faithfulness(one) for one in QUESTIONS if one.reference and not one.mistake]
    spoiled = [run.faithfulness(one) for one in QUESTIONS if one.mistake in UNFAITHFUL]
    # The judge may leave a claim undecided, such as an invented sentence.
    low = [value for value in spoiled if value is not None]
    assert len(low) >= 2
    assert max(low) < min(value for value in quoted if value is not None)


def test_demo_refusals_have_no_faithfulness(run: Run) -> None:
    for one in QUESTIONS:
        if one.reference is None:
            assert run.results()[one.id]["outcomes"][FAITHFUL]["not_scored"] == "undefined"


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
        root = roots[run.results()[one.id]["sample"]["span_id"]]
        told = {item["key"]: next(iter(item["value"].values())) for item in root["attributes"]}
        assert told.get(f"rag.eval.{FAITHFUL}.score") == run.faithfulness(one)
        assert re.fullmatch(r"[0-9a-f]{32}", root["traceId"])
        names = {s["name"].split()[0] for s in spans if s["traceId"] == root["traceId"]}
        assert names >= {"invoke_workflow", "retrieval", "chat"}
