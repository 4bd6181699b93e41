"""Every setting, in groups: its name, type, default and description stand here and nowhere else."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from rag_eval_hooks.config.fields import (
    Count,
    Names,
    NumberByName,
    OptionalShare,
    OptionalText,
    Redactions,
    Seconds,
    SecretByName,
    SettingsGroup,
    Share,
    Switch,
    TelemetryDetails,
    Temperature,
    Url,
    Variants,
    Wants,
    Weights,
    setting,
)
from rag_eval_hooks.config.rules import Budgets, MetricRates, RateLimits, Rules, TailRules
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS
from rag_eval_hooks.sink_providers import keys_wanted, sinks_wanted

__all__ = [
    "REDACTIONS",
    "DeliverySettings",
    "JudgeSettings",
    "LimitSettings",
    "PrivacySettings",
    "SamplingSettings",
    "ScoringSettings",
    "TelemetrySettings",
]

REDACTIONS = (
    "'none', 'all', or of 'email', 'phone', 'phone:<country>', 'card', 'iban', 'key', 'ip', "
    "'presidio', separated by commas; in code also rules and functions (text) -> text or "
    "(field, text) -> text"
)


class ScoringSettings(SettingsGroup):
    """Metrics, their variants, and the models that they need."""

    metrics: Annotated[Names, Wants("names of suites or metrics, separated by commas")] = setting(
        (),
        "Suites (`ragas`), single metrics (`ragas.faithfulness`) or `all`. By default all that a "
        "sample can feed: without a reference, those that need none.",
    )
    embedder: Annotated[str, AfterValidator(EMBEDDERS.check), Wants(EMBEDDERS.wanted)] = setting(
        "auto",
        "Model for embeddings: `auto`, `none`, `openai:<model>`, or `sentence-transformers`, with "
        "`:` and a name or path for another model than all-MiniLM-L6-v2. `auto` is the judge's "
        "endpoint with `text-embedding-3-small` for an OpenAI judge; for the local judge it is "
        "MiniLM where the `embeddings` extra is installed and the model is on disk: nothing is "
        "downloaded unasked.",
    )
    token_scorer: Annotated[
        str, AfterValidator(TOKEN_SCORERS.check), Wants(TOKEN_SCORERS.wanted)
    ] = setting(
        "none",
        "`none` or `bert-score`, with `:` and a name or path for another model than "
        "microsoft/deberta-xlarge-mnli. Feeds `graphrag.bert_score_f1`.",
    )
    variants: Variants = setting(
        (),
        "Other definitions of metrics: `dont_know_phrases` (`graphrag.answer_class` finds DON'T "
        "KNOW wherever a phrase for it occurs, not only where the answer says nothing else), "
        "`rank_aware_precision` (`graphrag.ragas_context_precision` depends on the ranks of the "
        "contexts), `paired_ratings` (two judge calls for the `nvidia` suite instead of six) and "
        "`single_calls` (a judge call for each finding, for small models).",
    )
    weights: Weights = setting(
        {},
        "Weights of composite scores, such as `graphrag.faithfulness=2`: of "
        "`graphrag.ragas_score` and `whitepaper.weighted_score`; parts left out keep theirs.",
    )
    question_checks: Annotated[OptionalText, Wants("the path of a TOML file, or 'none'")] = setting(
        None, "Path of a TOML file with checks by `question_id`."
    )
    references: Annotated[OptionalText, Wants("the path of a JSONL or CSV file, or 'none'")] = (
        setting(
            None,
            "Path of a golden file (JSON lines or CSV), or `none`. See [sampling.md](sampling.md).",
        )
    )
    references_threshold: OptionalShare = setting(
        None,
        "Least cosine between a question and a golden question whose reference it may use, or "
        "`none` for equal questions only. Needs an embedder.",
    )
    thresholds: Annotated[NumberByName, Wants("metric ids and numbers in the metric's scale")] = (
        setting(
            {},
            "Lowest passing values by metric, in its own scale, such as `ragas.faithfulness=0.8`.",
        )
    )

    @property
    def dont_know(self) -> Literal["refusal", "phrases"]:
        """Test by which DON'T KNOW answers are detected."""
        return "phrases" if "dont_know_phrases" in self.variants else "refusal"

    @property
    def graphrag_rank_aware(self) -> bool:
        """Let `graphrag.ragas_context_precision` depend on the ranks of the contexts."""
        return "rank_aware_precision" in self.variants

    @property
    def calls(self) -> Literal["fused", "single"]:
        """Shape of judge calls: all findings in two calls, or one call for each."""
        return "single" if "single_calls" in self.variants else "fused"

    @property
    def nvidia_calls(self) -> Literal["independent", "paired"]:
        """Judge calls for the ratings of the `nvidia` suite."""
        return "paired" if "paired_ratings" in self.variants else "independent"

    def weights_of(self, suite: str) -> dict[str, float]:
        """Return the weights given for one suite, by part."""
        parts = ((name.partition("."), weight) for name, weight in self.weights.items())
        return {part: weight for (of, _, part), weight in parts if of == suite}


