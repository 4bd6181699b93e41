"""Laws of judge calls: concurrency, rate, breaker, and budget."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.calls import Caller, CallOutcome, Usage
from rag_eval_hooks.delivery.sink import pause_after
from rag_eval_hooks.errors import BudgetError, JudgeError, JudgeUnavailable
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import model_calls
from rag_eval_hooks.judges.budget import Budget, Reservation, Spend
from rag_eval_hooks.judges.chat import ModelAdapter
from rag_eval_hooks.judges.failures import answers, outcome_of
from rag_eval_hooks.judges.model_calls import (
    Breaker,
    BreakerState,
    CallLimits,
    Gate,
    Meter,
    in_call_context,
)
from rag_eval_hooks.judges.prices import Price, Prices


class StatusError(Exception):
    def __init__(self, status: int, code: str = "x") -> None:
        self.status_code = status
        self.code = code


BUSY = StatusError(429)
DOWN = StatusError(500)


def gate(most: int = 8) -> Gate:
    return Gate(CallLimits(concurrency=most))


async def many(
    subject: Gate, count: int, error: BaseException | None = None, seconds: float = 0.0
) -> list[Any]:
    async def one() -> None:
        async with subject.slot():
            await asyncio.sleep(seconds)
            if error is not None:
                raise error

    return await asyncio.gather(*(one() for _ in range(count)), return_exceptions=True)


def test_error_tells_outcome_and_whether_the_judge_answers() -> None:
    cases: list[tuple[BaseException, CallOutcome | None, bool | None]] = [
        (StatusError(429), CallOutcome.RATE_LIMITED, True),
        (StatusError(429, "insufficient_quota"), CallOutcome.ERROR, False),
        (StatusError(400), CallOutcome.REFUSED, True),
        (TimeoutError(), CallOutcome.TIMEOUT, False),
        (RuntimeError("a client of the user's"), CallOutcome.ERROR, False),
        (JudgeError("it returned None"), CallOutcome.ERROR, None),
        (asyncio.CancelledError(), CallOutcome.CANCELLED, None),
        (JudgeUnavailable("open"), None, None),
    ]
    for error, outcome, answered in cases:
        assert (outcome_of(error), answers(error)) == (outcome, answered), error


@given(st.integers(1, 5), st.lists(st.sampled_from(["ok", "busy", "cancel"]), max_size=40))
async def test_gate_never_exceeds_its_limit_and_loses_no_slot(most: int, ends: list[str]) -> None:
    subject = gate(most)
    seen = in_flight = 0

    async def call(end: str) -> None:
        nonlocal seen, in_flight
        async with subject.slot():
            in_flight += 1
            seen = max(seen, in_flight)
            try:
                await asyncio.sleep(0)
            finally:
                in_flight -= 1
            if end == "busy":
                raise BUSY

    tasks = [(asyncio.create_task(call(end)), end) for end in ends]
    await asyncio.sleep(0)
    for task, end in tasks:
        if end == "cancel":
            task.cancel()
    await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
    assert seen <= most
    assert await many(subject, most) == [None] * most


async def test_gate_after_a_cancelled_probe_takes_the_next_call_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_calls, "MAX_FAILURES", 1)
    monkeypatch.setattr(model_calls, "FIRST_PAUSE", 0.01)
    subject = gate(8)
    await many(subject, 1, DOWN)
    await asyncio.sleep(0.02)
    probe = asyncio.create_task(many(subject, 1, seconds=60))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert await many(subject, 1) == [None]


@given(st.lists(st.sampled_from(["fail"] * 9 + ["reply", "wait"]), max_size=120))
def test_breaker_opens_after_failures_in_a_row_and_doubles_its_pause(steps: list[str]) -> None:
    now = 0.0
    breaker = Breaker(lambda: now)
    failures, pause, until = 0, 10.0, None
    for step in steps:
        if step == "wait":
            now += 7.0
            continue
        probe = breaker.probe()
        assert probe is (until is not None and now >= until)
        if step == "reply":
            breaker.record_call(answered=True, probe=probe)
            failures, pause, until = 0, 10.0, None
            continue
        breaker.record_call(answered=False, probe=probe)
        failures += 1
        if probe:
            pause = min(2 * pause, 60.0)
            until = now + pause
        elif until is None and failures >= model_calls.MAX_FAILURES:
            until = now + pause
    assert (breaker.state is BreakerState.CLOSED) is (until is None)


@given(st.integers(1, 2000))
def test_pauses_double_up_to_a_bound_and_are_spread(failures: int) -> None:
    longest = min(0.5 * 2.0 ** min(failures - 1, 10), 15.0)
    pauses = {pause_after(failures) for _ in range(20)}
    assert all(longest / 2 <= pause <= longest for pause in pauses)
    assert len(pauses) > 1


# Prices and budgets: passed by calls in flight at most, and whole samples stay unscored.


def in_memory(**limits: float) -> Budget:
    return Budget(limits, incidents=Incidents(), now=lambda: 1_000_000.0)


def spent(limited: Budget) -> Spend:
    """Return the amounts of this hour, including estimates for calls in flight."""
    limited._worker.submit(lambda: None).result()
    with (
        contextlib.nullcontext(limited._memory)
        if limited._file is None
        else limited._file.opened() as db
    ):
        columns = "SUM(calls), SUM(tokens), SUM(cost)"
        query = f"SELECT {columns} FROM rag_eval_budget WHERE period = 'hour'"
        total = Spend(*(value or 0.0 for value in db.execute(query).fetchone()))
    if limited._file is not None:
        limited._file.close()
    return total


async def test_reservation_settled_is_replaced_by_the_true_amount(tmp_path: Path) -> None:
    limits, incidents = {"tokens_per_hour": 1000.0, "cost_per_hour": 9.0}, Incidents()
    for path in (None, tmp_path / "budget.db"):
        limited = Budget(limits, path, incidents=incidents, price=Price(2.0, 8.0), now=lambda: 1e6)
        first = await limited.reserve(100)
        assert spent(limited).tokens == 356
        first.settle(80, 20)
        (await limited.reserve(100)).settle(0, 0)
        (await limited.reserve(100)).fail()
        with pytest.raises(BudgetError):
            await limited.reserve(800)
        limited.close()
        assert spent(limited).tokens == 456
        assert spent(limited).cost == pytest.approx((180 * 2 + 276 * 8) / 1e6)


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
        assert spent(limited).tokens <= limit + in_flight * 1000


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
    sent = sum(min(expected, made) for expected, made in scored)
    assert spent(limited).calls == pytest.approx(sent) or sent == 0
    assert sent <= limit


@given(st.integers(20, 200), st.integers(1, 30))
async def test_rate_holds_when_calls_are_sent_not_when_they_queue(rate: int, count: int) -> None:
    limited = Budget({}, rate=float(rate), incidents=Incidents())
    sent: list[float] = []

    async def request(meter: Meter) -> None:
        async with meter.sending():
            sent.append(time.monotonic())
            if len(sent) <= 2:
                await asyncio.sleep(0.02)

    calls, start = ModelAdapter(Caller("x"), CallLimits(concurrency=2)), time.monotonic()
    with in_call_context(budget=limited):
        await asyncio.gather(*(calls.call(request, ()) for _ in range(count)))
    assert all(at - start >= number / rate - 0.002 for number, at in enumerate(sorted(sent)))


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
            sent = asyncio.run(_spend_all(limited))
            limited.close()
            os._exit(sent)
        children.append(child)
    sent = 1 + asyncio.run(_spend_all(limited))
    sent += sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    limited.close()
    assert path.stat().st_mode & 0o077 == 0
    total = spent(limited)
    assert total.calls == sent <= 60
    assert 20_000 - 4 * 500 <= total.tokens <= 20_000 + 4 * 410


def test_prices_are_by_name_and_by_a_million_tokens() -> None:
    table = {"small": {"input": 2, "output": 2}, "openai:large": {"input": 4, "output": 4}}
    prices = Prices({"models": table})
    names = ("openai:small", "small", "openai:large", "langchain:large", "openai:Small")
    assert [prices.of(name) for name in names] == [*(Price(n, n) for n in (2, 2, 4)), None, None]
    used = Usage(calls=2, input_tokens=1_000_000, output_tokens=500_000)
    assert prices.priced(used, "small").cost == pytest.approx(2 + 1)
    assert prices.priced(Usage(calls=1), "small").cost is None


def test_table_stands_over_the_list_of_the_provider() -> None:
    genai = pytest.importorskip("genai_prices")
    found = Prices(
        {"models": {"gpt-4o": {"input": 3.5, "output": 7}}}, base_url="https://api.openai.com/v1"
    )
    call = genai.Usage(input_tokens=12_345, output_tokens=678)
    wanted = genai.calc_price(call, "gpt-4o-mini", provider_id="openai").total_price
    cost = found.priced(Usage(1, 12_345, 678), "openai:gpt-4o-mini").cost
    assert cost == pytest.approx(float(wanted))
    assert found.of("openai:gpt-4o") == Price(3.5, 7)
