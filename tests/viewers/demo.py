"""One run of the demo, and what it says of its own scores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rag_eval_hooks import Sample
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.score import Score, outcome_from_dict
from tests.support.delivery import Dispatched
from tests.support.results import evaluation
from tests.viewers.processes import ROOT

COMMAND = (sys.executable, "-m", "examples.demo")


@dataclass(frozen=True)
class Scored:
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

    def failing_claim(self) -> str | None:
        if "ragas.faithfulness" not in self.scores:
            return None
        claims = self.outcomes["ragas.faithfulness"].get("explanation", {}).get("claims", ())
        return next((one["claim"] for one in claims if not one["supported"]), None)

    def redeliver(self, sink: PlatformSink, *, value: float | None = None) -> None:
        read = {name: outcome_from_dict(one) for name, one in self.outcomes.items()}
        outcomes = {name: one for name, one in read.items() if isinstance(one, Score)}
        if value is not None:
            faithful = outcomes["ragas.faithfulness"]
            outcomes["ragas.faithfulness"] = replace(faithful, value=value)
        now, sample = time.time_ns(), Sample.from_dict(self.sample)
        dispatched = Dispatched(sink, SINK_SECONDS=10.0, capture_content=True)
        dispatched.put(evaluation(sample, outcomes, start=now))
        assert dispatched.dispatch.flush(300)
        dispatched.close()
        assert not dispatched.counts()


def variables(**given: str) -> dict[str, str]:
    hidden = ("RAG_EVAL_", "OPENAI_", "OTEL_")
    return {k: v for k, v in os.environ.items() if not k.startswith(hidden)} | given


def run_demo(folder: Path, *arguments: str, **given: str) -> list[Scored]:
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
    lines = (folder / "demo-output" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    return [Scored(line["sample"], line["outcomes"]) for line in read]
