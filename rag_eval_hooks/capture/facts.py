"""Span attributes about calls, in OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from rag_eval_hooks import semconv
from rag_eval_hooks.capture.records import Facts

__all__ = ["facts_of", "field", "finish_reasons", "first", "request_facts"]

_ENDPOINTS: Final = (
    "base_url",
    "api_base",
    "openai_api_base",
    "azure_endpoint",
    "anthropic_api_url",
    "endpoint_url",
)
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
    """Return temperature and server of a model call.

    Args:
        holders: Mappings or objects with the call's settings, in order of priority.
    """
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


def finish_reasons(replies: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    """Return the finish reasons of several replies.

    Args:
        replies: For each reply, the mappings or objects that may contain its finish reason.
    """
    found = (first(holders, _FINISHES) for holders in replies)
    plain = (one.value if isinstance(one, Enum) else one for one in found)
    return tuple(one for one in plain if isinstance(one, str) and one)


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    fields = (field(holder, name) for holder in holders for name in names)
    return next((value for value in fields if value is not None), None)


def field(holder: Any, name: str) -> Any:
    if type(holder) is dict or isinstance(holder, Mapping):
        return holder.get(name)
    return getattr(holder, name, None)
