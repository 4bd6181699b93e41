"""A budget is never passed by more than the calls in flight, and leaves whole samples unscored."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import ConfigError, RagEval, RagEvalConfig
from rag_eval_hooks.calls import Caller
from rag_eval_hooks.errors import BudgetError, JudgeError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.calls.budget import Budget, Reservation, budget_of
from rag_eval_hooks.judges.calls.context import Meter, ModelCalls, in_call_context
from rag_eval_hooks.judges.calls.limits import CallLimits
from rag_eval_hooks.judges.heuristic import HeuristicJudge
from rag_eval_hooks.judges.openai_embedder import OpenAIEmbedder
from rag_eval_hooks.judges.prices import Price
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.testing import ScriptedJudge
from tests.servers.judge_server import JudgeServer
from tests.support.corpus import samples
from tests.waiting import PATIENCE

HOUR = 3600
Make = Callable[..., Budget]


class Own(ScriptedJudge):
    """A judge of a user's, over a language model."""

    annotator_kind = AnnotatorKind.LLM


@pytest.fixture(params=["memory", "file"])
def budget(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Budget] = []

    def make(**limits: float) -> Budget:
        options = {name: limits.pop(name) for name in list(limits) if "_per_" not in name}
        path = None if request.param == "memory" else tmp_path / "budget.db"
        options.setdefault("now", lambda: 1_000_000.0)  # type: ignore[arg-type]
        made.append(Budget(limits, path, incidents=Incidents(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def in_memory(**limits: float) -> Budget:
    return Budget(limits, incidents=Incidents(), now=lambda: 1_000_000.0)


async def test_reservation_settled_is_replaced_by_the_true_amount(budget: Make) -> None:
    limited = budget(tokens_per_hour=1000)
    first = await limited.reserve(100)
    assert limited.spent()["hour"].tokens == 356
    first.settle(80, 20)
    (await limited.reserve(100)).settle(0, 0)
    (await limited.reserve(100)).fail()
    with pytest.raises(BudgetError):
        await limited.reserve(800)
    limited.close()
    assert limited.spent()["hour"].tokens == 220


async def test_cost_is_counted_by_prices_of_prompts_replies_and_vectors(budget: Make) -> None:
    prices: Any = {"price": Price(2.0, 8.0), "embedding_price": Price(4.0, 0.0)}
    limited = budget(cost_per_day=1.0, **prices)
    (await limited.reserve(10_000)).settle(100_000, 50_000)
    (await limited.reserve(10_000, embedding=True)).settle(25_000, 0)
    with pytest.raises(BudgetError, match="day"):
        await limited.reserve(100_000)
    limited.close()
    assert limited.spent()["day"].cost == pytest.approx(0.7)


STEPS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.booleans()), max_size=60)


@given(st.integers(0, 5000), st.integers(1, 6), STEPS)
async def test_tokens_exceed_the_limit_by_calls_in_flight_at_most(
    limit: int, in_flight: int, steps: list[tuple[int, int, bool]]
) -> None:
    limited = in_memory(tokens_per_hour=limit)
    open_calls: list[tuple[Reservation, int, int]] = []
    for prompt, reply, ends in steps:
        with contextlib.suppress(BudgetError):
            open_calls.append((await limited.reserve(prompt), prompt, reply))
        if len(open_calls) >= in_flight or (open_calls and ends):
            call, *tokens = open_calls.pop(0)
            call.settle(*tokens)
        assert limited.spent()["hour"].tokens <= limit + in_flight * 1000


@given(
    limit=st.integers(0, 60),
    needed=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 5)), max_size=20),
)
async def test_samples_together_never_pass_the_limit_and_none_is_halved(
    limit: int, needed: list[tuple[int, int]]
) -> None:
    limited = in_memory(calls_per_hour=limit)

    async def evaluate(expected: int, made: int) -> int | None:
        sent = 0
        try:
            async with limited.sample(expected, 10):
                for _ in range(min(expected, made)):
                    await asyncio.sleep(0)
                    (await limited.reserve(10)).settle(5, 5)
                    sent += 1
        except BudgetError:
            return sent
        return None

    refused = await asyncio.gather(*(evaluate(*each) for each in needed))
    assert not any(refused)
    scored = [each for each, sent in zip(needed, refused, strict=True) if sent is None]
    spent = sum(min(expected, made) for expected, made in scored)
    assert limited.spent()["hour"].calls == pytest.approx(spent) or spent == 0
    assert spent <= limit


