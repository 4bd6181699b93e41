"""Names of runs, and names that the application gives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rag_eval_hooks.errors import ConfigError

__all__ = ["class_name", "name_or_none", "names", "users_tags"]


def class_name(serialized: Mapping[str, Any] | None) -> str | None:
    """The name of a tool, or the class behind a run that has no name of its own."""
    told = serialized or {}
    path = told.get("id")
    name = path[-1] if path else told.get("name")
    return None if name is None else str(name)


_FRAMEWORKS_TAG = re.compile(
    r"(seq:step|graph:step|condition|branch|retry:attempt):-?\d+|branch:default|map:key:.*"
    r"|langsmith:hidden|(langsmith:)?nostream"
)
"""What LangChain and LangGraph tag their steps with."""


def users_tags(tags: Sequence[str]) -> list[str]:
    """The tags that the application gave."""
    return [tag for tag in tags if not _FRAMEWORKS_TAG.fullmatch(tag)]


def name_or_none(field: str, value: Any) -> str | None:
    """A name that an argument gives, or None.

    Raises:
        ConfigError: It is neither.
    """
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigError(field, value, "a run's name")
    return None if value is None else str(value)


def names(field: str, value: Any) -> frozenset[str]:
    """The names that an argument gives.

    Raises:
        ConfigError: It is no collection of names; one text is none.
    """
    if isinstance(value, str) or not isinstance(value, Collection):
        raise ConfigError(field, value, "a list of names")
    if not all(isinstance(name, str) for name in value):
        raise ConfigError(field, value, "a list of names")
    return frozenset(value)
