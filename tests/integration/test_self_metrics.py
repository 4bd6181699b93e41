"""The package's own metrics agree with its statistics, through the real SDK."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from rag_eval_hooks import Sample
from rag_eval_hooks.findings import Findings
from rag_eval_hooks.judges import model_calls
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.sample import Context
from rag_eval_hooks.telemetry.telemetry import SpanHolder
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
    monkeypatch.setattr(model_calls, "MAX_FAILURES", 2)
    monkeypatch.setattr(model_calls, "FIRST_PAUSE", 2.0)

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


def test_waiting_work_is_reported_with_its_limits(open_world: OpenWorld) -> None:
    go = threading.Event()

    def wait(_task: object) -> Findings:
        go.wait(120)
        return FAITHFUL

    world = open_world(
        judge=ScriptedJudge(wait), judge_concurrency=1, queue_size=50, hold_timeout=60
    )
    evals, metrics = world.evals, world.metrics
    for number in range(4):
        record_request(evals, f"{number}")
    until(lambda: metrics.value("rag.eval.queue.size") == 3)
    assert metrics.value("rag.eval.queue.capacity") == 50
    assert metrics.value("rag.eval.held.size") == 4
    go.set()
    assert evals.flush(300)
    for name in ("queue.size", "held.size"):
        assert metrics.value(f"rag.eval.{name}") == 0


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
    evals.flush(300)
    assert metrics.by("rag.eval.decisions", "eval.reason") == {
        "rule:vip": 3,
        "ratio": 2,
        "sampled_out:rule:bot": 1,
        "sampled_out:rule:3": 1,
        "rate_limit": 3,
    }


def test_a_reading_that_fails_takes_no_other_with_it(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SpanHolder, "__len__", Mock(side_effect=RuntimeError))
    world = open_world(judge=faithful_judge())
    evals, metrics = world.evals, world.metrics
    assert not metrics.points("rag.eval.held.size")
    assert metrics.value("rag.eval.queue.size") == 0
    assert evals.stats().incidents["telemetry metrics: RuntimeError"] >= 1