async def test_budget_without_a_usable_file_admits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    path.write_bytes(b"no database, and long enough to be seen as none" * 50)
    incidents = Incidents()
    limited = Budget({"calls_per_hour": 9}, path, incidents=incidents)
    with pytest.raises(BudgetError, match="file"):
        await limited.reserve(1)
    assert incidents.counts() == {"budget: OSError": 1}


@given(st.integers(20, 200), st.integers(1, 30))
async def test_rate_holds_when_calls_are_sent_not_when_they_queue(rate: int, count: int) -> None:
    limited = Budget({}, rate=float(rate), incidents=Incidents())
    sent: list[float] = []

    async def request(meter: Meter) -> None:
        async with meter.sending():
            sent.append(time.monotonic())
            if len(sent) <= 2:
                await asyncio.sleep(0.02)

    calls, start = ModelCalls(Caller("x"), CallLimits(concurrency=2)), time.monotonic()
    with in_call_context(budget=limited):
        await asyncio.gather(*(calls.make(request) for _ in range(count)))
    assert all(at - start >= number / rate - 0.002 for number, at in enumerate(sorted(sent)))


@pytest.mark.parametrize(("error", "tokens"), [(TimeoutError, 256), (ConnectionError, 0)])
async def test_call_without_a_reply_in_time_is_charged_its_estimate(
    error: type[Exception], tokens: float
) -> None:
    limited = in_memory(tokens_per_hour=1000)

    async def request(meter: Meter) -> None:
        async with meter.sending():
            raise error

    with in_call_context(budget=limited), pytest.raises(JudgeError):
        await ModelCalls(Caller("x"), CallLimits()).make(request)
    spent = limited.spent()["hour"]
    assert (spent.calls, spent.tokens) == (1, tokens)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"budget": {"calls_per_week": 3}}, "budget"),
        ({"budget": {"calls_per_day": -1}}, "budget"),
        ({"budget": {"calls_per_day": True}}, "budget"),
        ({"budget": {"cost_per_day": 3}}, "budget"),
        ({"budget": {"calls_per_day": 3, "path": "/no/such/folder/b.db"}}, "budget.path"),
    ],
)
def test_wrong_budget_is_refused_at_start(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        budget_of(RagEvalConfig(**settings), Own(), None, Incidents())
    assert caught.value.field == field


def test_cost_limit_needs_prices_only_of_paid_models() -> None:
    config = RagEvalConfig(budget={"cost_per_day": 3})
    assert budget_of(config, HeuristicJudge(), None, Incidents()) is not None
    embedder = OpenAIEmbedder("vectors", base_url="http://localhost")
    with pytest.raises(ConfigError, match=embedder.name):
        budget_of(config, HeuristicJudge(), embedder, Incidents())


@pytest.mark.parametrize("limit", [1, 2, 9, 10])
def test_budget_that_runs_out_leaves_whole_samples_unscored(limit: int) -> None:
    with JudgeServer(latency=0.02) as server:
        evals = RagEval(
            ["ragas.faithfulness"],
            judge="openai:m",
            judge_base_url=server.url,
            budget={"calls_per_hour": limit},
            embedder="none",
        )
        with evals:
            for sample in samples(20):
                evals.submit(sample)
            assert evals.flush(PATIENCE)
            stats = evals.stats()
        assert stats.scored == limit // 2 == len(server.calls()) / 2


async def _spend_all(limited: Budget) -> int:
    sent = 0
    with contextlib.suppress(BudgetError):
        while True:
            (await limited.reserve(100)).settle(150, 250)
            sent += 1
    return sent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_share_one_budget_and_not_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    limits = {"calls_per_hour": 60.0, "tokens_per_hour": 20_000.0}
    limited = Budget(limits, path, incidents=Incidents(), now=lambda: 1_000_000.0)
    asyncio.run(limited.reserve(1))
    children = []
    for _ in range(3):
        if not (child := os.fork()):
            limited.forked()
            sent = asyncio.run(_spend_all(limited))
            limited.close()
            os._exit(sent)
        children.append(child)
    sent = 1 + asyncio.run(_spend_all(limited))
    sent += sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    limited.close()
    spent = limited.spent()["hour"]
    assert spent.calls == sent <= 60
    assert 20_000 - 4 * 500 <= spent.tokens <= 20_000 + 4 * 410
