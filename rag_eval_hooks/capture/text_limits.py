"""Keeps what an open interaction holds within its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rag_eval_hooks.capture.interaction import Interaction
from rag_eval_hooks.redaction.truncated import truncate
from rag_eval_hooks.sample import Context

__all__ = ["Room"]

_REPEATED = 8
"""A text that is held already takes no memory until prompts are put together: a part of it counts.
"""


class Room:
    """Limits on the text of one interaction.

    Args:
        max_chars: Of all its texts together.
        max_text_chars: Of one text. One character more is kept, so that it can be told later
            that something was cut.

    Attributes:
        longest: Characters that are kept of one text.
    """

    def __init__(self, max_chars: int, max_text_chars: int) -> None:
        self._max_chars = max_chars
        self.longest = max_text_chars + 1

    def text(self, interaction: Interaction, text: str, *, always: bool = False) -> str:
        """As much of a text as may be kept; one that is always kept is only cut."""
        if always:
            return truncate(text, self.longest)
        return self._kept(interaction, text, self.longest)

    def prompt(self, interaction: Interaction, texts: Sequence[str]) -> tuple[str, ...]:
        """A prompt, which is only cut where the interaction is full: contexts stand in it."""
        return tuple(self._shared(interaction, text) for text in texts)

    def _shared(self, interaction: Interaction, text: str) -> str:
        """A text of a prompt; each call of an agent is given all that the last one was."""
        known = interaction.prompted.get(text)
        if known is not None and interaction.kept_chars < self._max_chars:
            interaction.kept_chars += len(text) // _REPEATED
            return known
        kept = self._kept(interaction, text, self._max_chars)
        if kept is text:
            interaction.prompted[text] = text
        return kept

    def contexts(
        self, interaction: Interaction, contexts: Sequence[Context]
    ) -> tuple[Context, ...]:
        """As many documents as may be kept, cut where they are too long."""
        size = self._size(contexts)
        if size is not None and interaction.kept_chars + size <= self._max_chars:
            interaction.kept_chars += size
            return tuple(contexts)
        return tuple(self._cut(interaction, contexts))

    def _size(self, contexts: Sequence[Context]) -> int | None:
        """Characters of all texts, or None where one is too long."""
        size = 0
        for context in contexts:
            for text in (context.text, *context.metadata.values()):
                if isinstance(text, str):
                    if len(text) >= self.longest:
                        return None
                    size += len(text)
        return size

    def _cut(self, interaction: Interaction, contexts: Sequence[Context]) -> Iterator[Context]:
        for context in contexts:
            if interaction.kept_chars >= self._max_chars:
                interaction.full = True
                return
            text = self.text(interaction, context.text)
            metadata = self.metadata(interaction, context.metadata)
            yield replace(context, text=text, metadata=metadata)

    def metadata(self, interaction: Interaction, values: Mapping[str, Any]) -> dict[str, Any]:
        """Metadata with its texts cut."""
        return {
            key: self.text(interaction, value) if isinstance(value, str) else value
            for key, value in values.items()
        }

    def _kept(self, interaction: Interaction, text: str, longest: int) -> str:
        room = self._max_chars - interaction.kept_chars
        size = len(text)
        if size > longest:
            size = longest
        if size > room:
            interaction.full = True
            size = max(room, 0)
        interaction.kept_chars += size
        return truncate(text, size)
