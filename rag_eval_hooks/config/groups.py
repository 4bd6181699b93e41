"""Settings of operation: limits, telemetry, delivery and privacy.

Name, type, default and description of a setting stand here and nowhere else.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from rag_eval_hooks.config.fields import (
    Count,
    Names,
    OptionalText,
    Redactions,
    Seconds,
    SettingsGroup,
    Switch,
    TelemetryDetails,
    Wants,
    setting,
)
from rag_eval_hooks.sink_providers import keys_wanted, sinks_wanted

__all__ = [
    "BROKER",
    "REDACTIONS",
    "DeliverySettings",
    "LimitSettings",
    "PrivacySettings",
    "TelemetrySettings",
]

REDACTIONS = (
    "'none', 'all', or of 'email', 'phone', 'phone:<country>', 'card', 'iban', 'key', 'ip', "
    "'presidio', separated by commas; in code also rules and functions (text) -> text or "
    "(field, text) -> text"
)


BROKER = "redis://host:port/db, or amqp://user:password@host:port/vhost,redis://host:port/db"


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
    evaluation_span: Annotated[
        Literal["late", "child", "trace", "off"], Wants("'late', 'child', 'trace' or 'off'")
    ] = setting(
        "late",
        "Span with all results below the RAG span: `late` (for scores that came too late for the "
        "RAG span, or cannot be on it), `child` (always), `trace` (always, in a trace of its own) "
        "or `off`.",
    )
    telemetry_details: TelemetryDetails = setting(
        (),
        "Further telemetry: `judge_calls` (a span for each call of judge, embedder and token "
        "scorer below the evaluation span), `score_events` (each score as an event of our RAG span "
        "too, with the request's end as its time) and `event_quotes` (explanations in log events "
        "may quote the application's texts).",
    )
    capture_content: Switch = setting(
        False, "Put questions, messages, documents, tool calls and answers on spans."
    )
    content_max_length: Count = setting(
        20_000,
        "Characters of one attribute with content; longer texts are cut and end in `[...]`.",
    )

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
    """Workers on other machines, sinks, retries, and the spool that outlives the process."""

    evaluator: Annotated[
        Literal["thread", "celery"],
        Wants("'thread' or 'celery'; for local models in a process, model_process"),
    ] = setting(
        "thread",
        "Evaluation in a `thread` of the application, or by `celery` workers. See "
        "[fleet.md](fleet.md).",
    )
    broker: Annotated[SecretStr | None, Wants(BROKER)] = setting(
        None,
        "Broker of the workers: a URL of Redis; or one of RabbitMQ, a comma, and one of the Redis "
        "that holds limits and counts. Never printed.",
    )
    results: Annotated[Literal["worker", "return"], Wants("'worker' or 'return'")] = setting(
        "worker",
        "Scores go from the `worker` to telemetry and sinks alone, or `return` to the application "
        "too, for RAG spans that wait and for sinks passed in code.",
    )

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
    spool: Annotated[OptionalText, Wants("a folder, or a path in a folder that exists")] = setting(
        None,
        "Path of a folder that stores accepted samples and finished scores until they are "
        "delivered, or `none`; processes of one machine may share it. See "
        "[production.md](production.md).",
    )
    spool_max_mb: Count = setting(
        512,
        "Megabytes that the spool file of each process may have; further samples are evaluated "
        "from memory alone and counted as `undurable`.",
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
