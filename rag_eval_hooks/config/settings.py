"""All settings: one frozen, validated object from arguments, environment and file.

Explicit arguments win over `RAG_EVAL_*` variables, these over `rag_eval_hooks.toml` or the
`[tool.rag_eval_hooks]` table of `pyproject.toml` in the working directory, these over a few
variables that are shared with other software (`OPENAI_API_KEY`, `OPENAI_BASE_URL`,
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from rag_eval_hooks.config.env_and_file import merged
from rag_eval_hooks.config.rules import (
    Budgets,
    MetricRates,
    RateLimits,
    Rules,
    TailRules,
    wanted_in,
)
from rag_eval_hooks.errors import ConfigError, masked

__all__ = ["RagEvalConfig"]


def _split(value: object) -> object:
    """Environment variables give lists as comma-separated text."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _none(value: object) -> object:
    """Neither environment variables nor TOML can say `None`."""
    return None if value == "none" else value


Optional = Annotated[str | None, BeforeValidator(_none)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
Temperature = Annotated[
    Annotated[float, Field(ge=0, le=2)] | None,
    BeforeValidator(_none),
]


def _url(value: str) -> str:
    parts = urlsplit(value)
    # Credentials in a URL would stand in every error and log; a key has a setting of its own.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError
    # Likewise a key among its parameters.
    if parts.port == 0 or parts.query:
        raise ValueError
    return value


Url = Annotated[str, AfterValidator(_url)]
Weights = dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
TOKEN_SCORERS = "'none' or 'bert-score[:<name or path>]'"
EMBEDDERS = "'auto', 'none', 'openai:<model>' or 'sentence-transformers[:<name or path>]'"
REDACTIONS = (
    "'none', 'all', or of 'email', 'phone', 'card', 'iban', 'key', 'ip', 'presidio', separated by "
    "commas; in code also rules and functions (text) -> text or (field, text) -> text"
)
_REDACTIONS = "^(none|all|email|phone|card|iban|key|ip|presidio)$"


def _setting(default: Any, wants: str, **limits: Any) -> Any:
    return Field(default, json_schema_extra={"wants": wants}, **limits)


def _seconds(default: float) -> Any:
    return Field(
        default, gt=0, allow_inf_nan=False, json_schema_extra={"wants": "seconds, above 0"}
    )


def _count(default: int) -> Any:
    return Field(default, ge=1, json_schema_extra={"wants": "a whole number, 1 or more"})


class RagEvalConfig(BaseModel):
    """Every setting with its default. Each is also `RAG_EVAL_<NAME>` and a key in the file.

    Attributes:
        metrics: Suites (`ragas`), single metrics (`ragas.faithfulness`) or `all`. By default all
            that a sample can feed: without a reference, those that need none.
        judge: `local` (embedded, no network) or `openai:<model>`.
        embedder: `auto`, `none`, `openai:<model>`, or `sentence-transformers` with `:` and a name
            or path where it is not to be all-MiniLM-L6-v2.
            `auto` is the judge's endpoint with `text-embedding-3-small` for an OpenAI judge, and
            for the local judge MiniLM where the `embeddings` extra is installed and the model is
            on disk: nothing is downloaded unasked.
        sample_rate: Share of interactions to evaluate, 0 to 1; consistent by trace id.
        sinks: Where scores go besides the span: `jsonl:<path>`, `phoenix:<url>`, `mlflow:<url>`,
            `langfuse:<url>`.
        token_scorer: `none`, or `bert-score` with `:` and a model's name or path where it is not
            to be microsoft/deberta-xlarge-mnli. Feeds `graphrag.bert_score_f1`.
        bertscore_layer: Layer of that model to compare, or `none` for its best-known one.
        bertscore_rescale: Whether BERTScore is rescaled with its baseline.
        dont_know: How `graphrag.answer_class` tells DON'T KNOW: `refusal` (the phrase is what the
            answer says) or `phrases` (the phrase stands anywhere in it).
        graphrag_rank_aware: Whether `graphrag.ragas_context_precision` heeds the ranks.
        graphrag_weights: Weights of `graphrag.ragas_score`; missing parts keep theirs.
        whitepaper_weights: Weights of `whitepaper.weighted_score`; the same.
        question_checks: Path of a TOML file with checks by `question_id`.
        calls: `fused` (two judge calls for all claims and verdicts) or `single` (a call for each
            finding, for small models).
        nvidia_calls: `independent` (six calls, as defined) or `paired` (two).
        verify_tokens: Tokens of contexts in one verification; longer ones are split.
        judge_attempts: How often a task is asked in all until every item has a valid reply.
        judge_memo: Folder in which replies are kept and served again, or `none` for memory only.
        judge_prices: Path of a TOML file with prices of models, for the cost on scores.
        judge_base_url: Base URL of an OpenAI-compatible endpoint, such as a gateway or vLLM.
        judge_api_key: Its key; never printed.
        judge_headers: Extra HTTP headers for a gateway; values are secret, never printed.
        judge_query: Extra query parameters for a gateway, such as `api-version`; never printed.
        judge_temperature: Sampling temperature, or `none` to send none.
        judge_timeout: Seconds for one judge call.
        judge_retries: Further tries after a 429, a 5xx or a time-out.
        judge_concurrency: Judge calls in flight at once, at most: fewer after a 429 or a time-out.
        judge_breaker_failures: Judge calls that fail in a row (time-outs, 5xx, no connection, no
            access) until no more are made and metrics fail at once as `judge_unavailable`.
        judge_breaker_pause: Seconds until one call is let through to see; the pause doubles with
            each that fails, up to six times as long.
        evaluator_concurrency: Samples evaluated at once.
        evaluator: Where samples are evaluated: `thread`, `process` (a child process), or `auto`: a
            process as soon as a model runs in the evaluator itself (sentence-transformers,
            bert-score), else a thread.
        evaluator_threads: Threads of numerical libraries in the evaluator process.
        evaluator_nice: By how much the evaluator process gives way to others, 0 to 19.
        evaluator_idle: Whether it gets only what others leave of the processors (Linux).
        evaluator_message_mb: Mebibytes of one sample, or of its outcomes, on the way to or from
            the evaluator process; a larger one is not evaluated there.
        sample_timeout: Seconds for all findings of one sample.
        queue_size: Samples that may wait; one more is dropped and counted.
        queue_chars: Characters of text that all waiting samples may hold together.
        sink_timeout: Seconds that a sink may take for one sample; while it takes longer, it
            misses what comes, or gets it later from the spool.
        hold: Whether RAG spans wait for their scores.
        hold_timeout: Seconds that a span waits at most.
        max_held: Spans that may wait at once; one more ends at once.
        exit_timeout: Seconds to finish waiting samples when the process exits.
        interaction_ttl: Seconds after which an interaction without an end is abandoned.
        max_open_interactions: Interactions that may be open at once; the oldest is abandoned.
        max_interaction_chars: Characters of text that an open interaction may hold; what comes
            later is left out, and `truncated` says so.
        max_contexts: Contexts kept per sample.
        max_text_chars: Characters kept of each context, of the question and of the answer.
        capture_content: Whether question, contexts and answer are put on spans.
        workflow: Name on the RAG span; by default the name of the outermost run.
        capture_event_content: Whether explanations in log events may quote the application's
            texts.
        spans: `auto` (none of ours where another instrumentor writes its own), `all`, `root` (the
            RAG span alone) or `none`.
        carrier: Where the evaluation span with all results goes: `trace` (one of its own), `child`
            (below the RAG span) or `off`.
        trace_judge: Whether each call of judge, embedder and token scorer is a span below the
            evaluation span; never in the application's own traces otherwise.
        span_events: Whether each score is an event of our RAG span too, with the request's end as
            its time.
        max_explanation_chars: Characters of one metric's explanation in telemetry.
        thresholds: Least good values by metric, in its own scale, such as
            `ragas.faithfulness=0.8`: pass or fail.
        metric_rates: Inclusion probability of suites and metrics, 0 to 1; an id wins over its
            suite, and both over `sample_rate`. See docs/sampling.md for this and the next four.
        rules: Tables with conditions on an interaction and a rate; the first that fits counts.
        tail: Tables with conditions on cheap results or feedback, and what to evaluate then.
        rate_limit: Samples evaluated in any `second` and any `minute`, by this process.
        budget: `calls`, `tokens` or `cost` of judge and embedder, each `_per_hour` or `_per_day`
            (UTC).
        budget_path: SQLite file by which processes share one budget, or `none`: each its own.
        feedback_samples: Ended interactions that `feedback` can still join; 0 for none.
        feedback_chars: Characters of text that all of them may hold together.
        feedback_ttl: Seconds for which each can be joined.
        references: Path of a golden file (JSON lines or CSV), or `none`. See docs/sampling.md.
        references_threshold: Least cosine of a question and a golden question that lends its
            reference, or `none`: equal questions only. Needs an embedder.
        spool: Path of an SQLite file that keeps accepted samples and finished scores until they
            are delivered, or `none`; processes of one machine may share it.
        durability: `batch` (a process that is killed loses its last 50 ms at most) or `sync` (an
            `offer` that gives True is on disk, and waits for it).
        spool_wait: Seconds that an offer waits for the disk at most, with `sync`.
        spool_max_mb: Megabytes that the spool may have; further samples are evaluated from memory
            alone and counted as `undurable`.
        redact: What is taken out of samples, and out of content on spans, before anything leaves:
            `email`, `phone`, `card`, `iban`, `key` (API keys, tokens, passwords), all of these by
            `all`; besides these `ip` and `presidio`. See docs/privacy.md.
        redact_patterns: Regular expressions by name, likewise: `CUSTOMER` makes `<CUSTOMER_1>`.
        redact_regions: Countries, by two letters, whose phone numbers are known without their
            prefix; by default some 40 large ones.
        redact_ids_key: A key with which ids of users and sessions are hashed; never printed.
        max_explained: Recent traces of which `RagEval.explain` knows what became.
        sink_retry_for: Seconds for which scores that a platform did not take are sent again.
        sink_queue_chars: Characters of scores and explanations that may wait in memory for one
            platform; with a spool, of samples for sinks that failed.
        sink_keep_for: Seconds for which they wait in the spool, where there is one, beyond that.
        sink_keep_mb: Megabytes of scores that may wait in the spool for one platform.
        sink_keys: Keys of platforms: `phoenix=<key>`, `mlflow=<token>`,
            `langfuse=<public key>:<secret key>`; never printed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    metrics: Names = _setting((), "names of suites or metrics, separated by commas")
    judge: str = _setting(
        "local", "'local' or 'openai:<model>'", pattern=r"^(local|openai:\s*\S.*)$"
    )
    embedder: str = _setting("auto", EMBEDDERS)
    sample_rate: float = _setting(1.0, "a number from 0 to 1", ge=0, le=1)
    sinks: Names = _setting(
        (),
        "'jsonl:<path>', 'phoenix:<url>', 'mlflow:<url>' or 'langfuse:<url>', separated by commas",
    )
    token_scorer: str = _setting("none", TOKEN_SCORERS)
    bertscore_layer: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_none)] = (
        _setting(None, "a whole number, 1 or more, or 'none'")
    )
    bertscore_rescale: bool = _setting(False, "true or false")
    dont_know: Literal["refusal", "phrases"] = _setting("refusal", "'refusal' or 'phrases'")
    graphrag_rank_aware: bool = _setting(False, "true or false")
    graphrag_weights: Weights = _setting(
        {},
        "weights, 0 or more, of faithfulness, context_precision, context_recall, answer_relevance",
    )
    whitepaper_weights: Weights = _setting(
        {}, "weights, 0 or more, of correctness, faithfulness, precision, recall, relevance"
    )
    question_checks: Optional = _setting(None, "the path of a TOML file, or 'none'")
    calls: Literal["fused", "single"] = _setting("fused", "'fused' or 'single'")
    nvidia_calls: Literal["independent", "paired"] = _setting(
        "independent", "'independent' or 'paired'"
    )
    verify_tokens: int = _count(12_000)
    judge_attempts: int = _count(3)
    judge_memo: Optional = _setting(None, "the path of a folder, or 'none'")
    judge_prices: Optional = _setting(None, "the path of a TOML file, or 'none'")
    judge_base_url: Url | None = _setting(
        None, "a URL without credentials or parameters, such as http://localhost:8000/v1"
    )
    judge_api_key: SecretStr | None = _setting(None, "a key")
    judge_headers: dict[str, SecretStr] = _setting({}, "names and values")
    judge_query: dict[str, SecretStr] = _setting({}, "names and values")
    judge_temperature: Temperature = _setting(0.0, "a number from 0 to 2, or 'none'")
    judge_timeout: float = _seconds(30.0)
    judge_retries: int = _setting(3, "a whole number, 0 or more", ge=0)
    judge_concurrency: int = _count(16)
    judge_breaker_failures: int = _count(20)
    judge_breaker_pause: float = _seconds(10.0)
    evaluator_concurrency: int = _count(16)
    evaluator: Literal["auto", "thread", "process"] = _setting(
        "auto", "'auto', 'thread' or 'process'"
    )
    evaluator_threads: int = _count(1)
    evaluator_nice: int = _setting(10, "a whole number from 0 to 19", ge=0, le=19)
    evaluator_idle: bool = _setting(True, "true or false")
    evaluator_message_mb: int = _count(64)
    sample_timeout: float = _seconds(120.0)
    queue_size: int = _count(1000)
    queue_chars: int = _count(100_000_000)
    sink_timeout: float = _seconds(3.0)
    hold: bool = _setting(True, "true or false")
    hold_timeout: float = _seconds(10.0)
    max_held: int = _count(1000)
    exit_timeout: float = _seconds(5.0)
    interaction_ttl: float = _seconds(600.0)
    max_open_interactions: int = _count(10_000)
    max_interaction_chars: int = _count(4_000_000)
    max_contexts: int = _count(50)
    max_text_chars: int = _count(20_000)
    capture_content: bool = _setting(False, "true or false")
    workflow: Optional = _setting(None, "a name, or 'none'")
    capture_event_content: bool = _setting(False, "true or false")
    spans: Literal["auto", "all", "root", "none"] = _setting(
        "auto", "'auto', 'all', 'root' or 'none'"
    )
    carrier: Literal["trace", "child", "off"] = _setting("trace", "'trace', 'child' or 'off'")
    trace_judge: bool = _setting(False, "true or false")
    span_events: bool = _setting(False, "true or false")
    max_explanation_chars: int = _count(4000)
    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = _setting(
        {}, "metric ids and numbers in the metric's scale"
    )
    metric_rates: MetricRates = _setting({}, "numbers from 0 to 1 by suite or metric id")
    rules: Rules = _setting((), "tables, each with a rate")
    tail: TailRules = _setting((), "tables, each with one condition and `then`")
    rate_limit: RateLimits = _setting({}, "whole numbers, 1 to 1000000, of 'second' and 'minute'")
    budget: Budgets = _setting(
        {}, "numbers, 0 or more, of calls, tokens or cost, each _per_hour or _per_day"
    )
    budget_path: Optional = _setting(None, "the path of a file, or 'none'")
    feedback_samples: int = _setting(1000, "a whole number, 0 or more", ge=0)
    feedback_chars: int = _count(10_000_000)
    feedback_ttl: float = _seconds(3600.0)
    references: Optional = _setting(None, "the path of a JSONL or CSV file, or 'none'")
    references_threshold: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None, BeforeValidator(_none)
    ] = _setting(None, "a number above 0, up to 1, or 'none'")
    spool: Optional = _setting(None, "the path of a file in a folder that exists, or 'none'")
    durability: Literal["batch", "sync"] = _setting("batch", "'batch' or 'sync'")
    spool_wait: float = _seconds(0.05)
    spool_max_mb: int = _count(512)
    redact: Annotated[
        tuple[Annotated[str, Field(pattern=_REDACTIONS)], ...], BeforeValidator(_split)
    ] = _setting((), REDACTIONS)
    redact_patterns: dict[str, str] = _setting({}, "names and regular expressions")
    redact_regions: Annotated[
        tuple[Annotated[str, Field(pattern="^[A-Z]{2}$")], ...], BeforeValidator(_split)
    ] = _setting((), "countries such as DE, separated by commas")
    redact_ids_key: SecretStr | None = _setting(None, "a key")
    max_explained: int = _count(10_000)
    sink_retry_for: float = _seconds(60.0)
    sink_queue_chars: int = _count(10_000_000)
    sink_keep_for: float = _seconds(86_400.0)
    sink_keep_mb: int = _count(100)
    sink_keys: dict[Literal["phoenix", "mlflow", "langfuse"], SecretStr] = _setting(
        {}, "keys by platform: phoenix, mlflow, langfuse"
    )

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            """Validates explicit values only; `load` adds environment and file.

            Raises:
                ConfigError: A name is unknown or a value is not accepted.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _config_error(error, values) from None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """All settings. An address of a sink may have a key in it: the sink refuses it later."""
        for name, value in super().__repr_args__():
            yield name, tuple(map(masked, value)) if name == "sinks" else value

    @field_validator("*", mode="before")
    @classmethod
    def _no_bool_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        """`True` is a number to Python, but nobody means it by one."""
        fields = cls.model_fields
        if isinstance(value, bool) and fields[info.field_name or ""].annotation is not bool:
            raise ValueError
        return value

    @classmethod
    def load(cls, **explicit: Any) -> RagEvalConfig:
        """The settings of this process: explicit values over environment over file.

        Raises:
            ConfigError: A name is unknown, a value is not accepted, or the file is no TOML.
        """
        return cls(**merged(cls.model_fields, explicit))


def _config_error(error: ValidationError, values: dict[str, Any]) -> ConfigError:
    first = error.errors(include_url=False, include_context=False)[0]
    name = str(first["loc"][0])
    if name not in RagEvalConfig.model_fields:
        return ConfigError.unknown(name, "an unknown setting", RagEvalConfig.model_fields)
    if (nested := wanted_in(first["loc"], first["type"])) is not None:
        return ConfigError(nested[0], first["input"], nested[1])
    extra = RagEvalConfig.model_fields[name].json_schema_extra
    wants = str(extra["wants"]) if isinstance(extra, dict) else str(first["msg"])
    secret = name in (
        "judge_api_key",
        "judge_headers",
        "judge_query",
        "judge_base_url",
        "redact_ids_key",
        "sink_keys",
    )
    return ConfigError(name, "**********" if secret else values.get(name), wants)
