"""Prices of tokens: from the user's table, then from the list of the package `genai-prices`."""

from __future__ import annotations

import importlib
import logging
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from os import PathLike
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.usage import Usage

__all__ = ["Price", "Prices", "prices_of"]

_logger = logging.getLogger("rag_eval_hooks")

_PER: Final = 1_000_000
_CALL: Final = 1_000
"""Tokens of the call whose prices are looked up: long prompts have other prices at some makers."""
_OPENAI: Final = "https://api.openai.com/v1"
_LISTED: Final = ("openai", "azure")
"""Judges and embedders whose endpoint is known from the settings."""
_CLOSED: Final = ConfigDict(extra="forbid")
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, config=_CLOSED)
class Price:
    """Prices of one model, in the table's currency for a million tokens.

    Attributes:
        input: Price of prompts.
        output: Price of replies.
    """

    input: _Amount
    output: _Amount

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Return the cost of a call."""
        return (input_tokens * self.input + output_tokens * self.output) / _PER


class _PriceTable(BaseModel):
    model_config = _CLOSED

    currency: Annotated[str, Field(strict=True)] = "USD"
    models: dict[str, Price] = Field(default_factory=dict)


class Prices:
    """Prices by model.

    A table has a `currency` (any text, USD by default) and `models`: from a pattern to `input` and
    `output`, the prices of a million tokens. A pattern is a model's name, in which `*`, `?` and
    `[...]` may stand for other characters. The exact name wins, then the first pattern that fits.

    Args:
        table: The table.
        base_url: Endpoint of the models. Where its provider is in the list of `genai-prices`, and
            that package is installed, models that the table leaves out have the price listed there,
            if the table is in USD. None: only the table counts.

    Attributes:
        currency: Currency of the costs.

    Raises:
        ConfigError: An entry of the table is not valid; names it.
    """

    def __init__(
        self, table: Mapping[str, Any] | None = None, *, base_url: str | None = None
    ) -> None:
        try:
            valid = _PriceTable.model_validate(dict(table or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, ("prices", *first["loc"])))
            wants = f"prices of a million tokens by model: {first['msg'].lower()}"
            raise ConfigError(field, first["input"], wants) from None
        self.currency = valid.currency
        self._models = valid.models
        self._base_url = base_url if valid.currency == "USD" else None
        self._list: Any = None
        if self._base_url is not None:
            # At the start: this reads files, which must not happen in an event loop.
            with suppress(ImportError):
                self._list = importlib.import_module("genai_prices")
        self._priced: dict[str, Price | None] = {}

    @classmethod
    def read(cls, path: str | PathLike[str], *, base_url: str | None = None) -> Prices:
        """Read the table in a TOML file.

        Raises:
            ConfigError: The file cannot be read, is no TOML, or has an entry that is not valid.
        """
        try:
            with open(path, "rb") as file:
                return cls(tomllib.load(file), base_url=base_url)
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            wants = f"a TOML file with prices ({type(error).__name__})"
            raise ConfigError("prices", str(path), wants) from error

    def of(self, model: str) -> Price | None:
        """Return the prices of a model, or None; the first time, None is logged."""
        if model not in self._priced:
            price = self._priced[model] = self._in_table(model) or self._in_list(model)
            if price is None and (self._models or self._base_url):
                level = logging.WARNING if self._models else logging.INFO
                _logger.log(level, "no price of %s is known: its calls have no cost", model)
        return self._priced[model]

    def priced(self, usage: Usage, model: str) -> Usage:
        """Return the usage with its cost.

        There is no cost if the model has no price, or calls were made and the endpoint counted
        no tokens: an unknown cost is not 0.
        """
        price = self.of(model)
        if price is None or (usage.calls and not usage.input_tokens):
            return usage
        return replace(usage, cost=price.of(usage.input_tokens, usage.output_tokens))

    def _in_table(self, model: str) -> Price | None:
        names = (model, model.partition(":")[2])
        exact = (self._models[name] for name in names if name in self._models)
        fitting = (
            price
            for pattern, price in self._models.items()
            if any(fnmatchcase(name, pattern) for name in names)
        )
        return next(chain(exact, fitting), None)

    def _in_list(self, model: str) -> Price | None:
        kind, _, name = model.partition(":")
        if self._list is None or kind != "openai":
            return None
        call = self._list.Usage(input_tokens=_CALL, output_tokens=_CALL)
        try:
            listed = self._list.calc_price(call, name, provider_api_url=self._base_url)
        except LookupError:
            return None
        return Price(*(float(p) * _PER / _CALL for p in (listed.input_price, listed.output_price)))


def prices_of(config: RagEvalConfig) -> Prices:
    """Return the prices by the settings.

    Raises:
        ConfigError: The table cannot be read or is not valid; names `judge_prices`.
    """
    kinds = {setting.partition(":")[0] for setting in (config.judge, config.embedder)}
    base_url = (config.judge_base_url or _OPENAI) if kinds & set(_LISTED) else None
    if config.judge_prices is None:
        return Prices(base_url=base_url)
    try:
        return Prices.read(config.judge_prices, base_url=base_url)
    except ConfigError as error:
        # Errors name the setting, not the field inside the table alone.
        raise ConfigError(f"judge_{error.field}", error.got, error.wants) from None