class JudgeSettings(SettingsGroup):
    """The judge, its endpoint, and the limits of its calls."""

    judge: Annotated[str, AfterValidator(JUDGES.check), Wants(JUDGES.wanted)] = setting(
        "local", "`local` (embedded, no network) or `openai:<model>`."
    )
    judge_prices: Annotated[OptionalText, Wants("the path of a TOML file, or 'none'")] = setting(
        None, "Path of a TOML file with prices of models, for the cost on scores."
    )
    judge_base_url: Url = setting(
        None, "Base URL of an OpenAI-compatible endpoint, such as a gateway or vLLM."
    )
    judge_api_key: Annotated[SecretStr | None, Wants("a key")] = setting(
        None, "Key of that endpoint; never printed."
    )
    judge_headers: SecretByName = setting(
        {}, "Extra HTTP headers for a gateway; values are secret and never printed."
    )
    judge_temperature: Temperature = setting(0.0, "Sampling temperature, or `none` to send none.")
    judge_timeout: Seconds = setting(30.0, "Seconds for one judge call.")
    judge_retries: Annotated[int, Field(ge=0), Wants("a whole number, 0 or more")] = setting(
        3, "Further tries after a 429, a 5xx or a time-out."
    )
    judge_concurrency: Count = setting(
        16,
        "Samples evaluated at once, and judge calls in flight at once: fewer while many get a 429 "
        "or a time-out.",
    )


class SamplingSettings(SettingsGroup):
    """Which requests are evaluated, and what that may cost."""

    sample_rate: Share = setting(
        1.0, "Share of interactions to evaluate, 0 to 1; consistent by trace id."
    )
    metric_rates: Annotated[MetricRates, Wants("numbers from 0 to 1 by suite or metric id")] = (
        setting(
            {},
            "Inclusion probability of suites and metrics, 0 to 1; an id wins over its suite, and "
            "both over `sample_rate`. For this and the next four see [sampling.md](sampling.md).",
        )
    )
    rules: Annotated[Rules, Wants("tables, each with a rate")] = setting(
        (),
        "Tables with conditions on an interaction and a rate; the first that fits counts. In a "
        "variable, JSON.",
    )
    tail: Annotated[TailRules, Wants("tables, each with one condition and `then`")] = setting(
        (),
        "Tables with conditions on cheap results or feedback, and the metrics to evaluate then. "
        "In a variable, JSON.",
    )
    rate_limit: Annotated[
        RateLimits, Wants("whole numbers, 1 to 1000000, of 'second' and 'minute'")
    ] = setting({}, "Samples evaluated in any `second` and any `minute`, by this process.")
    budget: Annotated[
        Budgets,
        Wants(
            "numbers, 0 or more, of calls, tokens or cost, each _per_hour or _per_day; and path, "
            "the path of a file"
        ),
    ] = setting(
        {},
        "Limits of `calls`, `tokens` or `cost` of judge and embedder, each `_per_hour` or "
        "`_per_day` (UTC); and `path`, an SQLite file by which processes share one budget.",
    )

    @property
    def budget_limits(self) -> dict[str, float]:
        """Limits by unit and period, such as `calls_per_hour`."""
        return {name: limit for name, limit in self.budget.items() if isinstance(limit, float)}

    @property
    def budget_path(self) -> str | None:
        """Path of the file by which processes share the budget."""
        return next((path for path in self.budget.values() if isinstance(path, str)), None)


class LimitSettings(SettingsGroup):
    """Bounds of time and memory in the application's process."""

    model_process: Annotated[Literal["auto"] | bool, Wants("'auto', true or false")] = setting(
        "auto",
        "Run local models (sentence-transformers, bert-score) in a child process. `auto`: wherever "
        "one can be started, else in a thread. See [model-process.md](model-process.md).",
    )
    sample_timeout: Seconds = setting(120.0, "Seconds for all findings of one sample.")
    queue_size: Count = setting(1000, "Samples that may wait; one more is dropped and counted.")
    exit_timeout: Seconds = setting(
        5.0, "Seconds to finish waiting samples when the process exits."
    )
    interaction_ttl: Seconds = setting(
        600.0, "Seconds after which an interaction without an end is abandoned."
    )
    max_text_chars: Count = setting(
        20_000, "Characters of each context, of the question and of the answer."
    )
    feedback_samples: Annotated[int, Field(ge=0), Wants("a whole number, 0 or more")] = setting(
        1000, "Ended interactions that `feedback` can still join; 0 for none."
    )


