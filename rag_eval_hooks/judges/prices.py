"""Prices of tokens, from a table of the user's: no model has a price by default."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from os import PathLike
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.usage import Usage

__all__ = ["Price", "Prices"]

_PER: Final = 1_000_000
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


class _PriceTable(BaseModel):
    model_config = _CLOSED

    currency: Annotated[str, Field(strict=True)] = ""
    models: dict[str, Price] = Field(default_factory=dict)


class Prices:
    """Prices by model.

    A table has a `currency` (any text) and `models`: from a pattern to `input` and `output`, the
    prices of a million tokens. A pattern is a model's name, in which `*`, `?` and `[...]` may
    stand for other characters. The exact name wins, then the first pattern that fits.

    Args:
        table: The table; without one, no model has a price.

    Attributes:
        currency: Currency of the costs.

    Raises:
        ConfigError: An entry of the table is not valid; names it.
    """

    def __init__(self, table: Mapping[str, Any] | None = None) -> None:
        try:
            valid = _PriceTable.model_validate(dict(table or {}))
        except ValidationError as error:
            raise _config_error(error) from None
        self.currency = valid.currency
        self._models = valid.models

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Prices:
        """Read the table in a TOML file.

        Raises:
            ConfigError: The file cannot be read, is no TOML, or has an entry that is not valid.
        """
        try:
            with open(path, "rb") as file:
                return cls(tomllib.load(file))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            wants = f"a TOML file with prices ({type(error).__name__})"
            raise ConfigError("prices", str(path), wants) from error

    def of(self, model: str) -> Price | None:
        """Return the prices of a model, or None.

        Args:
            model: Name, with or without the kind before it: `openai:gpt-4o-mini`.
        """
        names = (model, model.partition(":")[2])
        for name in names:
            if name in self._models:
                return self._models[name]
        fitting = (p for p in self._models if any(fnmatchcase(name, p) for name in names))
        return next((self._models[pattern] for pattern in fitting), None)

    def priced(self, usage: Usage, model: str) -> Usage:
        """Return the usage with its cost.

        There is no cost if the model has no price, or calls were made and the endpoint counted
        no tokens: an unknown cost is not 0.
        """
        price = self.of(model)
        if price is None or (usage.calls and not usage.input_tokens):
            return usage
        cost = usage.input_tokens * price.input + usage.output_tokens * price.output
        return replace(usage, cost=cost / _PER)


def _config_error(error: ValidationError) -> ConfigError:
    """Name the first entry that is not valid, an unknown or missing key by its table."""
    first = error.errors(include_url=False)[0]
    location, got = first["loc"], first["input"]
    if "unexpected" in first["type"] or first["type"] in ("missing", "extra_forbidden"):
        location, got = location[:-1], str(location[-1])
    field = ".".join(str(part) for part in ("prices", *location))
    return ConfigError(field, got, f"prices of a million tokens by model: {first['msg'].lower()}")
