"""Texts that were truncated before their redaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["MARGIN", "Truncated", "drop_margin", "join_lines", "truncate"]

MARGIN: Final = 400
"""Characters that a truncated text loses at its end after redaction, because a value that the cut
splits is not recognised. No address, number or token that the rules find is longer; a private key
is recognised by its first line."""


class Truncated(str):
    """A text that originally went on after its end. Its redaction is a `Truncated` too."""

    __slots__ = ()


def truncate(text: str, size: int) -> str:
    """Return the first `size` characters, as a `Truncated` if any were removed."""
    return text if len(text) <= size else Truncated(text[: max(0, size)])


def join_lines(texts: Sequence[str]) -> str:
    """Join texts by line breaks, up to and including the first truncated one."""
    for index, text in enumerate(texts):
        if isinstance(text, Truncated):
            return Truncated("\n".join(texts[: index + 1]))
    return "\n".join(texts)


def drop_margin(text: str) -> str:
    """Return a redacted text without the last `MARGIN` characters if it was truncated."""
    return text[: max(0, len(text) - MARGIN)] if isinstance(text, Truncated) else text
