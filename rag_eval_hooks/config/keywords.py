"""Types of all settings as keywords of `RagEval`, for type checkers and editors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic import SecretStr

from rag_eval_hooks.config.evaluation_groups import (
    JudgeSettings,
    SamplingSettings,
    ScoringSettings,
)
from rag_eval_hooks.config.groups import (
    DeliverySettings,
    LimitSettings,
    PrivacySettings,
    TelemetrySettings,
)
from rag_eval_hooks.config.rules import RuleSettings, TailSettings

__all__ = ["ArgumentKeywords", "SettingKeywords"]

Names: TypeAlias = Sequence[str] | str
Secret: TypeAlias = SecretStr | str
Rules: TypeAlias = Sequence[RuleSettings | Mapping[str, Any]]
TailRules: TypeAlias = Sequence[TailSettings | Mapping[str, Any]]


class SettingKeywords(TypedDict, total=False):
    """Settings that are keywords of `RagEval` by `**settings`, and their groups.

    A test keeps the names equal to those of `RagEvalConfig`.
    """

    scoring: ScoringSettings
    judging: JudgeSettings
    sampling: SamplingSettings
    limits: LimitSettings
    telemetry: TelemetrySettings
    delivery: DeliverySettings
    privacy: PrivacySettings
    variants: Names
    weights: Mapping[str, float]
    question_checks: str | None
    references: str | None
    references_threshold: float | None
    thresholds: Mapping[str, float]
    judge_prices: str | None
    judge_base_url: str | None
    judge_api_key: Secret | None
    judge_headers: Mapping[str, Secret]
    judge_timeout: float
    judge_retries: int
    judge_concurrency: int
    metric_rates: Mapping[str, float]
    rules: Rules
    tail: TailRules
    rate_limit: Mapping[str, int]
    budget: Mapping[str, float | str]
    model_process: Literal["auto"] | bool
    sample_timeout: float
    queue_size: int
    exit_timeout: float
    interaction_ttl: float
    max_text_chars: int
    feedback_samples: int
    hold_timeout: float
    spans: Literal["auto", "all", "root", "none"]
    evaluation_span: Literal["late", "child", "trace", "off"]
    telemetry_details: Names
    capture_content: bool
    content_max_length: int
    broker: Secret | None
    results: Literal["worker", "return"]
    sink_keys: Mapping[str, Secret]
    sink_timeout: float
    sink_retry_for: float
    spool: str | None
    spool_max_mb: int
    redact_patterns: Mapping[str, str]
    redact_ids_key: Secret | None


class ArgumentKeywords(SettingKeywords, total=False):
    """Settings that are keywords of `RagEvalConfig`; `RagEval` takes objects for these too."""

    metrics: Names
    judge: str
    sample_rate: float
    sinks: Names
    embedder: str
    token_scorer: str
    evaluator: Literal["thread", "celery"]
    redact: Names
