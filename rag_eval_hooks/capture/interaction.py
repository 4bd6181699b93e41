"""Runs of a framework, and the interaction that they make up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import SpanContext

from rag_eval_hooks.capture.capture_options import CaptureOptions
from rag_eval_hooks.capture.places import Place
from rag_eval_hooks.sample import Context, Status
from rag_eval_hooks.telemetry.other_span import OtherSpan

__all__ = [
    "DocumentList",
    "Facts",
    "Interaction",
    "Origin",
    "Others",
    "Run",
    "RunKind",
    "UnseenParent",
]

Facts: TypeAlias = Mapping[str, str | int | float | bool]
"""Span attributes that a framework names, by their semantic-convention key."""

_NO_FACTS: Facts = MappingProxyType({})


class RunKind(StrEnum):
    """Kind of a run. Retrievers, models, tools, embeddings and rerankers become spans."""

    CHAIN = "chain"
    RETRIEVER = "retriever"
    MODEL = "model"
    TOOL = "tool"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    MANUAL = "manual"
    """An interaction that the application opened itself."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Run:
    """One step as the framework reports it.

    Attributes:
        id: The framework's id.
        kind: The kind of step.
        name: The framework's name for it.
        parent: The enclosing run, or None for a root.
        interaction: The interaction that it is a part of.
        start: Nanoseconds since the epoch.
        outermost: Whether the application called it itself, and not a part of a framework's run.
        end: Nanoseconds since the epoch, or None while the run is open.
        prompt: Texts that a model was given, in order.
        earlier: Indices of those that a model said in earlier turns.
        text: Output of a model or the root, as text.
        text_unknown: Whether its output is a text that cannot be read.
        query: Question to a retriever or the root.
        facts: Further span attributes.
        error_type: Class name of the exception that ended the run.
        tool_arguments: Arguments of the tools that a model picked, as the framework gave them.
        span_content: Content for its span alone: `roles` of the prompt's texts and `tool_calls`
            of a model, `arguments` and `result` of a tool as text.
        checkpoint: The framework's name for this step, equal when it is run again after a stop.
        joins: Whether the model calls below it belong together whatever they said, as those of
            one synthesizer do.
        batch: Name of the batch of steps beside one another that it is one of, or None.
        state: Kept for the integration while the interaction is open.
    """

    id: Hashable
    kind: RunKind
    name: str
    parent: Run | None
    interaction: Interaction
    start: int
    outermost: bool = False
    end: int | None = None
    prompt: tuple[str, ...] = ()
    earlier: Collection[int] = ()
    text: str | None = None
    text_unknown: bool = False
    query: str | None = None
    facts: Facts = field(default_factory=lambda: _NO_FACTS)
    error_type: str | None = None
    tool_arguments: Sequence[Any] = ()
    span_content: Mapping[str, Any] = field(default_factory=lambda: _NO_FACTS)
    checkpoint: str | None = None
    joins: bool = False
    batch: str | None = None
    state: Any = None

    @property
    def by_hand(self) -> bool:
        """True if the application opened it and all that encloses it by hand."""
        return all(run.kind is RunKind.MANUAL for run in (self, *self.ancestors()))

    def within(self, kind: RunKind) -> bool:
        """Return whether an enclosing run is of a kind."""
        outer = self.parent
        while outer is not None and outer.kind is not kind:
            outer = outer.parent
        return outer is not None

    def ancestors(self) -> Iterator[Run]:
        """Yield the enclosing runs, innermost first."""
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent


class Origin(StrEnum):
    """Origin of a list of candidates."""

    DOCUMENTS = "documents"
    """Documents that a run gave out."""
    GIVEN = "given"
    """Documents that the caller gave, which may be left over from an earlier turn."""
    TEXT = "text"
    """The text of a tool, which may or may not be retrieved."""
    STEP = "step"
    """Any text that a step put out; it counts if the model was shown it."""
    EARLIER = "earlier"
    """Text that an earlier turn left in the state; it counts if the model was shown it."""
    SOURCES = "sources"
    """Documents that an answer names as its grounds."""
    STATED = "stated"
    """The application said so itself."""


_GUESSED = (Origin.STEP, Origin.EARLIER)
_UNSURE = (Origin.GIVEN, Origin.TEXT, *_GUESSED)


@dataclass(frozen=True, slots=True)
class DocumentList:
    """Documents that a run gave out: candidates for what the model saw.

    Attributes:
        run: Who gave them.
        contexts: Snapshots, in order; possibly none.
        origin: How sure it is that they were retrieved.
        shown: By index, the text in the form in which the framework shows it to a model.
        named: Whether the application named the tool that gave it as one that retrieves.
    """

    run: Run
    contexts: tuple[Context, ...]
    origin: Origin = Origin.DOCUMENTS
    shown: Mapping[int, str] = field(default_factory=dict)
    named: bool = False

    @property
    def is_guessed(self) -> bool:
        """True for texts of a state, of which any may or may not be a document."""
        return self.origin in _GUESSED


@dataclass(frozen=True, slots=True)
class Others:
    """Spans that other instrumentors write of an interaction.

    Attributes:
        active: Whether one writes spans for it.
        span: Its span of the root run, where that can be reached.
        unrecorded: The context of that span, where it is in a trace that is not sampled.
    """

    active: bool = False
    span: OtherSpan | None = None
    unrecorded: SpanContext | None = None


