"""Runs `rag-eval-hooks doctor` in a folder, and makes what it finds there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rag_eval_hooks import JsonlSink, RagEval, Sample
from rag_eval_hooks.delivery.codec import sample_to_text
from rag_eval_hooks.delivery.outbox import Job, Outbox
from rag_eval_hooks.delivery.outbox_file import EVALUATE
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Context
from rag_eval_hooks.testing import ScriptedJudge
from tests.servers.judge_server import JudgeServer
from tests.support.command_line import run_command

KEY = "sk-canary-0123456789abcdef"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def doctor(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    done = run_command(
        folder,
        "doctor",
        "--timeout",
        "30",
        *arguments,
        variables={"HF_HUB_OFFLINE": "1", **variables},
    )
    assert "Traceback" not in done.err
    assert KEY not in done.out + done.err
    return done.code, done.out + done.err


def results(folder: Path, *arguments: str, **variables: str) -> tuple[int, dict[str, Any]]:
    code, text = doctor(folder, "--json", *arguments, **variables)
    document = json.loads(text)
    assert document["ok"] == (code == 0)
    return code, {row["check"]: row for row in document["results"]}


def openai(server: JudgeServer, **changes: str) -> dict[str, str]:
    return {
        "RAG_EVAL_JUDGE": "openai:good",
        "RAG_EVAL_JUDGE_BASE_URL": server.url,
        "RAG_EVAL_JUDGE_API_KEY": KEY,
        "RAG_EVAL_EMBEDDER": "none",
        **changes,
    }


def in_a_spool(folder: Path, **told: Any) -> tuple[Sample, Outbox]:
    """A sample in a spool whose process lives."""
    sample = Sample(question="q", contexts=(Context(text="c"),), answer="a", **told)
    outbox = Outbox(folder, max_bytes=1_000_000_000, incidents=Incidents())
    outbox.start()
    outbox.put(Job(EVALUATE, sample, lambda: sample_to_text(sample, 0.25, "rule:vip")))
    assert outbox.drain(60)
    return sample, outbox


def left_in_a_spool(folder: Path, **told: Any) -> Sample:
    """A sample that its process left behind."""
    sample, outbox = in_a_spool(folder, **told)
    outbox.close(60)
    return sample


def offered(path: Path, judge_: ScriptedJudge, *samples: Sample) -> RagEval:
    evals = RagEval(["ragas.faithfulness"], judge_, sinks=[JsonlSink(path)])
    for sample in samples:
        evals.offer(sample)
    evals.shutdown()
    return evals
