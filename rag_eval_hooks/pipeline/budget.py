"""A budget of judge calls, tokens or money: room is taken before a call is sent."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.errors import BudgetError, ConfigError
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.judges.prices import Price, Prices
from rag_eval_hooks.pipeline.budget_store import (
    BudgetStore,
    MemoryStore,
    Period,
    Spend,
    SqliteStore,
)

__all__ = ["Budget", "budget_of"]

_SECONDS: Final = {"hour": 3600, "day": 86_400}
_UNITS: Final = ("calls", "tokens", "cost")
_FIRST_REPLY: Final = 256.0
"""Tokens expected of a reply before any was seen."""
_PER: Final = 1_000_000


class Budget:
    """Lets calls be sent while there is room in the hour and the day, of UTC. Thread-safe.

    Before a call is sent, its room is taken: one call, the estimated tokens of its prompt, the
    mean tokens of the replies so far, and their price. With the reply the true amount takes its
    place. So calls are never more than the limit, and tokens and money are passed at most by
    what calls in flight take beyond their estimate. A call without a reply counts as a call.
    An endpoint that does not count tokens is charged the estimate.

    Args:
        limits: By `<unit>_per_<period>`, such as `calls_per_hour`.
        store: Keeps what was spent.
        price: Of the judge's model, for a limit of cost.
        incidents: Where a store that fails is counted; then no call is let through.
        now: Seconds since the epoch; the same in all processes.
    """

    def __init__(
        self,
        limits: Mapping[str, float],
        store: BudgetStore,
        price: Price | None = None,
        *,
        incidents: Incidents,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._limits = _by_period(limits)
        self._store = store
        self._price = price or Price(0.0, 0.0)
        self._incidents = incidents
        self._now = now
        self._lock = threading.Lock()
        self._replies = 0
        self._reply_tokens = 0.0

    def reserve(self, input_tokens: float) -> Reservation:
        """Takes room for one call.

        Args:
            input_tokens: Tokens of its prompt, an estimate.

        Raises:
            BudgetError: There is none.
        """
        periods = self._periods()
        expected = self._spend(input_tokens, self._expected_reply())
        try:
            full = self._store.reserve(periods, expected)
        except OSError as error:
            self._incidents.report("budget", error)
            raise BudgetError("the budget's file cannot be used") from None
        if full is not None:
            raise BudgetError(f"the budget of this {full.name} is spent")
        return Reservation(self, periods, expected)

    def spent(self) -> Mapping[str, Spend]:
        """What was spent in this hour and day so far, calls in flight at their estimate.

        Raises:
            OSError: The store cannot be used.
        """
        return {period.name: self._store.spent(period) for period in self._periods()}

    def reset(self) -> None:
        """What a forked child needs."""
        self._lock = threading.Lock()
        self._store.reset()

    def close(self) -> None:
        """Closes the store."""
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

    def _spend(self, input_tokens: float, output_tokens: float) -> Spend:
        price = self._price
        cost = (input_tokens * price.input + output_tokens * price.output) / _PER
        return Spend(1.0, input_tokens + output_tokens, cost)

    def _periods(self) -> list[Period]:
        now = int(self._now())
        return [
            Period(name, now - now % _SECONDS[name], limit) for name, limit in self._limits.items()
        ]


class Reservation:
    """Room that one call in flight has taken; settled once.

    Args:
        budget: Where it was taken.
        periods: Of which hour and day, also when the reply comes in the next.
        reserved: How much.
    """

    def __init__(self, budget: Budget, periods: list[Period], reserved: Spend) -> None:
        self._budget = budget
        self._periods = periods
        self._reserved = reserved

    def settle(self, input_tokens: float, output_tokens: float) -> None:
        """Puts the true amount in its place."""
        if input_tokens or output_tokens:
            self._budget._replied(output_tokens)
            used = self._budget._spend(input_tokens, output_tokens)
            self._budget._settle(self._periods, self._reserved, used)

    def fail(self) -> None:
        """Leaves one call, without tokens."""
        self._budget._settle(self._periods, self._reserved, Spend(1.0))


def budget_of(config: RagEvalConfig, judge: str, incidents: Incidents) -> Budget | None:
    """The budget that the settings describe, or None.

    Args:
        config: The settings.
        judge: The judge's name, for its price.
        incidents: Where a store that fails is counted.

    Raises:
        ConfigError: A limit of cost without a price for the judge, or the file's folder does not
            exist.
    """
    if not config.budget:
        return None
    price = None
    if any(name.startswith("cost") for name in config.budget):
        price = _price(config, judge)
    return Budget(config.budget, _store(config.budget_path), price, incidents=incidents)


def _store(path: str | None) -> BudgetStore:
    if path is None:
        return MemoryStore()
    if Path(path).is_dir() or not Path(path).parent.is_dir():
        raise ConfigError("budget_path", path, "a file in a folder that exists")
    return SqliteStore(path)


def _price(config: RagEvalConfig, judge: str) -> Price:
    prices = Prices() if config.judge_prices is None else Prices.read(config.judge_prices)
    price = prices.of(judge)
    if price is None:
        wants = f"a cost only with a price of {judge} in the table that judge_prices names"
        raise ConfigError("budget", dict(config.budget), wants)
    return price


def _by_period(limits: Mapping[str, float]) -> dict[str, Spend]:
    return {
        period: Spend(*(limits.get(f"{unit}_per_{period}", math.inf) for unit in _UNITS))
        for period in _SECONDS
        if any(f"{unit}_per_{period}" in limits for unit in _UNITS)
    }
