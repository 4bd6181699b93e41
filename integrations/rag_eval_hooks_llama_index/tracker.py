"""Translation of LlamaIndex's spans and events to runs of the recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined, unused-ignore]
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from opentelemetry.trace import Span

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.capture.split_requests import split_requests
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.capture_options import LlamaIndexOptions
from rag_eval_hooks_llama_index.kinds import (
    Role,
    arguments_text,
    call_id_of,
    described,
    facts_of,
    field,
    name_of,
)
from rag_eval_hooks_llama_index.model_calls import ModelCalls
from rag_eval_hooks_llama_index.offline import is_offline
from rag_eval_hooks_llama_index.resumed_workflows import ResumedWorkflows
from rag_eval_hooks_llama_index.run_documents import Call, RunDocuments
from rag_eval_hooks_llama_index.span_parents import SpanParents, remember
from rag_eval_hooks_llama_index.streamed_answers import StreamedAnswers

__all__ = ["FRAMEWORK", "Tracker"]

_OPENINFERENCE = "openinference.instrumentation.llama_index."
FRAMEWORK = "llama_index"
_OF_WORKFLOWS = ("tags", "init_state")
"""Arguments of a workflow's run that are its own bookkeeping."""


class Tracker:
    """Runs of LlamaIndex; one for each `RagEval`.

    LlamaIndex swallows what handlers raise: here it is counted first.

    Args:
        evals: Where interactions go.
        options: Choices of the application.
        watch_streams: See `enable`.

    Attributes:
        models: Receives the events of models.
        current: Returns the id of LlamaIndex's run around the caller, or None.
    """

    def __init__(
        self, evals: RagEval, options: LlamaIndexOptions, *, watch_streams: bool = True
    ) -> None:
        self.evals = evals
        self._options = options
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._answers = StreamedAnswers(evals, watch_streams=watch_streams)
        self._parents = SpanParents(evals.recorder, self._answers.streams)
        self.models = ModelCalls(evals.recorder, self._parents, evals.incidents)
        self.current = self._parents.current
        self._documents = RunDocuments(evals, options)
        self._resumed = ResumedWorkflows(evals.recorder, options, evals.incidents)

    def enter(
        self,
        span_id: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        """Begin the run of a span."""
        try:
            self._enter(span_id, arguments, instance, parent_id, tags)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture enter", error)
            self._parents.lose(span_id, parent_id)

    def _enter(
        self,
        span_id: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
        tags: Mapping[str, Any] | None,
    ) -> None:
        role, owner, method = described(span_id, instance.__class__)
        parent = self._parents.of(parent_id, role, instance)
        if role is Role.PART and parent is not None:
            remember(self._parents.parts, span_id, parent)
            return
        name = name_of(role, instance) or owner or method
        if parent is None:
            wanted = self._options.of(self._recorder.around(None)).root
            if self._is_offline(span_id, parent_id, arguments, instance) or (
                wanted != name
                if wanted is not None
                else self._parents.began_unseen(span_id, parent_id, arguments)
            ):
                return
        given_tags = active_instrument_tags.get() if tags is None else tags
        root = (
            (values.metadata_of(given_tags), values.labels_of(given_tags)) if parent is None else ()
        )
        run = self._recorder.start(span_id, parent, self._kind(role, parent), name, *root)
        if run is None:
            return
        run.interaction.framework = run.interaction.framework or FRAMEWORK
        self._instrumentors.note(run, _openinference_span)
        self._begin(run, role, arguments, instance)
        self._note_resumption(run, role, arguments, instance)
        if run.outermost and run.parent is not None:
            run.interaction.add_metadata(values.metadata_of(given_tags))

    def _begin(self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any) -> None:
        """Note what a call shows at its beginning."""
        span_id = str(run.id)
        run.facts = facts_of(role, instance)
        if (call_id := call_id_of(run, arguments)) is not None:
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: call_id}
        run.joins = role is Role.SYNTHESIS
        if role is Role.WORKFLOW:
            remember(self._parents.workflows, span_id, None)
            arguments = {k: v for k, v in arguments.items() if k not in _OF_WORKFLOWS}
        elif role is Role.TOOL:
            run.description = str(field(instance.metadata, "description") or "")
            if self._recorder.span_content:
                self._recorder.for_span(run, arguments=arguments_text(arguments))
        if role is Role.RETRIEVAL or run.outermost:
            self._note_question(run, arguments)
        elif role is Role.ENGINE and not run.interaction.root.query:
            self._recorder.question(run, values.question_of(arguments))

    def _note_resumption(
        self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any
    ) -> None:
        """Note what a workflow is asked, or what its first steps go on with instead."""
        if role is Role.WORKFLOW and run.outermost:
            self._resumed.begins(run, instance, arguments)
        elif self._goes_on(run.parent):
            self._resumed.step(run, arguments)

    def _goes_on(self, flow: Run | None) -> bool:
        """Return whether a run is an outermost workflow's that was given no question."""
        if flow is None or flow.query or not flow.outermost or flow.interaction.asked:
            return False
        return flow.id in self._parents.workflows

    def _is_offline(
        self, span_id: str, parent_id: str | None, arguments: Mapping[str, Any], instance: Any
    ) -> bool:
        """Return whether a call outside of any interaction is one of an offline tool's."""
        # What the application opened by hand around it is the user's, whoever asks.
        if parent_id not in self._parents.aside and (
            self._recorder.is_inside(None) or not is_offline(arguments, instance)
        ):
            return False
        remember(self._parents.aside, span_id, None)
        return True

    def _note_question(self, run: Run, arguments: Mapping[str, Any]) -> None:
        chosen = None
        if run.outermost:
            chosen = self._options.of(run).question_in(arguments, self._incidents)
        asked = values.question_of(arguments) if chosen is None else chosen
        texts = list(values.texts_in(arguments)) if run.outermost or asked is None else []
        if asked is None and len(texts) == 1:
            asked = texts[0]
        if run.outermost:
            self._recorder.asked(run, texts)
        self._recorder.question(run, asked)

    def exit(self, span_id: str, arguments: Mapping[str, Any], instance: Any, result: Any) -> None:
        """End the run of a span, or follow the generator that it gave out."""
        try:
            self._exit(span_id, arguments, instance, result)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture exit", error)
            self._recorder.lost(span_id)
            if (run := self._recorder.get(span_id)) is not None:
                self._recorder.end(run)

    def _exit(self, span_id: str, arguments: Mapping[str, Any], instance: Any, result: Any) -> None:
        if self._recorder.leave(span_id):
            return
        run = self._parents.left(span_id)
        if run is None:
            return
        role, _, method = described(span_id, instance.__class__)
        given = values.given_out(result)
        if values.is_stop(result):
            for outer in run.ancestors():
                outer.state = True
        elif role is Role.WORKFLOW and result is None and not run.state:
            # The span of a cancelled workflow ends as if all was well, though no step stopped it.
            self._recorder.fail(run, asyncio.CancelledError())
            return
        if run.parent is None and _is_no_question(run):
            run.interaction.lists = []
            self._recorder.end(run)
            return
        try:
            if role is Role.TOOL and self._recorder.span_content:
                self._recorder.for_span(run, result=str(given))
            self._documents.note(run, role, Call(instance, method, arguments), given)
        finally:
            self._end(run, role, instance, given)

    def _end(self, run: Run, role: Role, instance: Any, given: Any) -> None:
        """Note what a run gave out and end it, also where that cannot be read."""
        streams = False
        try:
            if values.may_stream(given):
                streams = self._answers.note(run, given, values.known_text(instance, given))
            if run.outermost or role is Role.WRITER:
                self._note_answer(run, role, instance, given, streams)
            elif role is Role.ENGINE and not streams:
                self._recorder.answer(run, values.answer_of(given))
            if run.parent is None and not streams:
                self._split(run)
        finally:
            if run.kind is not RunKind.MODEL:
                self._recorder.end(run)
            elif not streams:
                # Only where the event of its reply did not come is it open still.
                self.models.replied(str(run.id), given)
            if role is Role.WRITER:
                self._recorder.settle(run)

    def _split(self, root: Run) -> None:
        for request in split_requests(root.interaction):
            self._recorder.report(request)

    def _note_answer(self, run: Run, role: Role, instance: Any, given: Any, streams: bool) -> None:
        if role is Role.WRITER:
            self._recorder.answer(run, instance.response or None)
        elif not streams:
            chosen = self._options.of(run).answer_in(given, self._incidents)
            text = values.answer_of(given) if chosen is None else chosen
            unknown = text is None and isinstance(given, values.STREAMING)
            self._recorder.answer(run, text, unknown=unknown)
            if text is None and not unknown:
                self._recorder.alternatives(run, list(values.texts_in(given)), None)

    @host_edge
    def drop(self, span_id: str, error: BaseException | None) -> None:
        """End the run of a span that raised."""
        if self._recorder.leave(span_id, error or RuntimeError()):
            return
        run = self._parents.left(span_id)
        if run is not None:
            self._recorder.fail(run, error or RuntimeError())
            self._recorder.settle(run)

    @host_edge
    def cancelled(self, span_id: str | None) -> None:
        """Fail a cancelled workflow or step, whose span LlamaIndex ends as if all was well."""
        run = self._recorder.get(span_id)
        if run is not None:
            self._recorder.fail(run, asyncio.CancelledError())

    def _kind(self, role: Role, parent_id: str | None) -> RunKind:
        """Return the kind of a run; a tool's call within its own, sync within async, is a chain."""
        if role is Role.TOOL and parent_id is not None:
            parent = self._recorder.get(parent_id)
            return RunKind.CHAIN if parent and parent.kind is RunKind.TOOL else RunKind.TOOL
        return role.kind


def _is_no_question(root: Run) -> bool:
    """Return whether a root was asked nothing, and neither retriever nor model was: preparation."""
    asked = root.query or root.interaction.asked
    kinds = {run.kind for run in root.interaction.runs}
    return not asked and kinds.isdisjoint((RunKind.RETRIEVER, RunKind.MODEL))


def _openinference_span(root: Run) -> tuple[bool, Span | None]:
    """Return whether another instrumentor writes spans, and its span of a root.

    OpenInference is not imported: its handler is looked for among those of LlamaIndex's root
    dispatcher. It maps span ids to spans, not publicly, so its span may not be found, and then
    scores are only on the evaluation span.
    """
    for handler in get_dispatcher().span_handlers:
        if type(handler).__module__.startswith(_OPENINFERENCE):
            try:
                # Of another class than the handlers that LlamaIndex types.
                span = cast("Any", handler).open_spans[root.id]._otel_span
            except (AttributeError, LookupError, TypeError):
                # Not there, or another version keeps its spans elsewhere.
                return True, None
            return True, span if isinstance(span, Span) else None
    return False, None
