"""Runs of a framework, and the interaction that they make up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import SpanContext

from rag_eval_hooks.capture.contexts.text_forms import fold, is_telling
from rag_eval_hooks.sample import Context, Status
from rag_eval_hooks.telemetry.other_span import OtherSpan

__all__ = ["DocumentList", "Facts", "Interaction", "Origin", "Others", "Run", "RunKind"]

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
        text: Output of a model or the root, as text.
        text_unknown: Whether its output is a text that cannot be read.
        query: Question to a retriever or the root.
        facts: Further span attributes.
        error_type: Class name of the exception that ended the run.
        tool_arguments: Arguments of the tools that a model picked, as the framework gave them.
        checkpoint: The framework's name for this step, equal when it is run again after a stop.
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
    text: str | None = None
    text_unknown: bool = False
    query: str | None = None
    facts: Facts = field(default_factory=lambda: _NO_FACTS)
    error_type: str | None = None
    tool_arguments: Sequence[Any] = ()
    checkpoint: str | None = None
    state: Any = None

    @property
    def by_hand(self) -> bool:
        """True if the application opened it and all that encloses it by hand."""
        return all(run.kind is RunKind.MANUAL for run in (self, *self.ancestors()))

    def within(self, kind: RunKind) -> bool:
        """Return whether an enclosing run is of a kind."""
        return any(outer.kind is kind for outer in self.ancestors())

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
    STATED = "stated"
    """The application said so itself."""


@dataclass(frozen=True, slots=True)
class DocumentList:
    """Documents that a run gave out: candidates for what the model saw.

    Attributes:
        run: Who gave them.
        contexts: Snapshots, in order; possibly none.
        origin: How sure it is that they were retrieved.
    """

    run: Run
    contexts: tuple[Context, ...]
    origin: Origin = Origin.DOCUMENTS


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
        candidates: Further texts that the root gave out, one of which may be the answer.
        structured: Output of the root as JSON, if nothing in it is known as the answer.
        interrupted: Whether it waits for somebody before it goes on.
        resumable: Whether it may be tried again from where it broke off.
        stops: Checkpoints at which it stopped.
        attempted: Whether a retriever was asked, whatever came of it.
        configured: Whether the framework's config has been read.
        full: Whether text was left out, as it held as much as it may.
        cut_texts: Texts that were cut when they were noted.
        kept_chars: Characters of text held so far.
        prompted: Texts of prompts that are held already.
        others: What other instrumentors make of it, once that was looked for.
        streams: Functions that return how the reading of a stream ended, or None before that.
        returned: Whether the root has returned and only streams are open.
        read_until: End of the last reading, in nanoseconds since the epoch; 0 if unknown.
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
    structured: str | None = None
    interrupted: bool = False
    resumable: bool = False
    stops: set[str] = field(default_factory=set)
    attempted: bool = False
    configured: bool = False
    full: bool = False
    cut_texts: set[str] = field(default_factory=set)
    kept_chars: int = 0
    prompted: dict[str, str] = field(default_factory=dict)
    others: Others | None = None
    streams: list[Callable[[], Status | None]] = field(default_factory=list)
    returned: bool = False
    read_until: int = 0

    @property
    def root(self) -> Run:
        """The outermost run."""
        return self.runs[0]

    @property
    def last_event(self) -> int:
        """End of the last reported run inside the root; 0 for none."""
        return max((self.read_until, *(run.end or 0 for run in self.runs[1:])))

    @property
    def retrieves(self) -> bool:
        """True if anything was retrieved, or a retriever was asked."""
        return self.attempted or bool(self.lists) or self.chosen is not None

    def add_metadata(self, values: Mapping[str, Any]) -> None:
        """Add to the metadata; a later value of a key wins."""
        self.metadata = {**self.metadata, **values}

    def add_tags(self, tags: Sequence[str]) -> None:
        """Add tags, each once."""
        self.tags = tuple(dict.fromkeys((*self.tags, *tags)))

    def drop_relayed(self) -> None:
        """Drop texts that only relay: the words of a sub-agent, or documents as text."""
        texts = [found for found in self.lists if found.origin is Origin.TEXT]
        if not texts:
            return
        others = [found for found in self.lists if found.origin is not Origin.TEXT]
        inner = {run for run in self.runs if run.kind is RunKind.MODEL}
        inner |= {found.run for found in others}
        relaying = {outer for run in inner for outer in run.ancestors()}
        known = {context.text for found in others for context in found.contexts} - {""}
        self.lists = [
            found
            for found in self.lists
            if found.origin is not Origin.TEXT
            or not (found.run in relaying or _consists_of(found.contexts[0].text, known))
        ]

    def resume(self, earlier: Interaction) -> None:
        """Continue one that was interrupted: its runs and documents come first."""
        root, first = self.root, earlier.root
        root.start, root.query = first.start, first.query
        self.otel = earlier.otel
        self.metadata = {**earlier.metadata, **self.metadata}
        self.tags = tuple(dict.fromkeys((*earlier.tags, *self.tags)))
        for run in earlier.runs[1:]:
            run.interaction = self
            run.parent = root if run.parent is first else run.parent
        self.runs[1:1] = earlier.runs[1:]
        self.lists[:0] = earlier.lists
        self.chosen = earlier.chosen
        self.full = earlier.full
        self.cut_texts |= earlier.cut_texts
        self.kept_chars += earlier.kept_chars

    def remainder(self) -> Interaction:
        """Return a copy with only what a further try needs: question and documents."""
        kept = Interaction(self.otel, self.metadata, self.tags, opened=self.opened)
        kept.runs.append(_bare(self.root, kept))
        kept.lists = [
            replace(found, run=_bare(found.run, kept))
            for found in self.lists
            if not found.run.within(RunKind.RETRIEVER)
        ]
        kept.chosen, kept.full, kept.stops = self.chosen, self.full, self.stops
        kept.kept_chars, kept.cut_texts = self.kept_chars, self.cut_texts
        return kept

    def try_again(self, earlier: Interaction) -> None:
        """Take over question and documents of one that broke off and is counted already."""
        self.root.query = self.root.query or earlier.root.query
        self.metadata = {**earlier.metadata, **self.metadata}
        self.tags = tuple(dict.fromkeys((*earlier.tags, *self.tags)))
        self.lists[:0] = earlier.lists
        self.chosen = self.chosen or earlier.chosen
        self.full = self.full or earlier.full
        self.cut_texts |= earlier.cut_texts

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


def _consists_of(text: str, known: Set[str]) -> bool:
    """Return whether a text holds documents; short ones stand in many by chance."""
    held = [one for one in known if one in text]
    return any(is_telling(fold(one)) for one in held) or 2 * sum(map(len, held)) > len(text)


def _bare(run: Run, interaction: Interaction) -> Run:
    """Return a copy of a run that keeps nothing of its interaction alive."""
    return Run(
        run.id, run.kind, run.name, None, interaction, run.start, end=run.end, query=run.query
    )
