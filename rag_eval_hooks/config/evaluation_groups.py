"""Settings of evaluation: metrics, judge and sampling.

Name, type, default and description of a setting stand here and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from rag_eval_hooks.config.fields import (
    Count,
    Names,
    NumberByName,
    OptionalShare,
    OptionalText,
    Seconds,
    SecretByName,
    SettingsGroup,
    Share,
    Url,
    Variants,
    Wants,
    Weights,
    setting,
)
from rag_eval_hooks.config.rules import Budgets, MetricRates, RateLimits, Rules, TailRules
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS

__all__ = [
    "JudgeSettings",
    "SamplingSettings",
    "ScoringSettings",
]


class ScoringSettings(SettingsGroup):
    """Metrics, their variants, and the models that they need."""

    metrics: Annotated[Names, Wants("names of suites or metrics, separated by commas")] = setting(
        (),
        "Suites (`ragas`), single metrics (`ragas.faithfulness`) or `all`; `-` before a name takes "
        "away. By default those of `ragas` that a sample can feed: without a reference, those "
        "that need none.",
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
        "contexts), `independent_ratings` (six judge calls for the `nvidia` suite instead of four: "
        "ratings of the contexts by one template share none) and "
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
        return "independent" if "independent_ratings" in self.variants else "paired"

    def weights_of(self, suite: str) -> dict[str, float]:
        """Return the weights given for one suite, by part."""
        parts = ((name.partition("."), weight) for name, weight in self.weights.items())
        return {part: weight for (of, _, part), weight in parts if of == suite}


class JudgeSettings(SettingsGroup):
    """The judge, its endpoint, and the limits of its calls."""

    judge: Annotated[str, AfterValidator(JUDGES.check), Wants(JUDGES.wanted)] = setting(
        "local",
        "`local` (embedded, no network), `nli:<model>` (the same with an entailment model on this "
        "machine) or `openai:<model>`.",
    )
    judge_prices: Annotated[OptionalText, Wants("the path of a TOML file, or 'none'")] = setting(
        None,
        "Path of a TOML file with prices of models, over the list of the extra `prices`.",
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
            "numbers, 0 or more, of calls, tokens or cost, each _per_hour or _per_day; "
            "calls_per_second; and path, the path of a file or the URL of a Redis"
        ),
    ] = setting(
        {},
        "Limits of `calls`, `tokens` or `cost` of judge and embedder, each `_per_hour` or "
        "`_per_day` (UTC); `calls_per_second`, above which a call waits for its turn; and `path`, "
        "an SQLite file or a Redis by which processes share one budget, as a fleet's workers do.",
    )

    @property
    def budget_limits(self) -> dict[str, float]:
        """Limits by unit and period, such as `calls_per_hour`."""
        return {
            name: limit
            for name, limit in self.budget.items()
            if isinstance(limit, float) and name != "calls_per_second"
        }

    @property
    def calls_per_second(self) -> float | None:
        """Calls in a second, or None without a limit."""
        rate = self.budget.get("calls_per_second")
        return rate if isinstance(rate, float) and rate > 0 else None

    @property
    def budget_path(self) -> str | None:
        """Path of the file by which processes share the budget."""
        return next((path for path in self.budget.values() if isinstance(path, str)), None)
