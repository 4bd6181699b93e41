"""Laws of the gate: how many calls are in flight, and when a judge is asked no more."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks.calls import CallOutcome
from rag_eval_hooks.errors import JudgeError, JudgeUnavailable
from rag_eval_hooks.judges.calls import limits
from rag_eval_hooks.judges.calls.failures import answers, describe, outcome_of, requested_pause
from rag_eval_hooks.judges.calls.limits import Breaker, BreakerState, CallLimits, Gate


class StatusError(Exception):
    def __init__(self, status: int, code: str = "x", **headers: str) -> None:
        self.status_code = status
        self.code = code
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.response = type("Response", (), {"headers": named})()


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


@pytest.mark.parametrize(
    ("error", "outcome", "answered"),
    [
        (BUSY, CallOutcome.RATE_LIMITED, True),
        (StatusError(429, "insufficient_quota"), CallOutcome.ERROR, False),
        (StatusError(408), CallOutcome.TIMEOUT, False),
        (TimeoutError(), CallOutcome.TIMEOUT, False),
        (DOWN, CallOutcome.ERROR, False),
        (StatusError(401), CallOutcome.ERROR, False),
        (ConnectionRefusedError(), CallOutcome.ERROR, False),
        (RuntimeError("a client of the user's"), CallOutcome.ERROR, False),
        (StatusError(400), CallOutcome.REFUSED, True),
        (StatusError(404), CallOutcome.REFUSED, True),
        (ValueError("the reply is not JSON"), CallOutcome.ERROR, None),
        (JudgeError("it returned None"), CallOutcome.ERROR, None),
        (asyncio.CancelledError(), CallOutcome.CANCELLED, None),
        (JudgeUnavailable("open"), None, None),
    ],
)
def test_outcome_of_an_error_tells_whether_the_judge_answers(
    error: BaseException, outcome: CallOutcome | None, answered: bool | None
) -> None:
    assert outcome_of(error) is outcome
    assert answers(error) is answered


def test_description_of_a_used_up_quota_advises_on_billing() -> None:
    assert "used up" in describe(StatusError(429, "insufficient_quota"))
    assert "concurrency" in describe(BUSY)


@pytest.mark.parametrize(
    ("status", "headers", "pause"),
    [
        (429, {"retry_after": "3"}, 3.0),
        (503, {"retry_after": "3"}, 3.0),
        (429, {"retry_after_ms": "1500", "retry_after": "2"}, 1.5),
        (400, {"retry_after": "3"}, 0.0),
        (429, {}, 0.0),
        (429, {"retry_after": "9999"}, 60.0),
        (429, {"retry_after": "soon"}, 0.0),
    ],
)
def test_pause_is_requested_by_an_overloaded_judge_only(
    status: int, headers: dict[str, str], pause: float
) -> None:
    assert requested_pause(StatusError(status, **headers)) == pause


@given(st.integers(-3600, 3600), st.booleans())
def test_pause_until_a_date_ends_at_that_date(seconds: int, named: bool) -> None:
    told = time.time()
    date = formatdate(told + seconds, usegmt=named)
    pause, waited = requested_pause(StatusError(429, retry_after=date)), time.time() - told
    # A date has whole seconds.
    bounds = [min(max(0.0, seconds - late), 60.0) for late in (waited + 1, 0)]
    assert bounds[0] <= pause <= bounds[1]


@given(st.integers(1, 5), st.lists(st.sampled_from(["ok", "busy", "cancel"]), max_size=40))
async def test_gate_never_exceeds_its_limit_and_loses_no_slot(most: int, ends: list[str]) -> None:
    subject = gate(most)
    seen = 0

    async def call(end: str) -> None:
        nonlocal seen
        async with subject.slot():
            seen = max(seen, subject.in_flight)
            await asyncio.sleep(0)
            if end == "busy":
                raise BUSY

    tasks = [(asyncio.create_task(call(end)), end) for end in ends]
    await asyncio.sleep(0)
    for task, end in tasks:
        if end == "cancel":
            task.cancel()
    await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
    assert seen <= most
    assert (subject.in_flight, subject.waiting) == (0, 0)
    assert await many(subject, most) == [None] * most


async def test_gate_after_a_cancelled_probe_takes_the_next_call_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_FAILURES", 1)
    monkeypatch.setattr(limits, "FIRST_PAUSE", 0.01)
    subject = gate(8)
    await many(subject, 1, DOWN)
    await asyncio.sleep(0.02)
    probe = asyncio.create_task(many(subject, 1, seconds=60))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert await many(subject, 1) == [None]


async def test_gate_keeps_a_requested_pause_for_all_calls() -> None:
    subject = gate(8)
    loop = asyncio.get_running_loop()
    told = loop.time()
    await many(subject, 4, StatusError(429, retry_after="0.2"))
    starts: list[float] = []

    async def call() -> None:
        async with subject.slot():
            starts.append(loop.time())

    await asyncio.gather(*(call() for _ in range(6)))
    assert len(starts) == 6
    assert min(starts) >= told + 0.19


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
            breaker.ended(answered=True, probe=probe)
            failures, pause, until = 0, 10.0, None
            continue
        breaker.ended(answered=False, probe=probe)
        failures += 1
        if probe:
            pause = min(2 * pause, 60.0)
            until = now + pause
        elif until is None and failures >= limits.MAX_FAILURES:
            until = now + pause
    assert (breaker.state is BreakerState.CLOSED) is (until is None)
