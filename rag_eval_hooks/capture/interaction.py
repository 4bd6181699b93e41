"""Interactions that the application opens and closes itself, with or without a framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from opentelemetry import context as otel_context
from opentelemetry import trace

from rag_eval_hooks.capture.options import CaptureOptions
from rag_eval_hooks.capture.recorder import Recorder
from rag_eval_hooks.capture.records import Interaction, Origin, Place, Run, RunKind
from rag_eval_hooks.capture.scopes import Scope, enclosing_scope
from rag_eval_hooks.context import contexts_of
from rag_eval_hooks.incidents import Incidents, host_edge

__all__ = ["ManualInteraction"]


class ManualInteraction:
    """One interaction, opened by `RagEval.interaction`. A context manager, sync and async.

    While it is open, runs of a framework that would be outermost become part of it. Inside
    another interaction that asks the same, and inside a framework's run, it opens none of its own
    but joins that one: its contexts and metadata count there, its answer where the outer one gives
    none. With a question of its own inside one opened by hand it is an interaction of its own: the
    other may be that of a suspended generator, whose context Python shares with its consumer.

    Entered where no span is current, it belongs to the trace in which it was made: a server may
    have left its span before the generator of a response runs.

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
        options: Mapping[str, Any],
    ) -> None:
        self._recorder = recorder
        self._made_in = otel_context.get_current()
        self._scope: Scope | None = None
        self._incidents = incidents
        self._question = ""
        self._metadata: dict[str, Any] = {}
        self._tags: tuple[str, ...] = ()
        self._name = "interaction"
        self._options: CaptureOptions | None = None
        self._describe(question, metadata, tags, name, options)

    def _describe(self, question: Any, metadata: Any, tags: Any, name: Any, options: Any) -> None:
        """Read what the application passed, as far as it can be read."""
        if question is None:
            self._incidents.count("capture interaction: no question")
        for field, value, read in (
            ("_question", question, str),
            ("_metadata", metadata, dict),
            ("_tags", tags, _texts),
            ("_name", name, str),
            ("_options", options or None, lambda given: CaptureOptions(**given)),
        ):
            try:
                if value is not None:
                    setattr(self, field, read(value))
            except Exception as error:  # noqa: BLE001 - the host's edge: it may pass anything
                self._incidents.report(f"capture interaction {field[1:]}", error)

    @host_edge
    def contexts(self, documents: Any) -> None:
        """Record what the model is given; the contexts of the interaction are then these.

        Args:
            documents: Texts, `Context` objects, mappings with a `text`, documents of LangChain,
                objects that `as_context` reads, or one of them. A further call appends; a text
                that is there already counts once. An empty list says that retrieval found nothing.
        """
        if (run := self._run) is not None:
            read = contexts_of if self._options is None else self._options.contexts_of
            self._recorder.defer(
                run, "contexts", self._recorder.documents, run, read(documents), Origin.STATED
            )

    @host_edge
    def answer(self, text: str | None) -> None:
        """Record what the user gets. The last call counts; None says that there is no text."""
        if (run := self._run) is not None:
            self._recorder.answer(run, None if text is None else str(text))

    @host_edge
    def metadata(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Add metadata, such as `session_id`, `user_id`, `question_id`, `reference`, or any."""
        if (run := self._run) is not None:
            run.interaction.add_metadata({**(values or {}), **more})

    @property
    def _run(self) -> Run | None:
        return None if self._scope is None else self._scope.run

    def __enter__(self) -> Self:
        """Open the interaction."""
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the interaction; an exception passes through and sets the status."""
        self._close(error)

    async def __aenter__(self) -> Self:
        """Open the interaction."""
        self._open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the interaction; an exception passes through and sets the status."""
        self._close(error)

    @host_edge
    def _open(self) -> None:
        scope = Scope(self._recorder, None, self._question, self.contexts)
        scope.run = run = self._recorder.start(
            object(),
            None,
            RunKind.MANUAL,
            self._name,
            self._metadata,
            self._tags,
            apart=scope.asks_another(enclosing_scope(self._recorder)),
        )
        if run is None:
            return
        self._recorder.question(run, self._question)
        if run.parent is not None:
            run.interaction.add_metadata(self._metadata)
        else:
            run.interaction.options = self._options
            self._place(run.interaction)
        self._scope = scope
        scope.enter()

    def _place(self, interaction: Interaction) -> None:
        if not trace.get_current_span(interaction.otel).get_span_context().is_valid:
            interaction.otel = self._made_in
            interaction.place = Place.of_caller(self._made_in)

    @host_edge
    def _close(self, error: BaseException | None) -> None:
        scope, self._scope = self._scope, None
        run = None if scope is None else scope.leave()
        if run is None:
            return
        if error is None:
            self._recorder.end(run)
        else:
            self._recorder.fail(run, error)


def _texts(values: Any) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(map(str, values))