@dataclass(slots=True, weakref_slot=True, eq=False)
class UnseenParent:
    """A run that roots name as their parent, and of which no beginning was reported.

    Attributes:
        held: Returns None when nothing could report its end any more.
        has_ended: Whether its end was reported.
    """

    held: Callable[[], object]
    has_ended: bool = False


@dataclass(slots=True, eq=False)
class Interaction:
    """One root run and all that happened in it.

    Attributes:
        otel: The application's OpenTelemetry context when it began.
        metadata: Metadata of the root run, and what was added to it.
        tags: Its tags.
        runs: Every run in order of start, the root first.
        lists: Document lists in order of appearance.
        status: How it ended.
        opened: When its root, or the last of its roots, began; nanoseconds since the epoch.
        chosen: The contexts, where the application chose them itself.
        asked: Texts of the root's input one of which may be the question.
        kept: Texts of the state that a root without an input goes on with; likewise.
        candidates: Further texts that the root gave out, one of which may be the answer.
        written: Texts that the last step of the root wrote.
        structured: Output of the root as JSON, if nothing in it is known as the answer.
        interrupted: Whether it waits for somebody before it goes on.
        resumable: Whether it may be tried again from where it broke off.
        stops: Checkpoints at which it stopped.
        joined: Whether it was put together of calls that the application made one by one.
        attempted: Whether a retriever was asked, whatever came of it.
        configured: Whether the framework's config has been read.
        is_readable: Whether it can become a sample; one whose beginning was lost cannot.
        left_out: Parts of which text is missing, by a limit or a lost event.
        cut_texts: Texts that were cut when they were noted.
        step_texts: Hashes of the texts of steps that were noted already, or are no find.
        kept_values: By identity, values that steps keep and that were read, with their lengths.
        rewritten: By a document's id, its texts that a later step replaced, as a masking one does.
        kept_chars: Characters of text held so far.
        prompted: Texts of prompts that are held already.
        others: What other instrumentors make of it, once that was looked for.
        streams: Functions that return how the reading of a stream ended, or None before that.
        task: Task in which it began, or the loop of one that is done, while it is open.
        returned: Whether the root has returned and only streams are open.
        read_until: End of the last reading, in nanoseconds since the epoch; 0 if unknown.
        place: Caller of the root.
        passed: Whether the application named this very request for capture, which then is no
            step of a larger one.
        options: Those of this one alone, which come before those of a handler.
        id: Returns the framework's id of the root, or None when nothing but us could name it any
            more, so that no end will be reported.
    """

    otel: OtelContext
    metadata: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)
    lists: list[DocumentList] = field(default_factory=list)
    status: Status = Status.OK
    opened: int = 0
    chosen: tuple[Context, ...] | None = None
    candidates: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    structured: str | None = None
    asked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    interrupted: bool = False
    resumable: bool = False
    stops: set[str] = field(default_factory=set)
    joined: bool = False
    attempted: bool = False
    configured: bool = False
    is_readable: bool = True
    left_out: set[str] = field(default_factory=set)
    cut_texts: set[str] = field(default_factory=set)
    step_texts: set[int] = field(default_factory=set)
    kept_values: dict[int, tuple[Any, int]] = field(default_factory=dict)
    rewritten: dict[str | None, set[str]] = field(default_factory=dict)
    kept_chars: int = 0
    prompted: dict[str, str] = field(default_factory=dict)
    others: Others | None = None
    streams: list[Callable[[], Status | None]] = field(default_factory=list)
    task: Any = None
    returned: bool = False
    read_until: int = 0
    place: Place | None = None
    passed: bool = False
    options: CaptureOptions | None = None
    id: Callable[[], object] | None = None
    unseen: UnseenParent | None = None

    @property
    def root(self) -> Run:
        """The outermost run."""
        return self.runs[0]

    @property
    def last_event(self) -> int:
        """End of the last reported run inside the root; 0 for none."""
        return max((self.read_until, *(run.end or 0 for run in self.runs[1:])))

    @property
    def retrieves(self) -> bool | None:
        """True if anything was retrieved, or a retriever was asked; None if that is unsure."""
        if self.attempted or self.chosen is not None:
            return True
        if any(found.origin not in _UNSURE for found in self.lists):
            return True
        return None if self.lists else False

    def lists_of(self, origin: Origin) -> list[DocumentList]:
        """Return the lists of an origin."""
        return [found for found in self.lists if found.origin is origin]

    def add_metadata(self, values: Mapping[str, Any]) -> None:
        """Add to the metadata; a later value of a key wins."""
        self.metadata = {**self.metadata, **values}

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags, each once."""
        self.tags = tuple(dict.fromkeys((*self.tags, *tags)))

    @property
    def chars(self) -> int:
        """Characters of text that this interaction keeps in memory."""
        root = self.root
        return self.kept_chars + len(root.query or "") + len(root.text or "")

    def closed_early(self) -> bool:
        """Return whether its last model still ran at the end: a stream that nobody read on."""
        root = self.root
        if root.kind is RunKind.MANUAL and root.text is not None:
            return False
        models = [run for run in self.runs if run.kind is RunKind.MODEL]
        return bool(models) and models[-1].end is None
