"""`Sample`: one question with retrieved contexts and an answer."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import StrEnum
from functools import partial
from numbers import Integral
from typing import Any, Self
from uuid import UUID

from rag_eval_hooks.context import Context, contexts_of
from rag_eval_hooks.errors import (
    InputError,
    check_names,
    check_number,
    check_type,
    member,
    wrong_type,
)

__all__ = ["Context", "Field", "Sample", "Status"]

_OTHER_NAMES = {
    "user_input": "question",
    "retrieved_contexts": "contexts",
    "response": "answer",
    "reference_context_ids": "reference_ids",
}
_TEXTS = ("question", "answer", "reference")
_IDS = ("question_id", "session_id", "user_id")
_NAMES = ("error_type", "trace_id", "span_id", "workflow", "response_id", "sample_id")
_PARTS = ("question", "contexts", "answer", "prompt")


class Status(StrEnum):
    """How a request ended.

    By default, only `OK` requests get scores. A sampling rule with `error` adds `ERROR` requests.
    """

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    """The application closed the stream early, so the answer is incomplete."""
    ABANDONED = "abandoned"
    """The request did not finish within ten minutes."""
    INTERRUPTED = "interrupted"
    """The request waited for human input, which did not arrive within ten minutes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One request to a RAG pipeline: question, retrieved contexts and answer.

    Attributes:
        contexts: Retrieved chunks in the order in which the answering model saw them. None if no
            retrieval ran, and empty if retrieval found nothing. The constructor also accepts texts
            and documents.
        answer: The answer that the user received, or None.
        reference: The known correct answer, or None.
        reference_ids: Ids of the chunks known to be relevant, or None.
        question_id: The question's id in a set of known questions.
        error_type: Qualified class name of the exception if `status` is `ERROR`.
        latency: Duration of the request in seconds, or None if unknown.
        truncated: Names of incomplete texts, such as `contexts[2].text`. A limit cut the text, or
            capture lost a part of the text.
        context_source: Rule that selected the contexts, such as `prompt`, or None without
            retrieval. docs/capture-reference.md explains each rule.
        question_source: Rule that found the question, such as `input`.
        trace_id: The RAG span's trace id, 32 hex digits, or None without a span.
        span_id: The RAG span's id, 16 hex digits, or None without a span.
        workflow: Name of the pipeline, as on its RAG span.
        response_id: Id of the model's reply, or None. Equality ignores this field.
        ended_at: Time at which the request finished, in nanoseconds since the epoch, or None.
            Equality ignores this field.
        sample_id: Unique id of this sample. Equality ignores this field.
    """

    question: str
    _: KW_ONLY
    contexts: tuple[Context, ...] | None = None
    answer: str | None = None
    reference: str | None = None
    reference_ids: tuple[str, ...] | None = None
    question_id: str | None = None
    status: Status = Status.OK
    error_type: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    latency: float | None = None
    truncated: tuple[str, ...] = ()
    context_source: str | None = None
    question_source: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    workflow: str | None = None
    response_id: str | None = field(default=None, compare=False)
    ended_at: int | None = field(default=None, compare=False)
    sample_id: str = field(default_factory=partial(secrets.token_hex, 16), compare=False)

    def __post_init__(self) -> None:
        _check_fields(self)
        converted: dict[str, Any] = {
            "status": member("status", Status, self.status),
            "metadata": {} if self.metadata is None else self.metadata,
            "tags": texts_of("tags", self.tags),
            "truncated": tuple(self.truncated),
        }
        if self.contexts is not None:
            converted["contexts"] = contexts_of(self.contexts)
        if self.reference_ids is not None:
            converted["reference_ids"] = texts_of("reference_ids", self.reference_ids)
        for name, value in converted.items():
            object.__setattr__(self, name, value)

    @property
    def cut_parts(self) -> tuple[str, ...]:
        """The incomplete ones of `question`, `contexts`, `answer` and `prompt`."""
        cut = {re.split(r"[.\[]", name, maxsplit=1)[0] for name in self.truncated}
        return tuple(part for part in _PARTS if part in cut)

    @property
    def chars(self) -> int:
        count = len(self.question) + len(self.answer or "") + len(self.reference or "")
        for context in self.contexts or ():
            count += len(context.text)
        return count

    def to_dict(self) -> dict[str, Any]:
        """Return the sample as plain types. Omit fields that have their default value."""
        plain = _plain(self)
        plain["status"] = self.status.value
        if self.status is Status.OK:
            del plain["status"]
        if self.contexts is not None:
            plain["contexts"] = [_plain(context) for context in self.contexts]
        return plain

    @classmethod
    def of(cls, value: Sample | Mapping[str, Any]) -> Sample:
        """Return a sample unchanged, or convert a mapping with `from_dict`.

        Raises:
            TypeError: The value is neither a sample nor a mapping, or a field has the wrong type.
        """
        if isinstance(value, Sample):
            return value
        if isinstance(value, Mapping):
            return cls.from_dict(value)
        wanted = "a Sample, or a mapping with question, contexts and answer"
        advice = "Pass one sample to each call." if isinstance(value, list | tuple) else ""
        raise wrong_type("A sample", wanted, value, advice)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Create a sample from a mapping, such as the output of `to_dict`.

        The mapping may use the field names of ragas: `user_input`, `retrieved_contexts`, `response`
        and `reference_context_ids`. Unknown keys become metadata.

        Raises:
            TypeError: `question` is missing, or a field has the wrong type.
        """
        own: dict[str, Any] = {}
        free: dict[str, Any] = {}
        for key, value in data.items():
            name = _OTHER_NAMES.get(key, key)
            # This package's name overrides another library's name.
            if name == key or name not in data:
                (own if name in cls.__dataclass_fields__ else free)[name] = value
        if "question" not in own:
            shown = f"The keys are: {', '.join(map(repr, data)) or 'none'}."
            raise InputError("A sample needs a 'question'.", shown)
        given = own.get("metadata") or {}
        check_type("metadata", given, Mapping, "a mapping")
        return cls(**{**own, "metadata": {**given, **free}})


