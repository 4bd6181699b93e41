"""Texts whose end was cut off before they were redacted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["MARGIN", "Divided", "cut_to", "joined", "undivided"]

MARGIN: Final = 400
"""Characters that a text loses at the end where it was cut: what the cut divided would not be
recognised. No address, number or token that is looked for is longer, and a private key is known by
its first line."""


class Divided(str):
    """A text that goes on where it was cut. Its redaction is one too."""

    __slots__ = ()


def cut_to(text: str, size: int) -> str:
    """As much of a text as is allowed, which knows that it was cut."""
    return text if len(text) <= size else Divided(text[: max(0, size)])


def joined(texts: Sequence[str]) -> str:
    """Lines of text, up to the first that was cut: there the whole is."""
    for place, text in enumerate(texts):
        if isinstance(text, Divided):
            return Divided("\n".join(texts[: place + 1]))
    return "\n".join(texts)


def undivided(text: str) -> str:
    """A redacted text without what a cut may have kept from being recognised."""
    return text[: max(0, len(text) - MARGIN)] if isinstance(text, Divided) else text
