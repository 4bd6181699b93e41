"""Builds the sample of an ended interaction, within the content limits. Off the request path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rag_eval_hooks.capture.contexts import find_contexts
from rag_eval_hooks.capture.run import Interaction
from rag_eval_hooks.sample import Context, Sample

__all__ = ["assemble", "session_of"]

_SESSION_KEYS = ("session_id", "thread_id", "conversation_id")
_OWN_KEYS = frozenset({*_SESSION_KEYS, "user_id", "question_id", "reference"})
_FRAMEWORK_PREFIXES = ("ls_", "langgraph_", "checkpoint_", "lc_")


def assemble(
    interaction: Interaction,
    *,
    trace_id: str | None,
    span_id: str | None,
    workflow: str | None = None,
    max_contexts: int,
    max_text_chars: int,
) -> Sample:
    """The sample of an interaction.

    Args:
        interaction: An ended one.
        trace_id: Of the RAG span, where one is recorded.
        span_id: Of the RAG span.
        workflow: Name of the pipeline, or None for the root run's.
        max_contexts: Contexts kept.
        max_text_chars: Characters kept of each text: question, answer, reference, contexts,
            values of metadata.
    """
    root = interaction.root
    told = interaction.metadata
    cut = _Cut(max_text_chars)
    return Sample(
        question=cut.text("question", root.query or ""),
        contexts=cut.contexts(find_contexts(interaction), max_contexts),
        answer=cut.optional("answer", root.text),
        reference=cut.optional("reference", _text(told, "reference")),
        question_id=_text(told, "question_id"),
        status=interaction.status,
        error_type=root.error_type,
        session_id=session_of(told),
        user_id=_text(told, "user_id"),
        tags=interaction.tags,
        metadata=cut.metadata("metadata", {k: v for k, v in told.items() if _is_free(k)}),
        truncated=tuple(cut.fields),
        trace_id=trace_id,
        span_id=span_id,
        workflow=workflow or interaction.root.name,
    )


def session_of(metadata: Mapping[str, Any]) -> str | None:
    """The conversation that a run's metadata names."""
    for key in _SESSION_KEYS:
        if (value := _text(metadata, key)) is not None:
            return value
    return None


def _text(metadata: Mapping[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    return None if value is None else str(value)


def _is_free(key: str) -> bool:
    return key not in _OWN_KEYS and not key.startswith(_FRAMEWORK_PREFIXES)


class _Cut:
    """Cuts texts to a limit and notes which fields were cut."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.fields: list[str] = []

    def text(self, field: str, text: str) -> str:
        if len(text) <= self._limit:
            return text
        self.fields.append(field)
        return text[: self._limit]

    def contexts(
        self, contexts: tuple[Context, ...] | None, most: int
    ) -> tuple[Context, ...] | None:
        if contexts is None:
            return None
        if len(contexts) > most:
            self.fields.append("contexts")
        return tuple(
            replace(
                context,
                text=self.text(f"contexts[{place}].text", context.text),
                metadata=self.metadata(f"contexts[{place}].metadata", context.metadata),
            )
            for place, context in enumerate(contexts[:most])
        )

    def optional(self, field: str, text: str | None) -> str | None:
        return None if text is None else self.text(field, text)

    def metadata(self, field: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Texts cut to the limit; a value that is larger in writing is left out."""
        kept: dict[str, Any] = {}
        for key, value in values.items():
            name = f"{field}.{key}"
            if isinstance(value, str):
                kept[key] = self.text(name, value)
            elif isinstance(value, int | float | bool | None) or len(repr(value)) <= self._limit:
                kept[key] = value
            else:
                self.fields.append(name)
        return kept
