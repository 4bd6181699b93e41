"""Metadata of a request: session, user, and checkpoint thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

__all__ = ["ID_TYPES", "OWN_KEYS", "TEXT_KEYS", "own_entries", "session_of", "thread_of"]

_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_THREAD_KEYS = ("thread_id", "checkpoint_ns", "assistant_id")
ID_TYPES = (str, int, UUID)
"""Types of an id or a reference."""
TEXT_KEYS = (*_SESSION_KEYS, "user_id", "question_id", "reference")
OWN_KEYS = (*TEXT_KEYS, "reference_ids")
"""Metadata keys with their own field on the sample."""


def session_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the session that metadata names, or None."""
    ids = (metadata.get(key) for key in _SESSION_KEYS)
    return next((str(value) for value in ids if isinstance(value, ID_TYPES)), None)


def thread_of(name: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the key of a resumable run: its name and its thread; None without a thread."""
    if metadata.get("thread_id") is None:
        return None
    return "/".join([name, *(str(metadata.get(key) or "") for key in _THREAD_KEYS)])


def own_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries with their own field on the sample."""
    return {key: values[key] for key in OWN_KEYS if values.get(key) is not None}
