"""Judges that are busy, slow or dead, over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from rag_eval_hooks import NotScored, RagEval, RagEvalConfig, Sample, Score
from rag_eval_hooks.judges import Judge
from rag_eval_hooks.judges.callable_judge import CallableJudge, Messages
from rag_eval_hooks.judges.calls import limits
from rag_eval_hooks.judges.memo import Memo
from rag_eval_hooks.judges.openai import OpenAIJudge
from rag_eval_hooks.score import Cause
from tests.servers.faults import Fault, FaultKind
from tests.servers.judge_server import JudgeServer

METRIC = "ragas.faithfulness"


def sample(number: int) -> Sample:
    return Sample(
        question=f"When was quay {number} opened?",
        contexts=("The quay opened in 1931. It has two berths.",),  # type: ignore[arg-type]
        answer=f"Quay {number} opened in 1931.",
    )


def by_openai(server: JudgeServer, **options: Any) -> Judge:
    retries = options.pop("retries", 0)
    return OpenAIJudge("m", base_url=server.url, api_key="k", retries=retries, **options)


def by_function(server: JudgeServer, **options: Any) -> Judge:
    async def ask(messages: Messages) -> str:
        async with httpx.AsyncClient() as client:
            reply = await client.post(
                f"{server.url}/chat/completions", json={"model": "m", "messages": messages}
            )
            reply.raise_for_status()
            return str(reply.json()["choices"][0]["message"]["content"])

    return CallableJudge(ask, **options)


JUDGES = [by_openai, by_function]
Make = Callable[..., Judge]


def evaluated(judge: Judge, count: int = 20, **config: Any) -> tuple[RagEval, Mapping[str, int]]:
    evals = RagEval(metrics=[METRIC], judge=judge, embedder="none", config=RagEvalConfig(**config))
    for number in range(count):
        assert evals.submit(sample(number))
    assert evals.flush(300)
    return evals, evals.stats().failed


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_FAILURES", 4)
    monkeypatch.setattr(limits, "FIRST_PAUSE", 0.3)


@pytest.mark.parametrize("make", JUDGES)
def test_a_dead_judge_costs_nothing_but_failed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_PAUSE", 60.0)
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        evals, failed = evaluated(make(server, concurrency=4), 100)
        assert len(server.calls()) <= 8
        assert failed[Cause.JUDGE_UNAVAILABLE] >= 90
        stats = evals.stats()
        assert stats.offered == 100 == sum(failed.values())
        evals.shutdown(1)


@pytest.mark.parametrize("make", JUDGES)
def test_a_judge_that_comes_back_is_asked_again(make: Make) -> None:
    with JudgeServer(faults=[Fault(kind=FaultKind.SERVER_ERROR)]) as server:
        evals, failed = evaluated(make(server, concurrency=4))
        assert failed[Cause.JUDGE_UNAVAILABLE] > 0
        server.faults.clear()
        scored = threading.Event()
        for number in range(100):
            scored.wait(0.05)
            if isinstance(evals.evaluate(sample(number))[METRIC], Score):
                scored.set()
                break
        assert scored.is_set()
        assert isinstance(evals.evaluate(sample(500))[METRIC], Score)
        evals.shutdown(1)


def test_a_judge_with_a_limit_is_not_overrun() -> None:
    with JudgeServer(latency=0.01) as server:
        judge = OpenAIJudge(
            "m", base_url=server.url, api_key="k", concurrency=16, retries=12, memo=Memo()
        )
        server.faults.append(
            # Every second call of the first sixty is one too many.
            Fault(kind=FaultKind.RATE_LIMIT, calls=frozenset(range(1, 60, 2)), retry_after="0.05")
        )
        evals, failed = evaluated(judge, 40)
        assert not failed
        assert evals.stats().scored == 40
        evals.shutdown(1)


def test_calls_cut_short_by_the_samples_time_are_paid_for() -> None:
    faults = [Fault(kind=FaultKind.HANG, calls=frozenset({2}))]
    with JudgeServer(faults=faults) as server:
        judge = OpenAIJudge("m", base_url=server.url, api_key="k", memo=Memo())
        evals = RagEval(
            metrics=[METRIC],
            judge=judge,
            embedder="none",
            config=RagEvalConfig(sample_timeout=5.0),
        )
        outcome = evals.evaluate(sample(1))[METRIC]
        evals.shutdown(1)
    assert isinstance(outcome, NotScored)
    assert outcome.cause is Cause.TIMEOUT
    assert outcome.usage.calls == pytest.approx(2)
    assert outcome.usage.input_tokens > 0