def sample_of(method: str, value: Any, given: Mapping[str, Any]) -> Sample:
    if value is not None and given:
        shown = f"Got {', '.join(given)}."
        raise InputError(f"{method}() takes a sample or keyword fields, not both.", shown)
    if given:
        check_names("A sample has no field", given, [f.name for f in fields(Sample)])
        return Sample.from_dict(given)
    return Sample.of(value)


class Field(StrEnum):
    """Fields of a sample that metrics and findings may need."""

    QUESTION = "question"
    CONTEXTS = "contexts"
    ANSWER = "answer"
    REFERENCE = "reference"
    REFERENCE_IDS = "reference_ids"

    @classmethod
    def lacking(cls, sample: Sample) -> frozenset[Field]:
        """Return the fields that the sample lacks. A blank question counts as missing."""
        absent = {name for name in cls if getattr(sample, name) is None}
        return frozenset(absent if sample.question.strip() else absent | {cls.QUESTION})


def _check_fields(sample: Sample) -> None:
    if sample.question is None:
        raise wrong_type("question", "str", None, "Pass the user's question.")
    for name in _IDS:
        if isinstance(value := getattr(sample, name), (int, UUID)):
            object.__setattr__(sample, name, str(value))
    _check_hex(sample)
    for name in (*_TEXTS, *_IDS, *_NAMES):
        if (value := getattr(sample, name)) is not None and not isinstance(value, str):
            raise wrong_type(name, "str", value)
    check_type("metadata", sample.metadata, Mapping, "a mapping")
    check_number("latency", sample.latency, "a number of seconds, 0 or more", least=0)
    check_type("ended_at", sample.ended_at, Integral, "nanoseconds since the epoch")
    if isinstance(sample.contexts, str):
        advice = "Put the text into a list."
        raise wrong_type("contexts", "a sequence of texts or documents", sample.contexts, advice)
    if isinstance(sample.reference_ids, str):
        raise wrong_type("reference_ids", "a sequence of ids", sample.reference_ids)


def _check_hex(sample: Sample) -> None:
    for name, digits in (("trace_id", 32), ("span_id", 16)):
        # The ids in OpenTelemetry's span contexts are integers.
        if isinstance(value := getattr(sample, name), int):
            object.__setattr__(sample, name, value := f"{value:0{digits}x}")
        if isinstance(value, str) and not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", value):
            raise InputError(f"{name} must be {digits} hex digits.", f"It is {value!r:.60}.")


def texts_of(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str):
        return (values,)
    check_type(name, values, Iterable, "a list of texts")
    return () if values is None else tuple(map(str, values))


def _plain(one: Sample | Context) -> dict[str, Any]:
    values = {f.name: getattr(one, f.name) for f in fields(one)}
    values["metadata"] = dict(one.metadata)
    return {key: value for key, value in values.items() if value not in (None, (), {})}
