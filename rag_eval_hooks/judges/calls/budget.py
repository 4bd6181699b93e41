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
from typing import Final

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import may_be_file
from rag_eval_hooks.errors import BudgetError, ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import Embedder, Judge
from rag_eval_hooks.judges.calls.spend import Period, Spend, SpendStore
from rag_eval_hooks.judges.prices import Price, prices_of
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.threads import DaemonExecutor

__all__ = ["HOLD", "Budget", "Reservation", "budget_of"]

_SECONDS: Final = {"hour": 3600, "day": 86_400}
_UNITS: Final = ("calls", "tokens", "cost")
_FIRST_REPLY: Final = 256.0
"""Tokens that a reply is expected to have before there was any."""
_FREE: Final = Price(0.0, 0.0)


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
        self._prices = {False: price or _FREE, True: embedding_price or _FREE}
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
        hold = await self._reserved(self._estimate(input_tokens).times(calls))
        token = HOLD.set(hold)
        try:
            yield
        finally:
            HOLD.reset(token)
            hold.replace(Spend())

    async def reserve(self, input_tokens: float, *, embedding: bool = False) -> Reservation:
        """Reserve one call and wait for its turn, where calls per second are limited.

        Raises:
            BudgetError: The budget is spent: the call must not be sent.
        """
        estimate, held = self._estimate(input_tokens, embedding=embedding), Spend()
        if not embedding and (hold := HOLD.get()) is not None:
            held = estimate.least(hold.amount)
            hold.amount -= held
        reservation = await self._reserved(estimate - held, embedding=embedding)
        reservation.amount = estimate
        await self._turn()
        return reservation

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

    def spend(self, input_tokens: float, output_tokens: float, *, embedding: bool) -> Spend:
        """Return the amount of one call, whose reply is counted for later estimates."""
        if not embedding:
            with self._lock:
                self._replies += 1
                self._reply_tokens += output_tokens
        cost = self._prices[embedding].of(input_tokens, output_tokens)
        return Spend(1.0, input_tokens + output_tokens, cost)

    def add(self, periods: list[Period], amount: Spend) -> None:
        """Add an amount, which may be negative; a failure of the file is counted."""
        if periods and self._worker is None:
            self._add(periods, amount)
        elif periods and self._worker is not None:
            self._worker.submit(self._add, periods, amount)

    def _add(self, periods: list[Period], amount: Spend) -> None:
        try:
            self._store.add(periods, amount)
        except OSError as error:
            self._incidents.report("budget", error)

    def _estimate(self, input_tokens: float, *, embedding: bool = False) -> Spend:
        with self._lock:
            mean = self._reply_tokens / self._replies if self._replies else _FIRST_REPLY
        reply = 0.0 if embedding else mean
        cost = self._prices[embedding].of(input_tokens, reply)
        return Spend(1.0, input_tokens + reply, cost)

    async def _turn(self) -> None:
        if self._interval is None:
            return
        with self._lock:
            now = time.monotonic()
            at = max(self._next_turn, now)
            self._next_turn = at + self._interval
        await asyncio.sleep(at - now)

    async def _reserved(self, amount: Spend, *, embedding: bool = False) -> Reservation:
        periods, full = self._periods(), None
        try:
            if periods and amount != Spend():
                if self._worker is None:
                    full = self._store.reserve(periods, amount)
                else:
                    work = self._worker.submit(self._store.reserve, periods, amount)
                    full = await asyncio.wrap_future(work)
        except OSError as error:
            self._incidents.report("budget", error)
            raise BudgetError("the budget's file cannot be used") from None
        if full is not None:
            raise BudgetError(f"the budget of this {full.name} is spent")
        return Reservation(self, periods, amount, embedding)

    def _periods(self) -> list[Period]:
        now = int(self._now())
        return [
            Period(name, now - now % _SECONDS[name], limit) for name, limit in self._limits.items()
        ]


@dataclass(slots=True)
class Reservation:
    """Amount reserved for a sample or for one call in flight; end it at most once."""

    budget: Budget = field(repr=False)
    periods: list[Period]
    amount: Spend
    embedding: bool = False

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        """Replace the estimate by the true amount; without any tokens, keep it."""
        if input_tokens or output_tokens:
            self.replace(self.budget.spend(input_tokens, output_tokens, embedding=self.embedding))

    def fail(self) -> None:
        """Count one call, without tokens."""
        self.replace(Spend(1.0))

    def replace(self, used: Spend) -> None:
        """Count this amount in place of the reserved one."""
        if used != self.amount:
            self.budget.add(self.periods, used - self.amount)


HOLD: Final[ContextVar[Reservation | None]] = ContextVar("rag_eval_hooks_hold", default=None)
"""Amount that the sample has reserved and its calls have not taken yet."""


def budget_of(
    config: RagEvalConfig, judge: Judge, embedder: Embedder | None, incidents: Incidents
) -> Budget | None:
    """Make the budget that the settings describe, or None.

    Raises:
        ConfigError: A limit of cost without a price for the judge or the embedder, or the file's
            folder does not exist.
    """
    limits, rate = config.budget_limits, config.budget.get("calls_per_second") or None
    if not limits and rate is None:
        return None
    shared = config.budget.get("path")
    if shared is not None and not may_be_file(Path(shared).absolute()):
        raise ConfigError("budget.path", shared, "a file in a folder that exists")
    price = embedding_price = None
    if any(name.startswith("cost") for name in limits):
        if judge.annotator_kind is AnnotatorKind.LLM:
            price = _price(config, judge.name)
        if embedder is not None and hasattr(embedder, "embed_metered"):
            embedding_price = _price(config, embedder.name)
    return Budget(
        limits,
        None if shared is None else Path(shared).absolute(),
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


def _by_period(limits: Mapping[str, float]) -> dict[str, Spend]:
    return {
        period: Spend(*(limits.get(f"{unit}_per_{period}", math.inf) for unit in _UNITS))
        for period in _SECONDS
        if any(f"{unit}_per_{period}" in limits for unit in _UNITS)
    }
