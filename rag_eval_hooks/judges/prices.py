"""Looks up token prices in the user's table and in the package `genai-prices`."""

from __future__ import annotations

import importlib
import logging
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from rag_eval_hooks.calls import Usage
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError

_logger = logging.getLogger("rag_eval_hooks")

_PER: Final = 1_000_000
_CALL: Final = 1_000  # tokens of the price query; some providers charge more for long prompts
_OPENAI: Final = "https://api.openai.com/v1"
_FORM: Final = (
    "{'models': {'<model>': {'input': <price>, 'output': <price>}}}, prices per million tokens"
)
_LISTED: Final = frozenset({"openai", "openai-decisions", "azure"})
_CLOSED: Final = ConfigDict(extra="forbid", defer_build=True)
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True, config=_CLOSED)
class Price:
    """Prices of one model per million tokens, in the currency of the price table."""

    input: _Amount
    output: _Amount

    def of(self, input_tokens: float, output_tokens: float) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / _PER


class _PriceTable(BaseModel):
    model_config = _CLOSED

    currency: Annotated[str, Field(strict=True)] = "USD"
    models: dict[str, Price] = Field(default_factory=dict)


class Prices:
    """Token prices of models, from which scores show their cost.

    Args:
        table: Mapping with the keys `currency` and `models`. The default currency is USD. `models`
            maps each model's name to the keys `input` and `output`: prices per million tokens.
        base_url: Base URL of the models' endpoint. The package `genai-prices` looks up prices in
            USD by this URL, for models that `table` lacks. None disables the lookup.

    Raises:
        ConfigError: `table` is invalid.
    """

    def __init__(
        self, table: Mapping[str, Any] | None = None, *, base_url: str | None = None
    ) -> None:
        try:
            valid = _PriceTable.model_validate(dict(table or {}))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"]))
            wants = f"{_FORM} ({field}: {first['msg'].lower()})"
            raise ConfigError("judge_prices", first["input"], wants) from None
        self._models = valid.models
        self._base_url = base_url if valid.currency == "USD" else None
        self._list: Any = None
        if self._base_url is not None:
            # Read the list at start-up, because reading files would block an event loop.
            with suppress(ImportError):
                self._list = importlib.import_module("genai_prices")
        self._priced: dict[str, Price | None] = {}

    def of(self, model: str) -> Price | None:
        if model not in self._priced:
            known = self._models.get(model) or self._models.get(model.partition(":")[2])
            price = self._priced[model] = known or self._in_list(model)
            if price is None and (self._models or self._base_url):
                level = logging.WARNING if self._models else logging.INFO
                told = (
                    "The price of model %s is unknown, so scores report no cost. Set judge_prices."
                )
                _logger.log(level, told, model)
        return self._priced[model]

    def priced(self, usage: Usage, model: str) -> Usage:
        price = self.of(model)
        if price is None or (usage.calls and not usage.input_tokens):
            return usage
        return replace(usage, cost=price.of(usage.input_tokens, usage.output_tokens))

    def _in_list(self, model: str) -> Price | None:
        kind, _, name = model.partition(":")
        if self._list is None or kind not in _LISTED:
            return None
        call = self._list.Usage(input_tokens=_CALL, output_tokens=_CALL)
        try:
            listed = self._list.calc_price(call, name, provider_api_url=self._base_url)
        except LookupError:
            return None
        return Price(*(float(p) * _PER / _CALL for p in (listed.input_price, listed.output_price)))


def prices_of(config: RagEvalConfig) -> Prices:
    kinds = {setting.partition(":")[0] for setting in (config.judge, config.embedder)}
    table, path = None, config.judge_prices
    if path is not None:
        try:
            table = tomllib.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            wants = f"a readable TOML file with prices (reading raised {type(error).__name__})"
            raise ConfigError("judge_prices", str(path), wants) from error
    return Prices(table, base_url=(config.judge_base_url or _OPENAI) if kinds & _LISTED else None)
