"""Data classes for a request and its runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.trace import SpanContext

from rag_eval_hooks.capture.snapshots import LATE_LEVELS, LATE_NODES, Copier, Snapshots
from rag_eval_hooks.sample import Context, Status
from rag_eval_hooks.telemetry.held_spans import OtherSpan

Facts: TypeAlias = Mapping[str, str | int | float | bool | tuple[str, ...]]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class RunKind(StrEnum):
    CHAIN = "chain"
    RETRIEVER = "retriever"
    MODEL = "model"
    TOOL = "tool"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    MANUAL = "manual"


class Run:
    """A step of a request, such as a model call. Times are nanoseconds since the epoch."""

    # Defaults of the class, because a run on the application's thread sets only a few fields.
    end: int | None = None
    prompt: tuple[str, ...] = ()
    # role of each text of the prompt, if the framework reports roles
    roles: tuple[str, ...] = ()
    text: str | None = None
    text_unknown = False
    query: str | None = None
    description = ""
    facts: Facts = _NOTHING
    error_type: str | None = None
    tool_arguments: Sequence[Any] = ()
    # content that only the span needs, by key: `tool_calls`, `arguments`, `result`
    span_content: Mapping[str, Any] = _NOTHING
    # the framework's name of this step, which is the same when a stopped request resumes
    checkpoint: str | None = None
    # whether the run's model calls together produce the answer, as in a synthesizer
    joins = False
    # name of the batch of concurrent steps
    batch: str | None = None
    unfinished = False
    # results of the option functions `question`, `contexts` and `answer`
    chosen: Mapping[str, Any] = _NOTHING
    # data of the integration, kept while the interaction is open
    state: Any = None

    def __init__(
        self,
        run_id: Hashable,
        kind: RunKind,
        name: str,
        parent: Run | None,
        interaction: Interaction,
        start: int,
        outermost: bool = False,
    ) -> None:
        self.id, self.kind, self.name, self.parent = run_id, kind, name, parent
        self.interaction, self.start = interaction, start
        # whether the application called this run directly, outside all other runs of frameworks
        self.outermost = outermost

    @property
    def earlier(self) -> Collection[int]:
        asked = self._asked_at or 0
        return frozenset(n for n in range(asked) if self.roles[n] == "assistant")

    @property
    def user_text(self) -> str:
        asked = self._asked_at
        return self.prompt[asked] if self.prompt and asked is not None else ""

    @property
    def _asked_at(self) -> int | None:
        places = (n for n, role in enumerate(self.roles) if role == "user")
        return max(places, default=None)

    @property
    def by_hand(self) -> bool:
        return all(run.kind is RunKind.MANUAL for run in (self, *self.ancestors()))

    def within(self, *kinds: RunKind) -> bool:
        return any(outer.kind in kinds for outer in self.ancestors())

    def ancestors(self) -> Iterator[Run]:
        outer = self.parent
        while outer is not None:
            yield outer
            outer = outer.parent


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A value that was too large to copy on the application's thread."""

    value: Any
    copier: Copier
    run: Run


def whole(copy: Any) -> Any:
    # The value may be an application's object, and `isinstance` would read its `__class__`.
    if type(copy) is not Cut:
        return copy
    copier = replace(copy.copier, nodes=LATE_NODES)
    copier.taken = copy.copier.taken
    complete = copier.of(copy.value, LATE_LEVELS)
    if copier.is_cut:
        copy.run.interaction.left_out.add("contexts")
    return complete


class Origin(StrEnum):
    """The place where capture found documents or a text."""

    DOCUMENTS = "documents"
    GIVEN = "given"
    """Documents that the caller passed, perhaps from an earlier turn."""
    TEXT = "text"
    """Text that a tool returned."""
    STEP = "step"
    """Any output text of a step. The text is a context only if a prompt contains the text."""
    EARLIER = "earlier"
    """Text of an earlier turn. The text is a context only if a prompt contains the text."""
    SOURCES = "sources"
    """Documents that an answer names as its sources."""
    STATED = "stated"
    """Documents that the application recorded."""
    CHOSEN = "chosen"
    """Documents that the option `contexts` selected."""


_UNSURE = (Origin.GIVEN, Origin.TEXT, Origin.STEP, Origin.EARLIER)


@dataclass(frozen=True, slots=True)
class DocumentList:
    run: Run
    contexts: tuple[Context, ...]
    origin: Origin = Origin.DOCUMENTS
    # by index of the document: the text that the framework puts into prompts
    shown: Mapping[int, str] = field(default_factory=dict)
    # whether `retrieval_tools` names the tool, or None if the option is not set
    named: bool | None = None
    # by id: the texts of the run's input documents, if known
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Others:
    active: bool = False
    span: OtherSpan | None = None
    # span context of the other instrumentor's root span, if that span is not recorded
    unrecorded: SpanContext | None = None


