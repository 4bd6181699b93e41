"""What tokens cost, from a table that the user sets: no price is known unless it is told."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

from rag_eval_hooks.errors import ConfigError, JudgeError
from rag_eval_hooks.judges.chat import Chat, Completion
from rag_eval_hooks.prompts import Prompt, ReplyError
from rag_eval_hooks.usage import Usage

__all__ = ["Price", "PricedChat", "Prices"]

_PER = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of one model, in the table's currency for a million tokens.

    Attributes:
        input: For prompts.
        output: For replies.
    """

    input: float
    output: float


class Prices:
    """Prices by model.

    A table has a `currency` (any text) and `models`: from a pattern to `input` and `output`, the
    prices of a million tokens. A pattern is a model's name, in which `*`, `?` and `[...]` may
    stand for other characters. The exact name wins, then the first pattern that fits.

    Args:
        table: The table; without one, nothing has a price.

    Attributes:
        currency: What the costs are in.

    Raises:
        ConfigError: The table has an entry that is no price; names it.
    """

    def __init__(self, table: Mapping[str, Any] | None = None) -> None:
        told = dict(table or {})
        self.currency = _currency(told.pop("currency", ""))
        models = _mapping("prices.models", told.pop("models", {}))
        for name in told:
            raise ConfigError.unknown("prices", str(name), ("currency", "models"))
        self._models = {name: _price(name, entry) for name, entry in models.items()}

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Prices:
        """The table in a TOML file.

        Raises:
            ConfigError: The file cannot be read, is no TOML, or has a bad entry.
        """
        try:
            with open(path, "rb") as file:
                return cls(tomllib.load(file))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            wants = f"a TOML file with prices ({type(error).__name__})"
            raise ConfigError("prices", str(path), wants) from error

    def of(self, model: str) -> Price | None:
        """The prices of a model, or None.

        Args:
            model: Its name, with or without the kind before it: `openai:gpt-4o-mini`.
        """
        names = (model, model.partition(":")[2])
        for name in names:
            if name in self._models:
                return self._models[name]
        fitting = (p for p in self._models if any(fnmatchcase(name, p) for name in names))
        return next((self._models[pattern] for pattern in fitting), None)

    def priced(self, usage: Usage, model: str) -> Usage:
        """The usage with its cost.

        It stays without one where the model has no price, or where calls were made and the
        endpoint counted no tokens: a cost that nobody knows is not 0.
        """
        price = self.of(model)
        if price is None or (usage.calls and not usage.input_tokens):
            return usage
        cost = usage.input_tokens * price.input + usage.output_tokens * price.output
        return replace(usage, cost=cost / _PER)


class PricedChat:
    """A chat whose usage has costs.

    Args:
        chat: The model.
        prices: By its name.
    """

    def __init__(self, chat: Chat, prices: Prices) -> None:
        self._chat = chat
        self._prices = prices

    @property
    def name(self) -> str:
        """The model's."""
        return self._chat.name

    async def complete(self, prompt: Prompt) -> Completion:
        """The model's reply; errors carry their cost too."""
        with self._pricing():
            completion = await self._chat.complete(prompt)
        return replace(completion, usage=self._prices.priced(completion.usage, self.name))

    async def aclose(self) -> None:
        """Closes the model's connections."""
        await self._chat.aclose()

    @contextmanager
    def _pricing(self) -> Iterator[None]:
        try:
            yield
        except (JudgeError, ReplyError) as error:
            error.usage = self._prices.priced(error.usage, self.name)
            raise


def _currency(value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError("prices.currency", value, "a text, such as 'USD'")
    return value


def _mapping(field: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(field, value, "a table")
    return value


def _price(model: str, entry: object) -> Price:
    field = f"prices.models.{model}"
    told = _mapping(field, entry)
    if set(told) != {"input", "output"}:
        raise ConfigError(field, sorted(told), "exactly 'input' and 'output'")
    return Price(*(_amount(f"{field}.{key}", told[key]) for key in ("input", "output")))


def _amount(field: str, value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]
        raise ConfigError(field, value, "a price of a million tokens, 0 or more")
    return float(value)  # type: ignore[arg-type]
