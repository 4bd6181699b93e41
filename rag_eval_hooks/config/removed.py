"""Settings that older versions had, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rag_eval_hooks.errors import ConfigError

__all__ = ["REMOVED", "unknown_setting"]

REMOVED: Final[dict[str, str]] = {}
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
    return ConfigError.unknown(written(name), written(name), map(written, known))
