"""Budget of calls, tokens or money for judge and embedder, reserved before each call."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.config.sources import may_be_file
from rag_eval_hooks.errors import BudgetError, ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.base import Embedder, Judge, MeteredEmbedder
from rag_eval_hooks.judges.calls.budget_redis import RedisStore
from rag_eval_hooks.judges.calls.budget_store import (
    LONGEST_TURN,
    MemoryStore,
    Period,
    Spend,
    SqliteStore,
)
from rag_eval_hooks.judges.prices import Price, prices_of
from rag_eval_hooks.score import AnnotatorKind

__all__ = ["Budget", "BudgetStore", "budget_of"]

BudgetStore: TypeAlias = MemoryStore | SqliteStore | RedisStore
"""Store of the amounts spent in each period."""

_SECONDS: Final = {"hour": 3600, "day": 86_400}
_UNITS: Final = ("calls", "tokens", "cost")
_FIRST_REPLY: Final = 256.0
"""Tokens that a reply is expected to have before there was any."""
_PER: Final = 1_000_000
_FREE: Final = Price(0.0, 0.0)


class Budget:
    """Admits calls while the budget of the hour and of the day (UTC) lasts. Thread-safe.

    Before a call is sent, its estimate is reserved: one call, the estimated tokens of its
    prompt, the mean tokens of the replies so far, and their price. With the reply, the true
    amount takes its place. So there are never more calls than the limit, and tokens and money
    exceed it at most by what the calls in flight take beyond their estimates. A refused call
    counts as a call. A call without a reply in time, or whose reply counts no tokens, is charged
    the estimate. Requests for embeddings are calls, too, with a price of their own and without
    tokens of a reply.

    Args:
        limits: Limits by `<unit>_per_<period>`, such as `calls_per_hour`.
        store: Keeps the amounts spent.
        price: Price of the judge's model, for a limit of cost.
        embedding_price: Price of the embedder's model, for a limit of cost.
        rate: Calls in a second, or None without a limit.
        incidents: Counts failures of the store; while it fails, no call is admitted.
        now: Returns seconds since the epoch; equal in all processes.
    """

    def __init__(
        self,
        limits: Mapping[str, float],
        store: BudgetStore,
        price: Price | None = None,
        *,
        embedding_price: Price | None = None,
        rate: float | None = None,
        incidents: Incidents,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._rate = rate
        self._limits = _by_period(limits)
        self._store = store
        self._price = price or _FREE
        self._embedding_price = embedding_price or _FREE
        self._incidents = incidents
        self._now = now
        self._lock = threading.Lock()
        self._replies = 0
        self._reply_tokens = 0.0

    def reserve(self, input_tokens: float, *, embedding: bool = False) -> Reservation:
        """Reserve one call.

        Args:
            input_tokens: Estimated tokens of the prompt or of the texts to embed.
            embedding: True for a request for vectors.

        Raises:
            BudgetError: The budget is spent: the call must not be sent.
        """
        periods = self._periods()
        price = self._embedding_price if embedding else self._price
        reply = 0.0 if embedding else self._expected_reply()
        expected = _spend(price, input_tokens, reply)
        try:
            full = self._store.reserve(periods, expected)
        except OSError as error:
            self._incidents.report("budget", error)
            raise BudgetError("the budget's file cannot be used") from None
        if full is not None:
            raise BudgetError(f"the budget of this {full.name} is spent")
        return Reservation(self, periods, expected, price, replies=not embedding)

    async def turn(self) -> None:
        """Wait for the turn of one call, where there is a limit of calls in a second."""
        if self._rate is None:
            return
        while True:
            try:
                pause = self._store.turn(1.0 / self._rate, self._now())
            except OSError:
                # `reserve` refuses the call, and counts the failure.
                return
            await asyncio.sleep(min(pause, LONGEST_TURN))
            if pause <= LONGEST_TURN:
                return

    def spent(self) -> Mapping[str, Spend]:
        """Return the amounts spent in this hour and day, calls in flight at their estimate.

        Raises:
            OSError: The store cannot be used.
        """
        return {period.name: self._store.spent(period) for period in self._periods()}

    def forked(self) -> None:
        """Replace the locks that a forked child inherited."""
        self._lock = threading.Lock()
        self._store.forked()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _settle(self, periods: list[Period], reserved: Spend, used: Spend) -> None:
        if used != reserved:
            try:
                self._store.add(periods, used - reserved)
            except OSError as error:
                self._incidents.report("budget", error)

    def _replied(self, tokens: float) -> None:
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


class Reservation:
    """Amount that one call in flight has reserved; settled once.

    Args:
        budget: Budget of the reservation.
        periods: Hour and day of the sending, also for a reply in the next.
        reserved: The amount.
        price: Price of the call.
        replies: True if its reply counts for the estimate of replies.
    """

    def __init__(
        self,
        budget: Budget,
        periods: list[Period],
        reserved: Spend,
        price: Price,
        *,
        replies: bool,
    ) -> None:
        self._budget = budget
        self._periods = periods
        self._reserved = reserved
        self._price = price
        self._replies = replies

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        """Replace the estimate by the true amount; without any tokens, keep it."""
        if input_tokens or output_tokens:
            if self._replies:
                self._budget._replied(output_tokens)
            used = _spend(self._price, input_tokens, output_tokens)
            self._budget._settle(self._periods, self._reserved, used)

    def fail(self) -> None:
        """Count one call, without tokens."""
        self._budget._settle(self._periods, self._reserved, Spend(1.0))


def budget_of(
    config: RagEvalConfig, judge: Judge, embedder: Embedder | None, incidents: Incidents
) -> Budget | None:
    """Make the budget that the settings describe, or None.

    Args:
        config: The settings.
        judge: Its price counts if it is a language model.
        embedder: Its price counts if it reports tokens.
        incidents: Counts failures of the store.

    Raises:
        ConfigError: A limit of cost without a price for the judge or the embedder, or the file's
            folder does not exist.
    """
    if not config.budget_limits and config.calls_per_second is None:
        return None
    price = embedding_price = None
    if any(name.startswith("cost") for name in config.budget_limits):
        if judge.annotator_kind is AnnotatorKind.LLM:
            price = _price(config, judge.name)
        if isinstance(embedder, MeteredEmbedder):
            embedding_price = _price(config, embedder.name)
    store = _store(config.budget_path)
    return Budget(
        config.budget_limits,
        store,
        price,
        embedding_price=embedding_price,
        rate=config.calls_per_second,
        incidents=incidents,
    )


def _store(path: str | None) -> BudgetStore:
    if path is None:
        return MemoryStore()
    if path.startswith(("redis://", "rediss://")):
        return RedisStore(path)
    if not may_be_file(Path(path)):
        wants = "a file in a folder that exists, or redis://host:port/db"
        raise ConfigError("budget.path", path, wants)
    return SqliteStore(path)


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
