"""Exit, fork and threads, in processes of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.scripts import run_script

PRELUDE = """
import os, sys, threading, time
from opentelemetry import trace
from examples.demo.otlp_file import file_provider
from rag_eval_hooks import RagEval, RagEvalConfig, Sample
from tests.support.evaluation import FAITHFUL, faithful_judge, record_request
from rag_eval_hooks.testing import ScriptedJudge
provider = file_provider("traces.jsonl")
trace.set_tracer_provider(provider)

def make(latency, **config):
    return RagEval(metrics=["ragas.faithfulness"], judge=faithful_judge(latency=latency),
                   sinks=["jsonl:results.jsonl"], config=RagEvalConfig(**config))
"""


def run(folder: Path, script: str) -> None:
    run_script(folder, script, prelude=PRELUDE)


def results(folder: Path) -> list[dict[str, Any]]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rag_spans(folder: Path) -> list[dict[str, Any]]:
    found = []
    for line in (folder / "traces.jsonl").read_text().splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    if span["name"].startswith("invoke_workflow"):
                        attributes = {
                            a["key"]: next(iter(a["value"].values())) for a in span["attributes"]
                        }
                        found.append({"id": span["spanId"], **attributes})
    return found


def test_names_can_still_be_resolved_at_exit(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
        import asyncio
        class Resolving(ScriptedJudge):
            async def make(self, *call):
                await asyncio.sleep(0.3)
                await asyncio.get_running_loop().getaddrinfo("localhost", 80)
                return await super().make(*call)
        evals = RagEval(metrics=["ragas.faithfulness"], judge=Resolving(FAITHFUL),
                        sinks=["jsonl:results.jsonl"], exit_timeout=60)
        record_request(evals, "1")
        """,
    )
    assert results(tmp_path)[0]["outcomes"]["ragas.faithfulness"]["value"] == 1.0


def test_a_stuck_judge_delays_exit_by_no_more_than_the_limit(tmp_path: Path) -> None:
    script = "evals = make(600, exit_timeout=0.5, hold_timeout=60)\nrecord_request(evals, '1')"
    run(tmp_path, script)
    assert [span["rag.eval.status"] for span in rag_spans(tmp_path)] == ["shutdown"]


def test_a_hanging_sink_does_not_keep_the_process(tmp_path: Path) -> None:
    script = """
    reached = threading.Event()

    def hang(sample, outcomes):
        reached.set()
        time.sleep(600)

    evals = RagEval(metrics=["ragas.faithfulness"], judge=faithful_judge(), sinks=[hang],
                    config=RagEvalConfig(exit_timeout=0.5))
    record_request(evals, "1")
    assert reached.wait(60)
    """
    run(tmp_path, script)
    assert [span["rag.eval.status"] for span in rag_spans(tmp_path)] == ["ok"]
