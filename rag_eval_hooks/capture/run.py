"""What is remembered of a running interaction: its runs, and what passed through them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import SpanContext

from rag_eval_hooks.sample import Context, Status
from rag_eval_hooks.sinks.other_span import OtherSpan

__all__ = ["DocumentList", "Facts", "Interaction", "Others", "Run", "RunKind"]

Facts: TypeAlias = Mapping[str, str | int | float | bool]
"""Span attributes that the framework told, by their semantic-convention key."""

_NO_FACTS: Facts = MappingProxyType({})


class RunKind(StrEnum):
    """What a run does. Runs of the last four kinds become spans."""

    CHAIN = "chain"
    RETRIEVER = "retriever"
    MODEL = "model"
    TOOL = "tool"
    EMBEDDING = "embedding"


@dataclass(slots=True, eq=False)
class Run:
    """One step as the framework reports it.

    Attributes:
        id: The framework's id.
        kind: What it does.
        name: The framework's name for it.
        parent: The enclosing run, or None for a root.
        interaction: What it belongs to.
        start: Nanoseconds since the epoch.
        end: The same, or None while the run is open.
        prompt: Texts that a model was given, in order.
        text: What a model or the root gave out, as text.
        query: What a retriever or the root was asked.
        facts: Further span attributes.
        error_type: Class name of the exception that ended the run.
    """

    id: Hashable
    kind: RunKind
    name: str
    parent: Run | None
    interaction: Interaction
    start: int
    end: int | None = None
    prompt: tuple[str, ...] = ()
    text: str | None = None
    query: str | None = None
    facts: Facts = field(default_factory=lambda: _NO_FACTS)
    error_type: str | None = None

    def within(self, kind: RunKind) -> bool:
        """Whether an enclosing run is of a kind."""
        outer = self.parent
        while outer is not None and outer.kind is not kind:
            outer = outer.parent
        return outer is not None


@dataclass(frozen=True, slots=True)
class DocumentList:
    """Documents that a run gave out: candidates for what the model saw.

    Attributes:
        run: Who gave them.
        contexts: Snapshots, in order; possibly none.
    """

    run: Run
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Others:
    """What other instrumentors make of an interaction.

    Attributes:
        active: Whether one writes spans for it.
        span: Its span of the root run, where that can be reached.
        unrecorded: The context of that span, where it is in a trace that is not sampled.
    """

    active: bool = False
    span: OtherSpan | None = None
    unrecorded: SpanContext | None = None


@dataclass(slots=True, eq=False)
class Interaction:
    """One root run and all that happened in it.

    Attributes:
        otel: The application's OpenTelemetry context when it began.
        metadata: Metadata of the root run.
        tags: Its tags.
        runs: Every run in order of start, the root first.
        lists: Document lists in order of appearance.
        status: How it ended.
        others: What other instrumentors make of it, once that was looked for.
    """

    otel: OtelContext
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)
    lists: list[DocumentList] = field(default_factory=list)
    status: Status = Status.OK
    others: Others | None = None

    @property
    def root(self) -> Run:
        """The outermost run."""
        return self.runs[0]

    @property
    def chars(self) -> int:
        """Characters of text that this interaction keeps in memory."""
        documents = sum(_chars(c) for found in self.lists for c in found.contexts)
        prompts = sum(len(text) for run in self.runs for text in run.prompt)
        outputs = sum(len(run.text or "") + len(run.query or "") for run in self.runs)
        return documents + prompts + outputs + _text_chars(self.metadata)


def _chars(context: Context) -> int:
    return len(context.text) + _text_chars(context.metadata)


def _text_chars(values: Mapping[str, Any]) -> int:
    return sum(len(value) for value in values.values() if isinstance(value, str))
