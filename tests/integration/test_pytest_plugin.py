"""The pytest plugin as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rag_eval_hooks.results import read
from tests.support.optional import require
from tests.support.scripts import environment
from tests.support.size import size

require("jinja2")

TESTS = """
import pytest
from rag_eval_hooks import Sample

CHUNKS = ("The first ferry leaves at 06:40 from pier two.", "Dogs travel free of charge.")

def sample(answer, reference="The first ferry leaves at 06:40."):
    return Sample(
        question="When does the first ferry leave?", contexts=CHUNKS, answer=answer,
        reference=reference,
    )

def test_right(rag_eval):
    outcomes = rag_eval.assert_scores(
        sample("The first ferry leaves at 06:40."), faithfulness=0.9, noise_sensitivity=0.1
    )
    assert outcomes["ragas.faithfulness"].value == 1.0

def test_wrong(rag_eval):
    wrong = sample("The first ferry leaves at 09:15 from pier two.")
    rag_eval.assert_scores(wrong, faithfulness=0.8)

def test_refusal(rag_eval):
    one = sample("I do not know.")
    mapping = {"question": one.question, "contexts": list(CHUNKS), "answer": one.answer}
    rag_eval.assert_scores(mapping, faithfulness=0.8)

def test_name(rag_eval):
    rag_eval.assert_scores(sample("At 06:40."), faithful=0.8)
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_ferry.py").write_text(TESTS)
    plugins = (
        "-p",
        "rag_eval_hooks_pytest",
        *(("-p", "xdist.plugin") if "-n" in arguments else ()),
    )
    command = (sys.executable, "-m", "pytest", *plugins, "-q")
    return subprocess.run(
        (*command, "-p", "no:cacheprovider", *arguments, "."),
        # Other plugins that are installed take seconds to import.
        env=environment(RAG_EVAL_METRICS="ragas,lexical", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", size("1", "2")])
def test_a_failure_says_claim_verdict_and_reason(tmp_path: Path, workers: str) -> None:
    report = ("--rag-eval-report", "out/report.html", "--junitxml", "junit.xml")
    done = run_pytest(tmp_path, "-n", workers, *report)
    text = done.stdout + done.stderr
    assert "3 failed, 1 passed" in text
    assert "ragas.faithfulness is 0, but must be at least 0.8" in text
    assert "claims: 0 of 1 are supported" in text
    assert "09:15" in text
    assert "ragas.faithfulness has no score: undefined" in text
    assert "assert_scores is 'faithful'" in text
    assert "out/report.html: 4 samples" in text
    assert len(list(read(tmp_path / "out" / "report.html.jsonl"))) == 4
    assert (tmp_path / "junit.xml").read_text("utf-8").count("<failure") == 3
    assert (tmp_path / "out" / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_without_the_option_nothing_is_written(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--strict-markers", "-m", "not rag_eval")
    assert "4 deselected" in done.stdout
    assert not list(tmp_path.glob("*.jsonl"))
    probe = "import sys, rag_eval_hooks_pytest; print('rag_eval_hooks' in sys.modules)"
    done = subprocess.run(
        (sys.executable, "-c", probe), env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
