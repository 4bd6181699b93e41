"""How many calls are in flight: what each end of a call teaches."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from rag_eval_hooks.calls import BreakerState
from rag_eval_hooks.errors import JudgeError, JudgeUnavailable
from rag_eval_hooks.judges.calls.failures import (
    JudgeHealth,
    describe,
    health_of,
    requested_pause,
)
from rag_eval_hooks.judges.calls.limits import CallLimits, Gate


class StatusError(Exception):
    def __init__(self, status: int, retry_after: str | None = None, code: str = "x") -> None:
        self.status_code = status
        self.code = code
        headers = {} if retry_after is None else {"retry-after": retry_after}
        self.response = type("Response", (), {"headers": headers})()


BUSY = StatusError(429)
DOWN = StatusError(500)


def gate(most: int = 8, failures: int = 3, pause: float = 60.0) -> Gate:
    return Gate(CallLimits(concurrency=most, breaker_failures=failures, breaker_pause=pause))


async def one(subject: Gate, error: BaseException | None = None, seconds: float = 0.0) -> None:
    async with subject.call():
        await asyncio.sleep(seconds)
        if error is not None:
            raise error


async def many(subject: Gate, count: int, **end: Any) -> list[BaseException | None]:
    return await asyncio.gather(
        *(one(subject, **end) for _ in range(count)), return_exceptions=True
    )


@pytest.mark.parametrize(
    ("error", "health"),
    [
        (BUSY, JudgeHealth.BUSY),
        (StatusError(429, code="insufficient_quota"), JudgeHealth.DOWN),
        (StatusError(408), JudgeHealth.SLOW),
        (TimeoutError(), JudgeHealth.SLOW),
        (DOWN, JudgeHealth.DOWN),
        (StatusError(401), JudgeHealth.DOWN),
        (ConnectionRefusedError(), JudgeHealth.DOWN),
        (RuntimeError("a client of the user's"), JudgeHealth.DOWN),
        (StatusError(400), JudgeHealth.WELL),
        (StatusError(404), JudgeHealth.WELL),
        (ValueError("the reply is no JSON"), JudgeHealth.UNKNOWN),
        (JudgeError("it returned None"), JudgeHealth.UNKNOWN),
        (asyncio.CancelledError(), JudgeHealth.UNKNOWN),
    ],
)
def test_what_an_error_tells_of_the_judge(error: BaseException, health: JudgeHealth) -> None:
    """A refusal of one request is a sign of life, a cancelled call is no sign at all."""
    assert health_of(error) is health


def test_a_used_up_quota_is_no_rate_limit() -> None:
    """A used-up quota gets advice about billing, a rate limit advice about concurrency."""
    used_up, limited = (describe(StatusError(429, code=c)) for c in ("insufficient_quota", "x"))
    assert "used up" in used_up
    assert "concurrency" not in used_up
    assert "used up" not in limited
    assert "concurrency" in limited


@pytest.mark.parametrize(
    ("status", "header", "pause"),
    [(429, "3", 3.0), (503, "3", 3.0), (400, "3", 0.0), (429, None, 0.0), (429, "9999", 60.0)],
)
def test_only_an_overloaded_judge_is_left_alone(
    status: int, header: str | None, pause: float
) -> None:
    """A Retry-After counts with the statuses of an overload only, and at most a minute."""
    assert requested_pause(StatusError(status, header)) == pause


async def test_the_limit_falls_once_for_all_that_were_in_flight_together() -> None:
    """Eight calls that are refused together halve the limit once, the next ones again."""
    subject = gate(8)
    await many(subject, 8, error=BUSY, seconds=0.01)
    assert subject.state().limit == 4
    await many(subject, 4, error=BUSY, seconds=0.01)
    assert subject.state().limit == 2
    for _ in range(5):
        await many(subject, 1, error=BUSY)
    assert subject.state().limit == 1


async def test_limit_after_a_round_of_replies_is_one_higher() -> None:
    subject = gate(8)
    await many(subject, 8, error=BUSY)
    assert subject.state().limit == 4
    await many(subject, 5)
    assert subject.state().limit == 5
    await many(subject, 500)
    assert subject.state().limit == 8


async def test_never_more_in_flight_than_the_limit() -> None:
    """The limit of the moment holds whatever is refused or cancelled, and no slot is lost."""
    chance = random.Random(7)
    subject = gate(5, failures=10_000)
    seen = 0

    async def call() -> None:
        nonlocal seen
        async with subject.call():
            seen = max(seen, subject.state().in_flight)
            await asyncio.sleep(chance.random() / 500)
            if chance.random() < 0.2:
                raise chance.choice([BUSY, DOWN])

    tasks = [asyncio.create_task(call()) for _ in range(400)]
    for task in chance.sample(tasks, 100):
        await asyncio.sleep(0.001)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert seen == 5
    state = subject.state()
    assert (state.in_flight, state.waiting) == (0, 0)


async def test_nobody_waits_for_a_dead_judge() -> None:
    """Calls that wait or come while the breaker is open fail at once."""
    subject = gate(2, failures=2)
    results = await many(subject, 20, error=DOWN, seconds=0.01)
    kinds = [type(result) for result in results]
    assert kinds == [StatusError] * 2 + [JudgeUnavailable] * 18
    with pytest.raises(JudgeUnavailable):
        await one(subject)
    assert subject.state().breaker is BreakerState.OPEN


async def test_a_probe_that_is_answered_lets_calls_in_again_one_by_one() -> None:
    """After the pause one call goes through; with its reply the limit begins at one."""
    subject = gate(8, failures=1, pause=0.05)
    await many(subject, 1, error=DOWN)
    await asyncio.sleep(0.06)
    results = await many(subject, 3, seconds=0.01)
    assert [type(result) for result in results] == [type(None), JudgeUnavailable, JudgeUnavailable]
    assert subject.state().limit == 1
    assert await many(subject, 30) == [None] * 30


async def test_a_probe_that_is_cancelled_blocks_nobody() -> None:
    """The next call is the probe then."""
    subject = gate(8, failures=1, pause=0.01)
    await many(subject, 1, error=DOWN)
    await asyncio.sleep(0.02)
    probe = asyncio.create_task(one(subject, seconds=60))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert await many(subject, 1) == [None]


async def test_a_limited_endpoint_is_not_hammered() -> None:
    """At an endpoint that takes 4 calls at once and refuses the rest, most calls are taken.

    The limit settles near what the endpoint takes: of 2,000 calls from 64 callers that never
    pause, at most a quarter is refused, the first ones and each try of a higher limit included.
    """
    subject = gate(64)
    busy = refused = 0

    async def call() -> None:
        nonlocal busy, refused
        async with subject.call():
            if busy >= 4:
                refused += 1
                await asyncio.sleep(0)
                raise BUSY
            busy += 1
            try:
                await asyncio.sleep(0.001)
            finally:
                busy -= 1

    async def caller() -> None:
        for _ in range(31):
            await asyncio.gather(call(), return_exceptions=True)

    await asyncio.gather(*(caller() for _ in range(64)))
    assert refused <= 500
    assert subject.state().limit <= 8


async def test_a_pause_that_many_are_asked_for_holds_for_all() -> None:
    """Persistent refusals let no call through before the Retry-After is over; none is lost."""
    subject = gate(8)
    loop = asyncio.get_running_loop()
    told = loop.time()
    await many(subject, 4, error=StatusError(429, "0.2"))
    starts: list[float] = []

    async def call() -> None:
        async with subject.call():
            starts.append(loop.time())

    await asyncio.gather(*(call() for _ in range(6)))
    assert len(starts) == 6
    assert min(starts) >= told + 0.2


async def test_a_probe_waits_as_long_as_the_judge_asks() -> None:
    """A dead judge that asks by Retry-After to be left alone gets no probe before that time."""
    subject = gate(failures=1, pause=0.01)
    await many(subject, 1, error=StatusError(503, "3"))
    await asyncio.sleep(0.02)
    assert subject.state().breaker is BreakerState.HALF_OPEN
    assert [type(result) for result in await many(subject, 2)] == [JudgeUnavailable] * 2
    await asyncio.sleep(3)
    assert await many(subject, 1) == [None]
