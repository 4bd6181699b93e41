"""Limits the number, tokens and cost of model calls per hour and day."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import may_be_file
from rag_eval_hooks.errors import BudgetError, ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges import Embedder, Judge
from rag_eval_hooks.judges.model_calls import call_context, in_call_context
from rag_eval_hooks.judges.prices import Price, prices_of
from rag_eval_hooks.score import AnnotatorKind
from rag_eval_hooks.sqlite_file import FILE_ERRORS, SqliteFile
from rag_eval_hooks.threads import DaemonExecutor

_Periods: TypeAlias = list[tuple[str, int]]  # name and start of each limited period
_SECONDS: Final = {"hour": 3600, "day": 86_400}
_UNITS: Final = ("calls", "tokens", "cost")
_REPLY_TOKENS: Final = 256.0  # estimated tokens per reply
_FREE: Final = Price(0.0, 0.0)
_BUSY_S: Final = 2.0  # maximum seconds to wait for another process's lock
_KEPT_S: Final = 7 * 86_400  # seconds; the budget deletes older periods
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS rag_eval_budget (period TEXT, start INTEGER, calls REAL, "
    "tokens REAL, cost REAL, PRIMARY KEY (period, start)) WITHOUT ROWID"
)
_READ: Final = "SELECT calls, tokens, cost FROM rag_eval_budget WHERE period = ? AND start = ?"
_ADD: Final = (
    "INSERT INTO rag_eval_budget VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET "
    "calls = calls + excluded.calls, tokens = tokens + excluded.tokens, cost = cost + excluded.cost"
)
_FORGET: Final = "DELETE FROM rag_eval_budget WHERE start < ?"


class Spend(NamedTuple):
    calls: float = 0.0
    tokens: float = 0.0
    cost: float = 0.0

    @classmethod
    def of(cls, price: Price, input_tokens: float, output_tokens: float) -> Spend:
        return cls(1.0, input_tokens + output_tokens, price.of(input_tokens, output_tokens))

    def plus(self, other: Spend, times: float = 1.0) -> Spend:
        return Spend(*(a + times * b for a, b in zip(self, other, strict=True)))

    def least(self, other: Spend) -> Spend:
        return Spend(*map(min, self, other))


class Budget:
    def __init__(
        self,
        limits: Mapping[str, float],  # keys: `<unit>_per_<period>`, such as `tokens_per_day`
        path: Path | None = None,
        *,
        price: Price | None = None,
        embedding_price: Price | None = None,
        rate: float | None = None,  # maximum number of calls per second
        incidents: Incidents,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._limits = {
            period: Spend(*(limits.get(f"{unit}_per_{period}", math.inf) for unit in _UNITS))
            for period in _SECONDS
            if any(f"{unit}_per_{period}" in limits for unit in _UNITS)
        }
        self._file = None if path is None else SqliteFile(path, (_TABLE,), patience=_BUSY_S)
        self._memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._memory.execute(_TABLE)
        # From Python 3.13 on, a garbage-collected open connection is a `ResourceWarning`.
        weakref.finalize(self, self._memory.close)
        # A hanging disk must not block the event loop.
        self._worker = DaemonExecutor("rag-eval-hooks-budget")
        self._prices = {False: price or _FREE, True: embedding_price or _FREE}
        self._interval = None if rate is None else 1.0 / rate
        self._next_turn = 0.0
        self._incidents = incidents
        self._now = now

    @asynccontextmanager
    async def sample(self, calls: int, input_tokens: float) -> AsyncIterator[None]:
        """Reserve budget for all model calls about one sample.

        Raise `BudgetError` if the remaining budget is too small.
        """
        each = Spend.of(self._prices[False], input_tokens, _REPLY_TOKENS)
        hold = await self._reserved(Spend().plus(each, calls))
        try:
            with in_call_context(hold=hold):
                yield
        finally:
            hold.replace(Spend())

    async def reserve(self, input_tokens: float, *, embedding: bool = False) -> Reservation:
        price, held = self._prices[embedding], Spend()
        estimate = Spend.of(price, input_tokens, 0.0 if embedding else _REPLY_TOKENS)
        if not embedding and (hold := call_context().hold) is not None:
            held = estimate.least(hold.amount)
            hold.amount = hold.amount.plus(held, -1)
        reservation = await self._reserved(estimate.plus(held, -1))
        reservation.amount, reservation.price = estimate, price
        if self._interval is not None:
            now = time.monotonic()
            at = max(self._next_turn, now)
            self._next_turn = at + self._interval
            await asyncio.sleep(at - now)
        return reservation

    def close(self) -> None:
        if self._file is not None:
            self._worker.submit(self._file.close).result(timeout=5.0)
        self._worker.release()

    def add(self, periods: _Periods, amount: Spend) -> None:
        self._worker.submit(self._book, periods, amount)

    async def _reserved(self, amount: Spend) -> Reservation:
        now = int(self._now())
        periods = [(name, now - now % _SECONDS[name]) for name in self._limits]
        if periods and amount != Spend():
            booked = self._worker.submit(self._book, periods, amount, self._limits)
            if (obstacle := await asyncio.wrap_future(booked)) is not None:
                raise BudgetError(obstacle)
        return Reservation(self, periods, amount)

    def _book(
        self, periods: _Periods, amount: Spend, limits: Mapping[str, Spend] | None = None
    ) -> str | None:
        memory = self._memory
        try:
            with nullcontext(memory) if self._file is None else self._file.transaction() as db:
                for period, start in periods:
                    row = db.execute(_READ, (period, start)).fetchone() or ()
                    total = Spend(*row).plus(amount)
                    if limits and total.least(limits[period]) != total:
                        spent = f"the judge budget of this {period} is used up"
                        return f"{spent}; raise the `budget` setting"
                for name, start in periods:
                    db.execute(_ADD, (name, start, *amount))
                    db.execute(_FORGET, (start - _KEPT_S,))
        except FILE_ERRORS as error:
            self._incidents.report("budget", error)
            return "the budget file is unavailable"
        return None


@dataclass(slots=True)
class Reservation:
    """Estimated use of one model call. The caller must call `settle` or `fail` after the call."""

    budget: Budget = field(repr=False)
    periods: _Periods
    amount: Spend
    price: Price = _FREE

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        if input_tokens or output_tokens:
            self.replace(Spend.of(self.price, input_tokens, output_tokens))

    def fail(self) -> None:
        self.replace(Spend(1.0))

    def replace(self, used: Spend) -> None:
        if self.periods and used != self.amount:
            self.budget.add(self.periods, used.plus(self.amount, -1))


def budget_of(
    config: RagEvalConfig, judge: Judge, embedder: Embedder | None, incidents: Incidents
) -> Budget | None:
    limits: dict[str, Any] = {**config.budget}
    rate, shared = limits.pop("calls_per_second", None) or None, limits.pop("path", None)
    if not limits and rate is None:
        return None
    path = None if shared is None else Path(shared).absolute()
    if path is not None and not may_be_file(path):
        raise ConfigError("budget.path", shared, "a file in a folder that exists")

    def price(model: str, *, is_paid: bool) -> Price:
        costs = is_paid and any(name.startswith("cost") for name in limits)
        if (found := prices_of(config).of(model) if costs else _FREE) is None:
            wants = f"without a cost limit, because the price of {model} is unknown. Set "
            raise ConfigError("budget", limits, f"{wants}judge_prices or install the extra openai")
        return found

    return Budget(
        limits,
        path,
        price=price(judge.name, is_paid=judge.annotator_kind is AnnotatorKind.LLM),
        embedding_price=price(getattr(embedder, "name", ""), is_paid=hasattr(embedder, "host")),
        rate=rate,
        incidents=incidents,
    )
