"""The package's own metrics agree with its statistics, through the real SDK."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import Sample
from rag_eval_hooks.capture import Recorder, RunKind
from rag_eval_hooks.config import limits
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges.calls import call_limits
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.sample import Context
from rag_eval_hooks.testing import ScriptedJudge
from tests.support.evaluation import FAITHFUL, faithful_judge, record_request
from tests.support.servers.faults import Fault, FaultKind
from tests.support.servers.judge_server import JudgeServer
from tests.support.telemetry_world import OpenWorld
from tests.waiting import until

SMALL: dict[str, Any] = {"embedder": "none", "JUDGE_RETRIES": 0}


def ships(answer: str = "Ships leave at noon.") -> Sample:
    contexts = (Context(text="Ships leave at noon."),)
    return Sample(question="When do ships leave?", contexts=contexts, answer=answer)


def test_a_time_out_and_a_sample_out_of_time_are_told_apart(open_world: OpenWorld) -> None:
    told: dict[Any, float] = {}
    with JudgeServer(latency=60) as server:
        at = {"judge_base_url": server.url, "judge_api_key": "k", **SMALL}
        # Long enough for its first request to be sent.
        for judge, limit in (("m", {"judge_timeout": 0.2}), ("n", {"sample_timeout": 4.0})):
            world = open_world(judge=f"openai:{judge}", **at, **limit)
            world.evals.evaluate(ships())
            told |= world.metrics.by("rag.eval.judge.calls", "judge.name", "judge.outcome")
    assert told == {("openai:m", "timeout"): 1, ("openai:n", "cancelled"): 1}


def test_the_breaker_is_seen_in_each_state(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_limits, "MAX_FAILURES", 2)
    monkeypatch.setattr(call_limits, "FIRST_PAUSE", 2.0)

    def states() -> Mapping[str, float]:
        return world.metrics.by("rag.eval.judge.breakers", "breaker.state")

    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", retries=0)
        world = open_world(judge=judge, **SMALL)
        evals = world.evals
        evals.evaluate(ships())
        until(lambda: states() == {"closed": 1, "open": 0, "half_open": 0})
        evals.evaluate(ships())
        until(lambda: states() == {"closed": 0, "open": 1, "half_open": 0})
        until(lambda: states() == {"closed": 0, "open": 0, "half_open": 1})
        server.faults.clear()
        evals.evaluate(ships())
        until(lambda: states() == {"closed": 1, "open": 0, "half_open": 0})


def test_waiting_work_is_reported_with_its_limits(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def wait(_task: object) -> Findings:
        go.wait(120)
        return FAITHFUL

    monkeypatch.setattr(limits, "HELD_SPANS", 20)
    world = open_world(
        judge=ScriptedJudge(wait),
        judge_concurrency=1,
        queue_size=50,
        hold_timeout=60,
        spool=str(tmp_path / "spool.db"),
        SPOOL_BYTES=7_000_000,
    )
    evals, metrics = world.evals, world.metrics
    for number in range(4):
        record_request(evals, f"{number}")
    root = evals.recorder.start("open", None, RunKind.CHAIN, "help")
    assert root is not None
    evals.recorder.documents(root, [Context(text="ten chars.")])
    until(lambda: metrics.value("rag.eval.queue.size") == 3)
    until(lambda: metrics.points("rag.eval.spool.size") != [])
    until(lambda: metrics.value("rag.eval.spool.size") == 4)
    levels = {
        "queue.capacity": 50,
        "queue.text": 3 * len("qaa chunk"),
        "held.size": 4,
        "held.capacity": 20,
        "interactions.size": 1,
        "interactions.capacity": 10_000,
        "interactions.text": 10,
        "spool.limit": 7_000_000,
    }
    assert {name: metrics.value(f"rag.eval.{name}") for name in levels} == levels
    assert 4096 <= metrics.value("rag.eval.spool.usage") < 1_000_000
    go.set()
    assert evals.flush(300)
    for name in ("queue.size", "queue.text", "held.size"):
        assert metrics.value(f"rag.eval.{name}") == 0
    until(lambda: metrics.value("rag.eval.spool.size") == 0)


def test_decisions_are_told_with_their_reason(open_world: OpenWorld) -> None:
    world = open_world(
        judge=faithful_judge(),
        rules=[
            {"tags": ["vip"], "rate": 1.0, "name": "vip"},
            {"tags": ["bot"], "rate": 0.0, "name": "bot"},
            {"tags": ["none"], "rate": 0.0},
        ],
        rate_limit={"minute": 2},
    )
    evals, metrics = world.evals, world.metrics
    for tag in ("vip", "vip", "vip", "bot", "none", "", ""):
        told = ships()
        evals.submit(Sample(**{**told.to_dict(), "tags": (tag,) if tag else ()}))
    evals.feedback("unknown", score=1)
    evals.flush(300)
    assert metrics.by("rag.eval.decisions", "eval.decision", "eval.reason") == {
        ("sampled", "rule:vip"): 3,
        ("sampled", "ratio"): 2,
        ("sampled_out", "rule:bot"): 1,
        ("sampled_out", "rule:3"): 1,
        ("refused", "rate_limit"): 3,
    }
    assert metrics.by("rag.eval.feedback", "outcome") == {"alone": 1}


def test_a_reading_that_fails_takes_no_other_with_it(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Recorder) -> tuple[int, int]:
        raise RuntimeError

    monkeypatch.setattr(Recorder, "opened", fail)
    world = open_world(judge=faithful_judge())
    evals, metrics = world.evals, world.metrics
    assert not metrics.points("rag.eval.interactions.size")
    assert metrics.value("rag.eval.queue.size") == 0
    assert metrics.by("rag.eval.incidents", "incident")["telemetry metrics: RuntimeError"] >= 1
    assert evals.stats().incidents["telemetry metrics: RuntimeError"] >= 1
