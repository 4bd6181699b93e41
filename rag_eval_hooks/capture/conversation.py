"""Reads session, user and checkpoint thread from a request's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

__all__ = ["OWN_KEYS", "objects_in", "own_entries", "session_of", "thread_of"]

_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_THREAD_KEYS = ("thread_id", "checkpoint_ns", "assistant_id")
_TEXT_KEYS = (*_SESSION_KEYS, "user_id", "question_id", "reference")
OWN_KEYS = (*_TEXT_KEYS, "reference_ids")
"""Metadata keys that have their own field on the sample."""


def session_of(metadata: Mapping[str, Any]) -> str | None:
    value = next((metadata[key] for key in _SESSION_KEYS if metadata.get(key) is not None), None)
    return value if value is None or isinstance(value, str) else str(value)


def thread_of(name: str, metadata: Mapping[str, Any]) -> str | None:
    if metadata.get("thread_id") is None:
        return None
    return "/".join([name, *(str(metadata.get(key) or "") for key in _THREAD_KEYS)])


def objects_in(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: f"metadata {key!r} must be a text or a number, not {type(metadata[key]).__name__}"
        for key in _TEXT_KEYS
        if not isinstance(metadata.get(key), str | int | UUID | None)
    }


def own_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in OWN_KEYS if values.get(key) is not None}
