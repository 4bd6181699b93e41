"""Budget of calls, tokens or money for judge and embedder, reserved before each call."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import may_be_file
from rag_eval_hooks.errors import BudgetError, ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import Embedder, Judge, MeteredEmbedder
from rag_eval_hooks.judges.calls.spend import Period, Spend, SpendStore
from rag_eval_hooks.judges.prices import Price, prices_of
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.threads import DaemonExecutor

__all__ = ["Budget", "Reservation", "budget_of"]

T = TypeVar("T")

_SECONDS: Final = {"hour": 3600, "day": 86_400}
_UNITS: Final = ("calls", "tokens", "cost")
_FIRST_REPLY: Final = 256.0
"""Tokens that a reply is expected to have before there was any."""
_PER: Final = 1_000_000
_FREE: Final = Price(0.0, 0.0)


@dataclass(slots=True)
class _Hold:
    """Amount that one sample has reserved and its calls have not yet taken."""

    periods: list[Period]
    left: Spend


_hold: ContextVar[_Hold | None] = ContextVar("rag_eval_hooks_budget_hold", default=None)


class Budget:
    """Admits calls while the budget of the hour and of the day (UTC) lasts. Thread-safe.

    A sample reserves the calls that it is expected to need before its first one, so that a budget
    that runs out leaves whole samples unscored. Each call takes its estimate from there, or
    reserves more: one call, the tokens of its prompt, the mean tokens of the replies so far, and
    their price. With the reply the true amount takes its place. So there are never more calls than
    the limit, and tokens and money exceed it at most by what the calls in flight take beyond their
    estimates. A call without a reply in time, or whose reply counts no tokens, is charged the
    estimate. Embedding requests are calls, too, with a price of their own.

    Args:
        limits: Limits by `<unit>_per_<period>`, such as `calls_per_hour`.
        path: SQLite file that processes share, or None for this process alone. It is used in a
            thread of its own: a file that hangs never blocks the event loop.
        price: Price of the judge's model, for a limit of cost.
        embedding_price: Price of the embedder's model, for a limit of cost.
        rate: Most calls sent in a second by this process, or None without a limit.
        incidents: Counts failures of the file; while it fails, no call is admitted.
        now: Returns seconds since the epoch; equal in all processes.
    """

    def __init__(
        self,
        limits: Mapping[str, float],
        path: Path | None = None,
        *,
        price: Price | None = None,
        embedding_price: Price | None = None,
        rate: float | None = None,
        incidents: Incidents,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._limits = _by_period(limits)
        self._store = SpendStore(path)
        self._worker = None if path is None else DaemonExecutor("rag-eval-hooks-budget")
        self._price = price or _FREE
        self._embedding_price = embedding_price or _FREE
        self._interval = None if rate is None else 1.0 / rate
        self._next_turn = 0.0
        self._incidents = incidents
        self._now = now
        self._lock = threading.Lock()
        self._replies = 0
        self._reply_tokens = 0.0

    @asynccontextmanager
    async def sample(self, calls: int, input_tokens: float) -> AsyncIterator[None]:
        """Reserve the calls of one sample for the block, and return what it did not use.

        Raises:
            BudgetError: The budget does not suffice for the sample: nothing must be sent.
        """
        if not calls or not self._limits:
            yield
            return
        each = _spend(self._price, input_tokens, self._expected_reply())
        hold = _Hold(self._periods(), each.times(calls))
        await self._reserve(hold.periods, hold.left)
        token = _hold.set(hold)
        try:
            yield
        finally:
            _hold.reset(token)
            self._add(hold.periods, hold.left.times(-1))

    async def reserve(self, input_tokens: float, *, embedding: bool = False) -> Reservation:
        """Reserve one call and wait for its turn, where calls per second are limited.

        Raises:
            BudgetError: The budget is spent: the call must not be sent.
        """
        price = self._embedding_price if embedding else self._price
        expected = _spend(price, input_tokens, 0.0 if embedding else self._expected_reply())
        periods = self._periods()
        if (hold := None if embedding else _hold.get()) is not None:
            taken = expected.least(hold.left)
            hold.left -= taken
            await self._reserve(periods, expected - taken)
        else:
            await self._reserve(periods, expected)
        await self._turn()
        return Reservation(self, periods, expected, price, replies=not embedding)

    def spent(self) -> Mapping[str, Spend]:
        """Return the amounts spent in this hour and day, calls in flight at their estimate.

        Raises:
            OSError: The file cannot be used.
        """
        return {period.name: self._store.spent(period) for period in self._periods()}

    def forked(self) -> None:
        """Replace the locks that a forked child inherited."""
        self._lock = threading.Lock()
        self._store.forked()

    def close(self) -> None:
        """Close the file after what is queued for it was written."""
        if self._worker is not None:
            self._worker.submit(lambda: None).result(timeout=5.0)
        self._store.close()

    async def _turn(self) -> None:
        if self._interval is None:
            return
        with self._lock:
            now = time.monotonic()
            at = max(self._next_turn, now)
            self._next_turn = at + self._interval
        await asyncio.sleep(at - now)

    async def _reserve(self, periods: list[Period], amount: Spend) -> None:
        if amount == Spend() or not periods:
            return
        try:
            full = await self._run(lambda: self._store.reserve(periods, amount))
        except OSError as error:
            self._incidents.report("budget", error)
            raise BudgetError("the budget's file cannot be used") from None
        if full is not None:
            raise BudgetError(f"the budget of this {full.name} is spent")

    async def _run(self, work: Callable[[], T]) -> T:
        if self._worker is None:
            return work()
        return await asyncio.wrap_future(self._worker.submit(work))

    def _add(self, periods: list[Period], amount: Spend) -> None:
        if amount == Spend() or not periods:
            return
        if self._worker is None:
            self._store.add(periods, amount)
        else:
            self._worker.submit(self._add_to_file, periods, amount)

    def _add_to_file(self, periods: list[Period], amount: Spend) -> None:
        try:
            self._store.add(periods, amount)
        except OSError as error:
            self._incidents.report("budget", error)

    def _count_reply(self, tokens: float) -> None:
        with self._lock:
            self._replies += 1
            self._reply_tokens += tokens

    def _expected_reply(self) -> float:
        with self._lock:
            return self._reply_tokens / self._replies if self._replies else _FIRST_REPLY

    def _periods(self) -> list[Period]:
        now = int(self._now())
        return [
            Period(name, now - now % _SECONDS[name], limit) for name, limit in self._limits.items()
        ]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amount that one call in flight has reserved; settle it at most once."""

    budget: Budget
    periods: list[Period] = field(repr=False)
    reserved: Spend
    price: Price
    replies: bool

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        """Replace the estimate by the true amount; without any tokens, keep it."""
        if input_tokens or output_tokens:
            if self.replies:
                self.budget._count_reply(output_tokens)
            self._replace(_spend(self.price, input_tokens, output_tokens))

    def fail(self) -> None:
        """Count one call, without tokens."""
        self._replace(Spend(1.0))

    def _replace(self, used: Spend) -> None:
        self.budget._add(self.periods, used - self.reserved)


