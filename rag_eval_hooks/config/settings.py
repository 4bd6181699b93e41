"""All settings, as one frozen and validated object.

Arguments override `RAG_EVAL_*` variables. `RAG_EVAL_*` variables override the settings file.
Variables of other software, such as `OPENAI_API_KEY`, override only default values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Unpack

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError

from rag_eval_hooks.config.rules import (
    ONE_OR_MORE,
    Budgets,
    Count,
    Names,
    Number,
    Path,
    Rate,
    RateLimits,
    RuleSettings,
    Seconds,
    Secret,
    TailSettings,
    Url,
)
from rag_eval_hooks.config.sources import config_error, endpoint_of, is_one_provider, merged
from rag_eval_hooks.errors import masked
from rag_eval_hooks.providers import EMBEDDERS, JUDGES

REDACTIONS = (
    "'none', 'all', or a list of 'email', 'phone', 'card', 'iban', 'key', 'ip' and 'presidio'. In "
    "code, the list may also contain rules and functions (text) -> text"
)
BROKER = "redis://host:port/db, or amqp://user:password@host:port/vhost,redis://host:port/db"
_Redaction = Literal["none", "all", "email", "phone", "card", "iban", "key", "ip", "presidio"]
_Region = Annotated[str, Field(pattern="^[A-Z]{2}$")]
_Names: TypeAlias = Sequence[str] | str
_Secret: TypeAlias = SecretStr | str


class SettingKeywords(TypedDict, total=False):
    config_file: str | os.PathLike[str] | None
    judge_base_url: str | None
    judge_api_key: _Secret | None
    judge_headers: Mapping[str, _Secret]
    judge_timeout: float
    judge_concurrency: int
    judge_window: int | None
    judge_prices: str | None
    thresholds: Mapping[str, float]
    references: str | None
    question_checks: str | None
    metric_rates: Mapping[str, float]
    rules: Sequence[RuleSettings | Mapping[str, Any]]
    tail: Sequence[TailSettings | Mapping[str, Any]]
    rate_limit: Mapping[str, int]
    budget: Mapping[str, float | str]
    sample_timeout: float
    queue_size: int
    exit_timeout: float
    max_text_chars: int
    hold_timeout: float
    spans: Literal["auto", "all", "sampled", "root", "none"]
    evaluation_span: Literal["late", "child", "trace", "off"]
    trace_judge: bool
    capture_content: bool
    capture_event_content: bool
    broker: _Secret | None
    sink_keys: Mapping[str, _Secret]
    spool: str | None
    redact_regions: _Names


class ArgumentKeywords(SettingKeywords, total=False):
    """Settings that `RagEval` also accepts as objects, such as a `Judge`."""

    metrics: _Names
    judge: str
    sample_rate: float
    sinks: _Names
    embedder: str
    run_on: Literal["thread", "celery"]
    redact: _Names


class RagEvalConfig(BaseModel):
    """All settings, read from arguments, `RAG_EVAL_<NAME>` variables and a TOML file.

    docs/configuration.md explains each setting.

    Args:
        config_file: Path of the TOML file. The default is the variable `RAG_EVAL_CONFIG_FILE`.
            If both are unset, no file is read.

    Raises:
        ConfigError: A setting's name is unknown, its value is invalid, or the file is
            unreadable.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    metrics: Names = ()
    judge: Annotated[str, AfterValidator(JUDGES.check)] = "heuristic"
    judge_base_url: Url = None
    judge_api_key: Secret = None
    judge_headers: dict[str, SecretStr] = {}
    judge_timeout: Seconds = 30.0
    judge_concurrency: Count = 16
    judge_window: Count | None = None
    judge_prices: Path = None
    embedder: Annotated[str, AfterValidator(EMBEDDERS.check)] = "auto"
    thresholds: dict[str, Number] = {}
    references: Path = None
    question_checks: Path = None
    sample_rate: Rate = 1.0
    metric_rates: dict[str, Rate] = {}
    rules: tuple[RuleSettings, ...] = ()
    tail: tuple[TailSettings, ...] = ()
    rate_limit: RateLimits = {}
    budget: Budgets = {}
    sample_timeout: Seconds = 120.0
    queue_size: Count = 1000
    exit_timeout: Seconds = 5.0
    max_text_chars: Count = 20_000
    hold_timeout: Annotated[Number, Field(ge=0)] = 10.0
    spans: Literal["auto", "all", "sampled", "root", "none"] = "auto"
    evaluation_span: Literal["late", "child", "trace", "off"] = "late"
    trace_judge: bool = False
    capture_content: bool = False
    capture_event_content: bool = False
    run_on: Literal["thread", "celery"] = "thread"
    broker: Secret = None
    sinks: Names = ()
    sink_keys: dict[str, SecretStr] = {}
    spool: Path = None
    redact: Annotated[tuple[_Redaction, ...], ONE_OR_MORE] = ()
    redact_regions: Annotated[tuple[_Region, ...], ONE_OR_MORE] = ()

    def __init__(self, **values: Unpack[ArgumentKeywords]) -> None:
        explicit: dict[str, Any] = {**values}
        file = explicit.pop("config_file", None)
        everything, origins, shared = merged(type(self), explicit, file)
        try:
            super().__init__(**everything)
        except ValidationError as error:
            raise config_error(type(self), error, everything, origins) from None
        # A copy with another judge must not inherit a shared key.
        self.model_fields_set.difference_update(shared)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # URLs of sinks may contain keys.
        for name, value in super().__repr_args__():
            yield name, tuple(map(masked, value)) if name == "sinks" else value

    def for_judge(self, judge: str) -> RagEvalConfig:
        """Copy the settings for another judge.

        Only a judge of the same provider keeps key, headers and URL.
        """
        if is_one_provider(judge, self.judge):
            return self.model_copy(update={"judge": judge})
        own: dict[str, Any] = {"judge_base_url": None, "judge_api_key": None}
        own |= {name: value for name, (_, value) in endpoint_of(judge).items()}
        key = own["judge_api_key"] and SecretStr(own["judge_api_key"])
        update = {**own, "judge": judge, "judge_api_key": key, "judge_headers": {}}
        return self.model_copy(update=update)
