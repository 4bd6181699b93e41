"""All settings: one frozen, validated object from arguments, environment and file.

Explicit arguments win over `RAG_EVAL_*` variables, these over `rag_eval_hooks.toml` or the
`[tool.rag_eval_hooks]` table of `pyproject.toml` in the working directory, these over a few
variables that are shared with other software (`OPENAI_API_KEY`, `OPENAI_BASE_URL`,
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`).
"""

from __future__ import annotations

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

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.sources import merged

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
    if parts.port == 0:
        raise ValueError
    return value


Url = Annotated[str, AfterValidator(_url)]
Weights = dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]
TOKEN_SCORERS = "'none' or 'bert-score[:<name or path>]'"
EMBEDDERS = "'auto', 'none', 'openai:<model>' or 'sentence-transformers[:<name or path>]'"


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
        judge_concurrency: Judge calls in flight at once.
        evaluator_concurrency: Samples evaluated at once.
        sample_timeout: Seconds for all findings of one sample.
        queue_size: Samples that may wait; one more is dropped and counted.
        queue_chars: Characters of text that all waiting samples may hold together.
        sink_timeout: Seconds that a sink may take for one sample; while it takes longer, it
            misses what comes.
        hold: Whether RAG spans wait for their scores.
        hold_timeout: Seconds that a span waits at most.
        max_held: Spans that may wait at once; one more ends at once.
        exit_timeout: Seconds to finish waiting samples when the process exits.
        interaction_ttl: Seconds after which an interaction without an end is abandoned.
        max_open_interactions: Interactions that may be open at once; the oldest is abandoned.
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
        max_explanation_chars: Characters of one metric's explanation in telemetry.
        thresholds: Least good values by metric, in its own scale, such as
            `ragas.faithfulness=0.8`: pass or fail.
        sink_retry_for: Seconds for which scores that a platform did not take are sent again.
        sink_queue_chars: Characters of scores and explanations that may wait for one platform.
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
        None, "a URL without credentials, such as http://localhost:8000/v1"
    )
    judge_api_key: SecretStr | None = _setting(None, "a key")
    judge_headers: dict[str, SecretStr] = _setting({}, "names and values")
    judge_query: dict[str, SecretStr] = _setting({}, "names and values")
    judge_temperature: Temperature = _setting(0.0, "a number from 0 to 2, or 'none'")
    judge_timeout: float = _seconds(30.0)
    judge_retries: int = _setting(3, "a whole number, 0 or more", ge=0)
    judge_concurrency: int = _count(16)
    evaluator_concurrency: int = _count(16)
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
    max_contexts: int = _count(50)
    max_text_chars: int = _count(20_000)
    capture_content: bool = _setting(False, "true or false")
    workflow: Optional = _setting(None, "a name, or 'none'")
    capture_event_content: bool = _setting(False, "true or false")
    spans: Literal["auto", "all", "root", "none"] = _setting(
        "auto", "'auto', 'all', 'root' or 'none'"
    )
    carrier: Literal["trace", "child", "off"] = _setting("trace", "'trace', 'child' or 'off'")
    max_explanation_chars: int = _count(4000)
    thresholds: dict[str, Annotated[float, Field(allow_inf_nan=False)]] = _setting(
        {}, "metric ids and numbers in the metric's scale"
    )
    sink_retry_for: float = _seconds(60.0)
    sink_queue_chars: int = _count(10_000_000)
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
    extra = RagEvalConfig.model_fields[name].json_schema_extra
    wants = str(extra["wants"]) if isinstance(extra, dict) else str(first["msg"])
    secret = name in (
        "judge_api_key",
        "judge_headers",
        "judge_query",
        "judge_base_url",
        "sink_keys",
    )
    return ConfigError(name, "**********" if secret else values.get(name), wants)
