"""Keeps attributes of metrics from having ever more values."""

from __future__ import annotations

__all__ = ["Few"]

_MOST_VALUES = 50
"""Different values that one attribute may have; further ones become `other`."""


class Few:
    """Values by attribute, each of which is a series of its own."""

    def __init__(self) -> None:
        self._known: dict[str, set[str]] = {}

    def of(self, attribute: str, value: str) -> str:
        """The value, or `other` where the attribute has too many already."""
        known = self._known.setdefault(attribute, set())
        if value not in known and len(known) >= _MOST_VALUES:
            return "other"
        known.add(value)
        return value
