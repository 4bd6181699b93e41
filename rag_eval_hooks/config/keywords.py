"""Settings as keywords of `RagEval`, with the types that it takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from pydantic import SecretStr

from rag_eval_hooks.config.rules import RuleSettings, TailSettings

__all__ = ["ArgumentKeywords", "SettingKeywords"]

_Names: TypeAlias = Sequence[str] | str
_Secret: TypeAlias = SecretStr | str


class SettingKeywords(TypedDict, total=False):
    """Keywords of `RagEval` that are neither arguments of their own nor objects."""

    config_file: str | os.PathLike[str] | None
    judge_base_url: str | None
    judge_api_key: _Secret | None
    judge_headers: Mapping[str, _Secret]
    judge_timeout: float
    judge_concurrency: int
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
    redact_ids_key: _Secret | None


class ArgumentKeywords(SettingKeywords, total=False):
    """Keywords of `RagEvalConfig`; `RagEval` takes objects for these too."""

    metrics: _Names
    judge: str
    sample_rate: float
    sinks: _Names
    embedder: str
    token_scorer: str
    run_on: Literal["thread", "celery"]
    redact: _Names
