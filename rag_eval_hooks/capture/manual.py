"""Interactions that the application itself opens and closes, with or without a framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rag_eval_hooks.capture.contexts.documents import contexts_of
from rag_eval_hooks.capture.generator_frames import caller_outside, is_suspended_at_will, stack
from rag_eval_hooks.capture.interaction import Origin, Run, RunKind
from rag_eval_hooks.capture.never_raise import host_edge
from rag_eval_hooks.incidents import Incidents

if TYPE_CHECKING:
    from rag_eval_hooks.capture.recorder import Recorder

__all__ = ["ManualInteraction", "enclosing_run", "enclosing_scopes"]

_current: ContextVar[ManualInteraction | None] = ContextVar("rag_eval_interaction", default=None)


def enclosing_run(recorder: Recorder) -> Run | None:
    """The run of the innermost open manual interaction around the caller."""
    scope = enclosing_scope(recorder)
    run = None if scope is None else scope.run
    # A forked child inherits the scope, but its recorder starts anew.
    return run if run is not None and recorder.get(run.id) is run else None


def enclosing_scope(recorder: Recorder) -> ManualInteraction | None:
    """The innermost open manual interaction around the caller.

    Generators share their context with their consumer: where several are open there, the one
    counts whose block is being executed. Where that cannot be told, as in a thread or a task that
    one of them started, none does.
    """
    scopes = [scope for scope in _open_scopes() if scope.recorder is recorder]
    if len(scopes) > 1 and is_suspended_at_will(scopes[0].frame):
        running = (scope for frame in stack() for scope in scopes if scope.frame is frame)
        return next(running, None)
    return scopes[0] if scopes else None


def enclosing_scopes() -> list[ManualInteraction]:
    """The innermost open manual interaction around the caller, of every evaluator."""
    recorders = dict.fromkeys(scope.recorder for scope in _open_scopes())
    return [scope for recorder in recorders if (scope := enclosing_scope(recorder)) is not None]


def _open_scopes() -> Iterator[ManualInteraction]:
    scope = _open_scope(_current.get())
    while scope is not None:
        yield scope
        scope = _open_scope(scope.outer)


class ManualInteraction:
    """One interaction, opened by `RagEval.interaction`. A context manager, sync and async.

    While it is open, runs of a framework that would be outermost become part of it. Inside
    another interaction that asks the same, and inside a framework's run, it opens none of its own
    but joins that one: its contexts and metadata count there, its answer where the outer one gives
    none. With a question of its own inside one opened by hand it is an interaction of its own: the
    other may be that of a suspended generator, whose context Python shares with its consumer.

    It is known to its own context and to tasks and threads that copy it. Such a task may outlive
    it: what the task runs later is no part of it, and keeps nothing of it alive.
    """

    def __init__(
        self,
        recorder: Recorder,
        incidents: Incidents,
        question: str | None,
        *,
        metadata: Mapping[str, Any] | None,
        tags: Sequence[str] | None,
        name: str | None,
    ) -> None:
        self.recorder = recorder
        self.run: Run | None = None
        self.outer: ManualInteraction | None = None
        self.frame: FrameType | None = None
        self._incidents = incidents
        self._question = "" if question is None else str(question)
        if question is None:
            incidents.count("capture interaction: no question")
        self._metadata = dict(metadata or {})
        self._tags = tuple(tags or ())
        self._name = name or "interaction"

    @host_edge
    def contexts(self, documents: Any) -> None:
        """Records what the model is given; the contexts of the interaction are then these.

        Args:
            documents: Texts, `Context` objects, mappings with a `text`, documents of LangChain,
                or one of them. A further call appends; a text that is there already counts
                once. An empty list says that retrieval found nothing.
        """
        if self.run is not None:
            self.recorder.documents(self.run, contexts_of(documents), Origin.STATED)

    @host_edge
    def answer(self, text: str | None) -> None:
        """Records what the user gets. The last call counts; None says that there is no text."""
        if self.run is not None:
            told = None if text is None else str(text)
            self.run.text = self.recorder.text(self.run, told)

    @host_edge
    def metadata(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Adds metadata, such as `session_id`, `user_id`, `question_id`, `reference`, or any."""
        if self.run is not None:
            self.run.interaction.add_metadata({**(values or {}), **more})

    def __enter__(self) -> Self:
        """Opens it."""
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends it; an exception passes through and tells the status."""
        self._close(error)

    async def __aenter__(self) -> Self:
        """Opens it."""
        self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends it; an exception passes through and tells the status."""
        self._close(error)

    @host_edge
    def _open(self) -> None:
        outer = enclosing_scope(self.recorder)
        self.run = self.recorder.start(
            object(),
            None,
            RunKind.MANUAL,
            self._name,
            self._metadata,
            self._tags,
            apart=self._asks_another(outer),
        )
        if self.run is None:
            return
        self.run.query = self.recorder.text(self.run, self._question)
        if self.run.parent is not None:
            self.run.interaction.add_metadata(self._metadata)
        self.frame = caller_outside()
        self.outer = _open_scope(_current.get())
        _current.set(self)

    def _asks_another(self, outer: ManualInteraction | None) -> bool:
        """Whether the question is not that of the nearest one around it which states any."""
        while outer is not None and not (outer.recorder is self.recorder and outer._question):
            outer = _open_scope(outer.outer)
        return outer is not None and bool(self._question) and self._question != outer._question

    @host_edge
    def _close(self, error: BaseException | None) -> None:
        run, self.run = self.run, None
        self.frame = None
        # A generator may be closed in another context, where the value is not ours to take back.
        if _current.get() is self:
            _current.set(_open_scope(self.outer))
        if run is None:
            return
        if error is None:
            self.recorder.end(run)
        else:
            self.recorder.fail(run, error)


def _open_scope(scope: ManualInteraction | None) -> ManualInteraction | None:
    """The scope, or the nearest around it that is still open."""
    while scope is not None and (scope.run is None or scope.run.end is not None):
        scope = scope.outer
    return scope
