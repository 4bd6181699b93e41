"""All settings, as one frozen and validated object.

Arguments override `RAG_EVAL_*` variables, and these variables override the settings file.
`OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` are
variables of other software and override only defaults.
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
    setting,
)
from rag_eval_hooks.config.sources import (
    config_error,
    endpoint_of,
    is_one_provider,
    is_shared,
    merged,
)
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
    """For these keywords, `RagEval` also accepts objects."""

    metrics: _Names
    judge: str
    sample_rate: float
    sinks: _Names
    embedder: str
    run_on: Literal["thread", "celery"]
    redact: _Names


class RagEvalConfig(BaseModel):
    """All settings, read from arguments, `RAG_EVAL_<NAME>` variables and a TOML file.

    Args:
        config_file: Path of the TOML file. The default is the variable `RAG_EVAL_CONFIG_FILE`.
            If both are unset, no file is read.

    Raises:
        ConfigError: A setting's name is unknown or its value is invalid, or the file cannot be
            read.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    metrics: Names = setting(
        (),
        "Suites (`ragas`), metrics (`ragas.faithfulness`) or `all`. A leading `-` excludes a name. "
        "The default is every `ragas` metric whose inputs the sample has, except "
        "`ragas.context_precision_without_reference`.",
    )
    judge: Annotated[str, AfterValidator(JUDGES.check)] = setting(
        "heuristic",
        "Model that judges answers. `heuristic`: rules and a small trained model, without network "
        "access. `nli:<model>`: rules and an entailment model on this machine. `openai:<model>`, "
        "`azure:<deployment>` and `ollama:<model>`: an LLM. `openai-decisions:<model>` and "
        "`systemone:<model or url>`: a [decision model](decision-models.md).",
    )
    judge_base_url: Url = setting(None, "Base URL of the judge's endpoint.")
    judge_api_key: Secret = setting(None, "API key of the judge's endpoint. Never printed.")
    judge_headers: dict[str, SecretStr] = setting({}, "HTTP headers of judge calls. Never printed.")
    judge_timeout: Seconds = setting(30.0, "Timeout of one judge call, in seconds.")
    judge_concurrency: Count = setting(
        16, "Maximum number of samples in evaluation, and maximum number of judge calls in flight."
    )
    judge_window: Count | None = setting(
        None,
        "Maximum tokens of contexts in one judge call. Longer contexts are divided among several "
        "calls. Default: 60,000 for an LLM, 20,000 for a decision model, 2,000 for `ollama`.",
    )
    judge_prices: Path = setting(
        None, "TOML file with token prices, which override built-in prices."
    )
    embedder: Annotated[str, AfterValidator(EMBEDDERS.check)] = setting(
        "auto",
        "Model for embeddings: `openai:<model>`, `azure:<deployment>`, `ollama:<model>`, "
        "`sentence-transformers[:<name or path>]` (default: all-MiniLM-L6-v2), `none` or `auto`. "
        "With `openai` and `openai-decisions` judges, `auto` means `text-embedding-3-small` at the "
        "judge's endpoint. With other judges, `auto` sets no embedder.",
    )
    thresholds: dict[str, Number] = setting(
        {},
        "Threshold that a metric's score must meet, on the metric's own scale, such as "
        "`ragas.faithfulness=0.8`.",
    )
    references: Path = setting(
        None, "JSONL or CSV file with golden questions. See [feedback](feedback.md)."
    )
    question_checks: Path = setting(None, "TOML file with one table of checks per `question_id`.")
    sample_rate: Rate = setting(1.0, "Fraction of requests to evaluate.")
    metric_rates: dict[str, Rate] = setting(
        {},
        "Sample rates of suites or metrics. These rates override `sample_rate`.",
    )
    rules: tuple[RuleSettings, ...] = setting(
        (),
        "Sampling rules. A rule has conditions on a request and a sample rate. The first matching "
        "rule applies. In an environment variable, write the rules as JSON.",
    )
    tail: tuple[TailSettings, ...] = setting(
        (),
        "Tail rules: metrics to evaluate after bad feedback or a low heuristic score.",
    )
    rate_limit: RateLimits = setting(
        {},
        "Maximum number of samples per `second`, per `minute` or both, in this process.",
    )
    budget: Budgets = setting(
        {},
        "Limits on calls, tokens and cost of judge and embedder, per UTC hour or day, such as "
        "`cost_per_day=5`. Calls above `calls_per_second` wait. Processes share a budget if their "
        "`budget` settings have the same `path`.",
    )
    sample_timeout: Seconds = setting(120.0, "Total time for one sample's judge calls, in seconds.")
    queue_size: Count = setting(1000, "Maximum queued samples. Further samples are dropped.")
    exit_timeout: Seconds = setting(5.0, "Longest wait for queued samples at exit, in seconds.")
    max_text_chars: Count = setting(
        20_000, "Maximum characters of each context, question and answer. Longer text is cut."
    )
    hold_timeout: Annotated[Number, Field(ge=0)] = setting(
        10.0,
        "Maximum time to hold a RAG span for its scores, in seconds. 0 disables holding.",
    )
    spans: Literal["auto", "all", "sampled", "root", "none"] = setting(
        "auto",
        "Spans to write for each request. `auto`: all spans, or fewer if [another "
        "instrumentor](telemetry.md#other-instrumentors) is active. `all`: all spans. `sampled`: "
        "like `auto`, but no span for a request that is sampled out at its start. `root`: only the "
        "RAG span. `none`: no span.",
    )
    evaluation_span: Literal["late", "child", "trace", "off"] = setting(
        "late",
        "When to write a separate span with all results. `late`: if scores arrive after the RAG "
        "span has ended. `child`: always, below the RAG span. `trace`: always, in a separate "
        "trace. `off`: never.",
    )
    trace_judge: bool = setting(False, "Write spans of judge calls below the evaluation span.")
    capture_content: bool = setting(
        False, "Put questions, messages, documents, tool calls and answers on spans."
    )
    capture_event_content: bool = setting(False, "Quote the application's texts in log events.")
    run_on: Literal["thread", "celery"] = setting(
        "thread", "Where to evaluate: in a background `thread`, or by Celery [workers](fleet.md)."
    )
    broker: Secret = setting(
        None,
        "URL of the workers' broker, such as `redis://host:port/db`. With RabbitMQ, add a comma "
        "and the Redis URL that receives the results. Never printed.",
    )
    sinks: Names = setting(
        (),
        "Destinations of scores in addition to the span: `console`, `jsonl:<path>`, "
        "`phoenix:<url>`, `mlflow:<url>` or `langfuse:<url>`.",
    )
    sink_keys: dict[str, SecretStr] = setting(
        {},
        "API keys of platforms: `phoenix=<key>`, `mlflow=<token>` or "
        "`langfuse=<public key>:<secret key>`. Never printed.",
    )
    spool: Path = setting(
        None,
        "Folder that stores samples and scores until delivery. Processes on one machine may share "
        "the folder. See [durability](durability.md).",
    )
    redact: Annotated[tuple[_Redaction, ...], ONE_OR_MORE] = setting(
        (),
        "Kinds of text to remove before any text leaves the process: `email`, `phone`, `card`, "
        "`iban`, `key`, `ip`, `presidio`, or `all` (all kinds but `ip` and `presidio`). See "
        "[privacy](privacy.md).",
    )
    redact_regions: Annotated[tuple[_Region, ...], ONE_OR_MORE] = setting(
        (),
        "Countries such as `DE`, whose phone numbers `redact` removes even without a country code.",
    )

    def __init__(self, **values: Unpack[ArgumentKeywords]) -> None:
        explicit: dict[str, Any] = {**values}
        everything, origins = merged(type(self), explicit, explicit.pop("config_file", None))
        try:
            super().__init__(**everything)
        except ValidationError as error:
            raise config_error(type(self), error, everything, origins) from None
        # A copy with another judge must not inherit a shared key.
        self.model_fields_set.difference_update(
            name for name, origin in origins.items() if is_shared(origin)
        )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # URLs of sinks may contain keys.
        for name, value in super().__repr_args__():
            yield name, tuple(map(masked, value)) if name == "sinks" else value

    def for_judge(self, judge: str) -> RagEvalConfig:
        """Return a copy with another judge. A new provider gets no old key or URL."""
        if is_one_provider(judge, self.judge):
            return self.model_copy(update={"judge": judge})
        own: dict[str, Any] = {"judge_base_url": None, "judge_api_key": None}
        own |= {name: value for name, (_, value) in endpoint_of(judge).items()}
        key = own["judge_api_key"] and SecretStr(own["judge_api_key"])
        update = {**own, "judge": judge, "judge_api_key": key, "judge_headers": {}}
        return self.model_copy(update=update)

    @property
    def budget_limits(self) -> dict[str, float]:
        """Return the limits per hour and per day by name, such as `calls_per_hour`."""
        given: dict[str, Any] = {**self.budget}
        return {k: v for k, v in given.items() if k not in ("calls_per_second", "path")}
