"""Reads fields that providers spell in different ways."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["INPUT_TOKENS", "OUTPUT_TOKENS", "field", "first"]

INPUT_TOKENS = ("prompt_tokens", "input_tokens", "prompt_eval_count")
OUTPUT_TOKENS = ("completion_tokens", "output_tokens", "eval_count")


def first(holders: Iterable[Any], names: Sequence[str]) -> Any:
    """The first field of these names that any of the holders has."""
    found = (field(holder, name) for holder in holders for name in names)
    return next((value for value in found if value is not None), None)


def field(holder: Any, name: str) -> Any:
    """A field of a mapping or an object, or None."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