class TelemetrySettings(SettingsGroup):
    """Spans, events and their content."""

    hold_timeout: Annotated[
        float, Field(ge=0, allow_inf_nan=False), Wants("seconds, 0 or more")
    ] = setting(10.0, "Seconds that a RAG span waits for its scores at most; 0 lets none wait.")
    spans: Annotated[
        Literal["auto", "all", "root", "none"], Wants("'auto', 'all', 'root' or 'none'")
    ] = setting(
        "auto",
        "Spans of requests: `auto` (none of ours where another instrumentor writes its own), "
        "`all`, `root` (the RAG span alone) or `none`.",
    )
    carrier: Annotated[Literal["trace", "child", "off"], Wants("'trace', 'child' or 'off'")] = (
        setting(
            "trace",
            "Evaluation span with all results: `trace` (in a trace of its own), `child` (below the "
            "RAG span) or `off`.",
        )
    )
    telemetry_details: TelemetryDetails = setting(
        (),
        "Further telemetry: `judge_calls` (a span for each call of judge, embedder and token "
        "scorer below the evaluation span), `score_events` (each score as an event of our RAG span "
        "too, with the request's end as its time) and `event_quotes` (explanations in log events "
        "may quote the application's texts).",
    )
    capture_content: Switch = setting(False, "Put question, contexts and answer on spans.")

    @property
    def hold(self) -> bool:
        """Let RAG spans wait for their scores."""
        return self.hold_timeout > 0

    @property
    def trace_judge(self) -> bool:
        """Write a span for each judge call."""
        return "judge_calls" in self.telemetry_details

    @property
    def span_events(self) -> bool:
        """Add each score as an event to the RAG span."""
        return "score_events" in self.telemetry_details

    @property
    def capture_event_content(self) -> bool:
        """Let explanations in log events quote the application's texts."""
        return "event_quotes" in self.telemetry_details


class DeliverySettings(SettingsGroup):
    """Sinks, retries, and the spool that outlives the process."""

    sinks: Annotated[Names, Wants(f"{sinks_wanted()}, separated by commas")] = setting(
        (), "Destinations of scores besides the span."
    )
    sink_keys: Annotated[dict[str, SecretStr], Wants(keys_wanted())] = setting(
        {}, "Keys of platforms; never printed."
    )
    sink_timeout: Seconds = setting(
        3.0,
        "Seconds that one call of a sink, or one request to a platform, may take; while a call "
        "takes longer, the sink misses what comes, or gets it later from the spool.",
    )
    sink_retry_for: Seconds = setting(
        60.0,
        "Seconds for which a platform that fails is sent the same scores again; with a spool, any "
        "sink, and at least so long.",
    )
    spool: Annotated[
        OptionalText, Wants("the path of a file in a folder that exists, or 'none'")
    ] = setting(
        None,
        "Path of an SQLite file that stores accepted samples and finished scores until they are "
        "delivered, or `none`; processes of one machine may share it. See "
        "[production.md](production.md).",
    )
    durability: Annotated[Literal["batch", "sync"], Wants("'batch' or 'sync'")] = setting(
        "batch",
        "`batch` (a process that is killed loses its last 50 ms at most) or `sync` (an `offer` "
        "that gives True is on disk, and waits for it).",
    )
    spool_wait: Seconds = setting(
        0.05, "Seconds that an offer waits for the disk at most, with `sync`."
    )
    spool_max_mb: Count = setting(
        512,
        "Megabytes that the spool may have; further samples are evaluated from memory alone and "
        "counted as `undurable`.",
    )


class PrivacySettings(SettingsGroup):
    """Redaction of texts before anything leaves the process."""

    redact: Annotated[Redactions, Wants(REDACTIONS)] = setting(
        (),
        "Kinds of text removed from samples, and from content on spans, before anything leaves: "
        "`email`, `phone`, `card`, `iban`, `key` (API keys, tokens, passwords), all of these by "
        "`all`; besides these `ip` and `presidio`. `phone:DE` recognises German numbers without "
        "their prefix, by default those of some 40 large countries. See [privacy.md](privacy.md).",
    )
    redact_patterns: Annotated[dict[str, str], Wants("names and regular expressions")] = setting(
        {}, "Regular expressions by name, likewise removed: `CUSTOMER` makes `<CUSTOMER_1>`."
    )
    redact_ids_key: Annotated[SecretStr | None, Wants("a key")] = setting(
        None, "Key with which ids of users and sessions are hashed; never printed."
    )