def status_after(error: type[BaseException]) -> Status:
    if issubclass(error, GeneratorExit):
        return Status.CLOSED
    return Status.CANCELLED if issubclass(error, asyncio.CancelledError) else Status.ERROR


@dataclass(slots=True, weakref_slot=True, eq=False)
class Interaction:
    """One request and all its runs."""

    otel: OtelContext
    metadata: dict[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    runs: list[Run] = field(default_factory=list)
    lists: list[DocumentList] = field(default_factory=list)
    status: Status = Status.OK
    # time of the start, or of a suspension, in nanoseconds since the epoch
    opened: int = 0
    # result of the search for contexts, once it ran
    found: Any = None
    # the root's other output texts, and the last step's texts; one text may be the answer
    candidates: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    # the root's output as JSON, if no text is known as the answer
    structured: str | None = None
    # texts of the root's input; one text may be the question
    asked: tuple[str, ...] = ()
    # if the root has no input: texts of the state that the root continues
    kept: tuple[str, ...] = ()
    interrupted: bool = False
    # The framework may retry the request from the point of failure.
    resumable: bool = False
    # checkpoints at which the request stopped
    stops: set[str] = field(default_factory=set)
    attempted: bool = False
    # whether capture has read the metadata in the framework's configuration
    configured: bool = False
    # False if the start event was lost. The request then cannot become a sample.
    is_readable: bool = True
    # parts of the sample that lack text, because of a limit or a lost event
    left_out: set[str] = field(default_factory=set)
    step_texts: set[int] = field(default_factory=set)
    # by document id: the texts that a later step replaced
    rewritten: dict[str | None, set[str]] = field(default_factory=dict)
    kept_chars: int = 0
    prompted: dict[str, str] = field(default_factory=dict)
    others: Others | None = None
    # The request stays open until each function returns the final status of its stream.
    streams: list[Callable[[], Status | None]] = field(default_factory=list)
    # task in which the request started, or the event loop if the task has finished
    task: Any = None
    # id of the thread that started the request, or a weak reference to the task
    line: object = None
    # whether the root has returned; streams may still be open
    returned: bool = False
    # last time at which the application read a stream, in nanoseconds since the epoch, or 0
    read_until: int = 0
    # The application passed the handler to this call, so the call is not a step of another call.
    passed: bool = False
    # Weak reference to the framework's run id. Once the id is gone, no end event can arrive.
    id: Callable[[], object] | None = None
    sampling_key: str | None = None
    # functions that read the events, in order, on another thread
    pending: deque[Callable[[], None]] = field(default_factory=deque)
    snapshots: Snapshots = field(default_factory=Snapshots)

    @property
    def root(self) -> Run:
        return self.runs[0]

    @property
    def models(self) -> list[Run]:
        return [run for run in self.runs if run.kind is RunKind.MODEL]

    @property
    def span_context(self) -> SpanContext:
        return trace.get_current_span(self.otel).get_span_context()

    @property
    def may_retrieve(self) -> bool:
        return bool(self.pending) or self.retrieves is not False

    @property
    def retrieves(self) -> bool | None:
        if self.attempted or any(found.origin not in _UNSURE for found in self.lists):
            return True
        return None if self.lists else False

    @property
    def chars(self) -> int:
        texts = len(self.root.query or "") + len(self.root.text or "")
        return max(self.kept_chars + texts, self.snapshots.chars)

    def lists_of(self, origin: Origin) -> list[DocumentList]:
        return [found for found in self.lists if found.origin is origin]

    def misses_event(self, *, of_root: bool = False) -> None:
        self.left_out.update(("contexts", "prompt"), ("question", "answer") if of_root else ())

    def add_metadata(self, values: Mapping[str, Any]) -> None:
        self.metadata = {**self.metadata, **values}

    def read(self) -> None:
        # Only one thread at a time may read the events.
        while self.pending:
            self.pending.popleft()()

    def absorb(self, earlier: Interaction) -> None:
        earlier.read()
        root, first = self.root, earlier.root
        root.query = first.query or root.query
        self.asked, self.kept = self.asked or earlier.asked, self.kept or earlier.kept
        self.tags = tuple(dict.fromkeys((*earlier.tags, *self.tags)))
        for run in earlier.runs[1:]:
            run.interaction = self
            run.parent = root if run.parent in (first, None) else run.parent
        self.runs[1:1] = earlier.runs[1:]
        self.lists[:0] = [
            replace(found, run=root) if found.run is first else found for found in earlier.lists
        ]
        self.attempted |= earlier.attempted
        self.left_out |= earlier.left_out
        self.step_texts |= earlier.step_texts
        self.kept_chars += earlier.kept_chars
        for name, texts in earlier.rewritten.items():
            self.rewritten.setdefault(name, set()).update(texts)
