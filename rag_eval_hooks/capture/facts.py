"""Builds span attributes about calls, in OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Facts

_ENDPOINTS: Final = (
    "base_url",
    "api_base",
    "openai_api_base",
    "azure_endpoint",
    "anthropic_api_url",
    "endpoint_url",
)
INPUT_TOKENS: Final = ("input_tokens", "prompt_tokens", "prompt_eval_count")
OUTPUT_TOKENS: Final = ("output_tokens", "completion_tokens", "eval_count")
_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason", "stopReason")
_PORTS: Final = {"http": 80, "https": 443}
_SCALARS = (str, int, float, bool)


def facts_of(values: Mapping[str, Any]) -> Facts:
    plain = {key: one.value if isinstance(one, Enum) else one for key, one in values.items()}
    return {key: one for key, one in plain.items() if _is_attribute(one)}


def _is_attribute(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(one, str) for one in value)
    return isinstance(value, _SCALARS) and value != ""


def request_facts(holders: Sequence[Any]) -> Facts:
    heat = first(holders, ("temperature", "ls_temperature"))
    is_number = isinstance(heat, int | float) and not isinstance(heat, bool)
    temperature = {semconv.GEN_AI_REQUEST_TEMPERATURE: float(heat)} if is_number else {}
    return {**temperature, **_server(first(holders, _ENDPOINTS))}


def _server(url: Any) -> Facts:
    text = "" if url is None else str(url)
    try:
        parts = urlsplit(text if "//" in text else f"//{text}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return {}
    return facts_of({semconv.SERVER_ADDRESS: host, semconv.SERVER_PORT: port if host else None})


def reply_facts(holders: Sequence[Any], choices: Iterable[Sequence[Any]]) -> Facts:
    found = (first(choice, _FINISHES) for choice in choices)
    reasons = (one.value if isinstance(one, Enum) else one for one in found)
    return facts_of(
        {
            semconv.GEN_AI_RESPONSE_MODEL: first(holders, ("model_name", "model")),
            semconv.GEN_AI_RESPONSE_ID: first(holders, ("id",)),
            semconv.GEN_AI_FINISH_REASONS: tuple(r for r in reasons if isinstance(r, str) and r),
            semconv.GEN_AI_INPUT_TOKENS: first(holders, INPUT_TOKENS),
            semconv.GEN_AI_OUTPUT_TOKENS: first(holders, OUTPUT_TOKENS),
        }
    )


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    for holder in holders:
        for name in names:
            if (value := field(holder, name)) is not None:
                return value
    return None


def field(holder: Any, name: str) -> Any:
    if type(holder) is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
