"""What is remembered of a running interaction: its runs, and what passed through them."""

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
"""Span attributes that the framework told, by their semantic-convention key."""

_NO_FACTS: Facts = MappingProxyType({})


class RunKind(StrEnum):
    """What a run does. Retrievers, models, tools and embeddings become spans."""

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
        picks: Arguments of the tools that a model picked, as the framework gave them.
        outputs: Further texts that the root gave out, one of which may be the answer.
        structured: What the root gave out as JSON, where nothing in it is known as the answer.
        given: What a step was given, until it ends: what it merely passes on is no find.
        keeps_state: Whether its output is a state, which may hold what earlier runs put there.
        untold: Whether it gave out a text that is not known.
        unseen: Documents in its state that no step was seen to find, once they were looked for.
        mark: By what the framework names the same step when it runs it again after a stop.
        resuming: Whether it continues something of which no beginning has been found here.
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
    picks: Sequence[Any] = ()
    outputs: tuple[str, ...] = ()
    structured: str | None = None
    given: Any = None
    keeps_state: bool = False
    untold: bool = False
    unseen: list[tuple[Context, ...]] | None = None
    mark: str | None = None
    resuming: bool = False

    @property
    def outermost(self) -> bool:
        """Whether the application called it itself, and not a part of a framework's run."""
        return self.parent is None or self.parent.kind is RunKind.MANUAL

    @property
    def by_hand(self) -> bool:
        """Whether the application opened it, and all that encloses it, itself."""
        return all(run.kind is RunKind.MANUAL for run in (self, *self.ancestors()))

    def within(self, kind: RunKind) -> bool:
        """Whether an enclosing run is of a kind."""
        return any(outer.kind is kind for outer in self.ancestors())

    def ancestors(self) -> Iterator[Run]:
        """The enclosing runs, innermost first."""
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent


class Origin(StrEnum):
    """Where a list of candidates comes from."""

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
        metadata: Metadata of the root run, and what was added to it.
        tags: Its tags.
        runs: Every run in order of start, the root first.
        lists: Document lists in order of appearance.
        status: How it ended.
        opened: When its root, or the last of its roots, began; nanoseconds since the epoch.
        chosen: The contexts, where the application chose them itself.
        interrupted: Whether its graph waits for somebody.
        stops: Marks of the steps at which it stopped, and of the checkpoint where one is told.
        attempted: Whether a retriever was asked, whatever came of it.
        configured: Whether the framework's config has been read.
        full: Whether text was left out, as it held as much as it may.
        kept_chars: Characters of text held so far.
        prompted: Texts of prompts that are held already.
        others: What other instrumentors make of it, once that was looked for.
        streams: Of answers that are read after the root returned: each tells how its reading
            ended, or None while it may go on.
        returned: Whether the root has returned and only streams are open.
        read_until: When the last of them was read to its end, where that is told: nanoseconds
            since the epoch, or 0.
    """

    otel: OtelContext
    metadata: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)
    lists: list[DocumentList] = field(default_factory=list)
    status: Status = Status.OK
    opened: int = 0
    chosen: tuple[Context, ...] | None = None
    interrupted: bool = False
    stops: set[str] = field(default_factory=set)
    attempted: bool = False
    configured: bool = False
    full: bool = False
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
    def last_told(self) -> int:
        """When the last thing inside the root ended that was told of; 0 for none."""
        return max((self.read_until, *(run.end or 0 for run in self.runs[1:])))

    @property
    def retrieves(self) -> bool:
        """Whether something was retrieved, or was to be."""
        return self.attempted or bool(self.lists) or self.chosen is not None

    def add_metadata(self, values: Mapping[str, Any]) -> None:
        """Adds to the metadata; a later value of a key wins."""
        self.metadata = {**self.metadata, **values}

    def add_tags(self, tags: Sequence[str]) -> None:
        """Adds tags, each once."""
        self.tags = tuple(dict.fromkeys((*self.tags, *tags)))

    def drop_relayed(self) -> None:
        """Forgets texts that only relay: what a sub-agent said, or documents as text."""
        texts = [found for found in self.lists if found.origin is Origin.TEXT]
        if not texts:
            return
        others = [found for found in self.lists if found.origin is not Origin.TEXT]
        inner = {run for run in self.runs if run.kind is RunKind.MODEL}
        inner |= {found.run for found in others}
        relaying = {outer for run in inner for outer in run.ancestors()}
        told = {context.text for found in others for context in found.contexts} - {""}
        self.lists = [
            found
            for found in self.lists
            if found.origin is not Origin.TEXT
            or not (found.run in relaying or _consists_of(found.contexts[0].text, told))
        ]

    def resume(self, earlier: Interaction) -> None:
        """Continues one that was interrupted: its runs and documents come first."""
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
        self.kept_chars += earlier.kept_chars

    def remainder(self) -> Interaction:
        """What a further try needs of one that broke off: its question and what was found."""
        kept = Interaction(self.otel, self.metadata, self.tags, opened=self.opened)
        kept.runs.append(_bare(self.root, kept))
        kept.lists = [
            replace(found, run=_bare(found.run, kept))
            for found in self.lists
            if not found.run.within(RunKind.RETRIEVER)
        ]
        kept.chosen, kept.full, kept.stops = self.chosen, self.full, self.stops
        kept.kept_chars = self.kept_chars
        return kept

    def try_again(self, earlier: Interaction) -> None:
        """Goes on where one broke off that is counted already: with its question and its finds."""
        self.root.query = self.root.query or earlier.root.query
        self.metadata = {**earlier.metadata, **self.metadata}
        self.tags = tuple(dict.fromkeys((*earlier.tags, *self.tags)))
        self.lists[:0] = earlier.lists
        self.chosen = self.chosen or earlier.chosen
        self.full = self.full or earlier.full

    @property
    def chars(self) -> int:
        """Characters of text that this interaction keeps in memory."""
        root = self.root
        return self.kept_chars + len(root.query or "") + len(root.text or "")


def _consists_of(text: str, told: Set[str]) -> bool:
    """Whether documents are what a text holds; short ones stand in many by chance."""
    held = [one for one in told if one in text]
    return any(is_telling(fold(one)) for one in held) or 2 * sum(map(len, held)) > len(text)


def _bare(run: Run, interaction: Interaction) -> Run:
    """A run by its name alone, which keeps nothing of its interaction alive."""
    return Run(run.id, run.kind, run.name, None, interaction, run.start, run.end, query=run.query)
