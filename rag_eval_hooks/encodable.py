"""Text without lone surrogates, which some models return and UTF-8 cannot encode."""

from __future__ import annotations

__all__ = ["encodable"]


def encodable(text: str) -> str:
    """Return the text with a question mark for each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
