"""Settings that older versions had, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rag_eval_hooks.errors import ConfigError, nearest

__all__ = ["REMOVED", "unknown_setting"]

_LIMIT: Final = "it is a fixed limit now, see rag_eval_hooks/config/limits.py"
_MODEL_PROCESS: Final = "only local models run in another process; see model_process"
_BATCH: Final = (
    "remove it, nothing takes its place: a thread writes every sample to the process's own spool "
    "file within 50 ms, and no request waits for the disk"
)
_OPENAI_JUDGE: Final = "give RagEval an OpenAIJudge with {} of its own instead"

REMOVED: Final[dict[str, str]] = {
    "bertscore_layer": "give RagEval token_scorer=BertScorer(layer=...) instead",
    "bertscore_rescale": "give RagEval token_scorer=BertScorer(rescale_with_baseline=True) instead",
    "budget_path": "write path = ... in the table budget",
    "calls": "write variants = 'single_calls' instead of 'single'",
    "capture_event_content": "write telemetry_details = 'event_quotes' instead of true",
    "carrier": "write evaluation_span = 'late' (the new default), 'child', 'trace' (as the default "
    "was) or 'off'",
    "dont_know": "write variants = 'dont_know_phrases' instead of 'phrases'",
    "durability": _BATCH,
    "evaluator_concurrency": "judge_concurrency bounds the samples evaluated at once too",
    "evaluator_idle": _MODEL_PROCESS,
    "evaluator_message_mb": _MODEL_PROCESS,
    "evaluator_nice": _MODEL_PROCESS,
    "evaluator_threads": _MODEL_PROCESS,
    "feedback_chars": f"{_LIMIT}; feedback_samples bounds what is remembered",
    "feedback_ttl": f"{_LIMIT}; feedback_samples bounds what is remembered",
    "graphrag_rank_aware": "write variants = 'rank_aware_precision' instead of true",
    "graphrag_weights": "write weights = {'graphrag.<part>': ...}",
    "hold": "write hold_timeout = 0 instead of false",
    "judge_attempts": _OPENAI_JUDGE.format("attempts"),
    "judge_breaker_failures": _OPENAI_JUDGE.format("breaker_failures"),
    "judge_breaker_pause": _OPENAI_JUDGE.format("breaker_pause"),
    "judge_memo": _OPENAI_JUDGE.format("memo=Memo(folder)"),
    "judge_query": _OPENAI_JUDGE.format("query"),
    "judge_temperature": _OPENAI_JUDGE.format("temperature")
    + "; it is 0, and none is sent to a model that refuses it",
    "max_contexts": f"{_LIMIT}; max_text_chars bounds each context",
    "max_explained": _LIMIT,
    "max_explanation_chars": _LIMIT,
    "max_held": f"{_LIMIT}; hold_timeout bounds the time that spans wait",
    "max_interaction_chars": f"{_LIMIT}; max_text_chars bounds each text",
    "max_open_interactions": f"{_LIMIT}; interaction_ttl bounds the time that one is open",
    "nvidia_calls": "write variants = 'independent_ratings' instead of 'independent'",
    "queue_chars": f"{_LIMIT}; set queue_size and max_text_chars for less memory",
    "redact_regions": "write the countries in redact: 'phone:DE, phone:FR'",
    "span_events": "write telemetry_details = 'score_events' instead of true",
    "trace_judge": "write telemetry_details = 'judge_calls' instead of true",
    "sink_keep_for": f"{_LIMIT}; a sink that is down gets the results of a day",
    "sink_keep_mb": "spool_max_mb bounds what waits for sinks, too",
    "sink_queue_chars": f"{_LIMIT}; with a spool, more waits there",
    "spool_wait": _BATCH,
    "verify_tokens": _OPENAI_JUDGE.format("verify_tokens"),
    "whitepaper_weights": "write weights = {'whitepaper.<part>': ...}",
    "workflow": "name the outermost run of the framework, or pass interaction(name=...)",
}
"""Advice by the name of a removed setting."""


def unknown_setting(name: str, known: Iterable[str], prefix: str = "") -> ConfigError:
    """Return the error for a name that is no setting, or no longer one.

    Args:
        name: The name of the setting as `RagEvalConfig` would have it.
        known: The names of all settings.
        prefix: What stands before the name where it was written: `RAG_EVAL_` for a variable.
    """

    def written(each: str) -> str:
        return f"{prefix}{each.upper()}" if prefix else each

    if name in REMOVED:
        return ConfigError.removed(written(name), REMOVED[name])
    near = nearest(name, sorted(known))
    return ConfigError.no_setting(written(name), None if near is None else written(near))
