"""The unit of evaluation: one question, what was retrieved for it, and what was answered."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Self

__all__ = ["Context", "Sample", "Status"]


class Status(StrEnum):
    """End of an interaction. Only `OK` is scored; the others are counted."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    """The reader dropped the stream before its end: the answer is cut."""
    ABANDONED = "abandoned"
    """No end was ever reported within the time limit."""
    INTERRUPTED = "interrupted"
    """It waited for somebody, and was not resumed within the time limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One retrieved chunk, as the answering model saw it.

    Attributes:
        text: The chunk's text.
        id: The document store's id, if it gave one.
        score: The retriever's or reranker's score in its own unit, if it gave one.
        metadata: Scalar metadata of the document.
    """

    text: str
    id: str | None = None
    score: float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Context | str | Mapping[str, Any]) -> Context:
        """Return a context from a context, a plain text, or a mapping with the same keys."""
        if isinstance(value, Context):
            return value
        if isinstance(value, str):
            return cls(text=value)
        if isinstance(value, Mapping):
            return cls(**value)
        raise TypeError(f"contexts: got {type(value).__name__}; wants str, Context or mapping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request to a RAG pipeline: question, retrieved contexts and answer.

    Attributes:
        question: Question of the user.
        contexts: Chunks that the answering model saw, in its order. `None` if no retrieval ran;
            empty if retrieval found nothing. Texts are accepted too.
        answer: Answer that the user got, or `None` if there was none.
        reference: Known right answer, if there is one.
        question_id: The question's id in a set of known questions.
        status: End of the interaction.
        error_type: Qualified name of the exception's class when `status` is `ERROR`.
        session_id: The conversation, for grouping.
        user_id: The user, for grouping.
        tags: Free labels.
        metadata: Free keys.
        latency: Seconds from the request's beginning to its end, if known.
        truncated: Fields that were cut to the content limits, such as `contexts[2].text`.
        trace_id: 32 hex digits of the RAG span's trace, if a span was recorded.
        span_id: 16 hex digits of the RAG span.
        workflow: Name of the pipeline, as on its RAG span.
        sample_id: Unique id of this sample; not part of equality.
    """

    question: str
    contexts: tuple[Context, ...] | None = None
    answer: str | None = None
    reference: str | None = None
    question_id: str | None = None
    status: Status = Status.OK
    error_type: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    latency: float | None = None
    truncated: tuple[str, ...] = ()
    trace_id: str | None = None
    span_id: str | None = None
    workflow: str | None = None
    sample_id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    def __post_init__(self) -> None:
        """Convert lists and plain texts to the declared types.

        Raises:
            TypeError: A text field is no text, or `contexts` is a bare string.
        """
        _check_texts(self)
        if self.contexts is not None:
            object.__setattr__(self, "contexts", _contexts(self.contexts))
        object.__setattr__(self, "status", Status(self.status))
        object.__setattr__(self, "tags", tuple(self.tags))

    @property
    def chars(self) -> int:
        """Number of characters of its texts."""
        texts = (self.question, self.answer or "", self.reference or "")
        contexts = sum(len(context.text) for context in self.contexts or ())
        return contexts + sum(map(len, texts))

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as plain types; a field at its default is left out."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["status"] = None if self.status is Status.OK else self.status.value
        plain["metadata"] = dict(self.metadata)
        plain["contexts"] = None if self.contexts is None else [_plain(c) for c in self.contexts]
        return {
            key: value
            for key, value in plain.items()
            if key == "question" or value == [] or value not in (None, (), {})
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return a sample from the output of `to_dict`; unknown keys go to `metadata`.

        Raises:
            TypeError: `question` is missing, or a field has the wrong type.
        """
        names = {f.name for f in fields(cls)}
        known = {key: value for key, value in data.items() if key in names}
        free = {key: value for key, value in data.items() if key not in names}
        known["metadata"] = {**known.get("metadata", {}), **free}
        return cls(**known)


def _check_texts(sample: Sample) -> None:
    for name in ("question", "answer", "reference"):
        value = getattr(sample, name)
        if not isinstance(value, str) and (value is not None or name == "question"):
            raise TypeError(f"{name}: got {type(value).__name__}; wants str")


def _contexts(values: Sequence[Any]) -> tuple[Context, ...]:
    if isinstance(values, str):
        raise TypeError("contexts: got one str; wants a sequence of texts or Contexts")
    return tuple(map(Context.of, values))


def _plain(context: Context) -> dict[str, Any]:
    if not context.metadata and context.id is None and context.score is None:
        return {"text": context.text}
    values = {f.name: getattr(context, f.name) for f in fields(context)}
    values["metadata"] = dict(context.metadata)
    return {key: value for key, value in values.items() if value not in (None, {})}