def budget_of(
    config: RagEvalConfig, judge: Judge, embedder: Embedder | None, incidents: Incidents
) -> Budget | None:
    """Make the budget that the settings describe, or None.

    Raises:
        ConfigError: A limit of cost without a price for the judge or the embedder, or the file's
            folder does not exist.
    """
    rate, shared = config.budget.get("calls_per_second") or None, config.budget.get("path")
    if not config.budget_limits and rate is None:
        return None
    price = embedding_price = None
    if any(name.startswith("cost") for name in config.budget_limits):
        if judge.annotator_kind is AnnotatorKind.LLM:
            price = _price(config, judge.name)
        if isinstance(embedder, MeteredEmbedder):
            embedding_price = _price(config, embedder.name)
    path = None if shared is None else Path(shared).absolute()
    if path is not None and not may_be_file(path):
        raise ConfigError("budget.path", shared, "a file in a folder that exists")
    return Budget(
        config.budget_limits,
        path,
        price=price,
        embedding_price=embedding_price,
        rate=rate,
        incidents=incidents,
    )


def _price(config: RagEvalConfig, model: str) -> Price:
    price = prices_of(config).of(model)
    if price is None:
        wants = f"a cost only with a price of {model}: by judge_prices, or the extra prices"
        raise ConfigError("budget", config.budget_limits, wants)
    return price


def _spend(price: Price, input_tokens: float, output_tokens: float) -> Spend:
    cost = (input_tokens * price.input + output_tokens * price.output) / _PER
    return Spend(1.0, input_tokens + output_tokens, cost)


def _by_period(limits: Mapping[str, float]) -> dict[str, Spend]:
    return {
        period: Spend(*(limits.get(f"{unit}_per_{period}", math.inf) for unit in _UNITS))
        for period in _SECONDS
        if any(f"{unit}_per_{period}" in limits for unit in _UNITS)
    }
