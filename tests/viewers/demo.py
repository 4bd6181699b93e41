"""One run of the demo, and what it says of its own scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_eval_hooks import Sample
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Outcomes, Score, outcome_from_dict
from tests.viewers.processes import ROOT

COMMAND = (sys.executable, "-m", "examples.demo")


@dataclass(frozen=True)
class Scored:
    """One sample of the demo, as its results file tells it."""

    sample: Mapping[str, Any]
    outcomes: Mapping[str, Mapping[str, Any]]

    @property
    def scores(self) -> dict[str, float]:
        return {name: one["value"] for name, one in self.outcomes.items() if "value" in one}

    @property
    def span_id(self) -> str:
        return str(self.sample["span_id"])

    @property
    def trace_id(self) -> str:
        return str(self.sample["trace_id"])

    @property
    def status(self) -> str:
        """What the RAG span says: whether a metric failed or could not be decided."""
        outcomes = {name: outcome_from_dict(one) for name, one in self.outcomes.items()}
        sample = Sample.from_dict(self.sample)
        done = Evaluation(sample=sample, outcomes=outcomes, probability=None, start=0, end=0)
        return str(done.status)

    def failing_claim(self) -> str | None:
        """A claim of the answer that no context supports."""
        if "ragas.faithfulness" not in self.scores:
            return None
        claims = self.outcomes["ragas.faithfulness"].get("explanation", {}).get("claims", ())
        return next((one["claim"] for one in claims if not one["supported"]), None)

    def again(self) -> tuple[Sample, Outcomes]:
        """The sample and its outcomes, to be delivered a second time."""
        outcomes = {name: outcome_from_dict(one) for name, one in self.outcomes.items()}
        return Sample.from_dict(self.sample), {
            name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Score)
        }


def variables(**given: str) -> dict[str, str]:
    """Return an environment without settings of the machine's own."""
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_")
    return {k: v for k, v in os.environ.items() if not k.startswith(hidden)} | given


def run_demo(folder: Path, *arguments: str, **given: str) -> list[Scored]:
    """Runs the demo in a folder, as a user would, and reads its results."""
    done = subprocess.run(
        [*COMMAND, "--output", str(folder / "demo-output"), *arguments],
        cwd=ROOT,
        env=variables(**given),
        capture_output=True,
        encoding="utf-8",
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return results(folder)


def results(folder: Path) -> list[Scored]:
    """Return the results of a demo that ran in a folder."""
    lines = (folder / "demo-output" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return [Scored(line["sample"], line["outcomes"]) for line in read]
