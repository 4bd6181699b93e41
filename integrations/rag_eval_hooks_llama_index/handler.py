"""Our handler of LlamaIndex's spans and events, from their arrival to the recorder."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from inspect import BoundArguments
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.exception import ExceptionEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.workflow import StopEvent

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.facts import field, request_facts
from rag_eval_hooks.context import READABLE_MAPPING
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import models
from rag_eval_hooks_llama_index.openinference import openinference_span
from rag_eval_hooks_llama_index.reader import Call, Reader
from rag_eval_hooks_llama_index.spans import (
    Role,
    SpanParents,
    described,
    is_written_by_framework,
    name_of,
)
from rag_eval_hooks_llama_index.streams import StreamedAnswers
from rag_eval_hooks_llama_index.workflows import (
    FlowState,
    is_given_input,
    live_fields,
    start_fields,
    state_of,
)

__all__ = ["FRAMEWORK", "Handler"]

FRAMEWORK = "llama_index"
_FRAMEWORK_TAGS = "llamaindex."
_OF_WORKFLOWS = ("tags", "init_state")
"""Arguments of a workflow's run that are its own bookkeeping."""
_METHODS = {
    LLMChatStartEvent.__name__: "model_called",
    LLMCompletionStartEvent.__name__: "model_called",
    LLMChatEndEvent.__name__: "model_replied",
    LLMCompletionEndEvent.__name__: "model_replied",
    ExceptionEvent.__name__: "model_failed",
    # Of the workflows' own package, which not every version has.
    "SpanCancelledEvent": "cancelled",
}
"""Methods of the handler by the name of an event's class; other events are ignored."""


class Handler(BaseSpanHandler[BaseSpan], BaseEventHandler):
    """Records spans and events for one evaluator.

    LlamaIndex swallows what handlers raise: here it is counted first. Values are copied at once
    and read off the request's thread.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions, *, watch_streams: bool) -> None:
        super().__init__()
        self._evals = evals
        self._recorder = recorder = evals.recorder
        self._incidents = evals.incidents
        self._reader = Reader(recorder, evals.incidents, options)
        self._answers = StreamedAnswers(recorder, watch_streams=watch_streams)
        self._parents = SpanParents(recorder, self._answers.streams)

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex shows."""
        return cls.__name__

    # A call begins.

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Begin the run of a span."""
        try:
            self._enter(id_, bound_args.arguments, instance, parent_id, tags)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture enter", error)
            self._parents.lose(id_, parent_id)

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
            self._recorder.start(span_id, parent, RunKind.CHAIN, method)
            return
        name = name_of(role, instance) or owner or method
        if parent is None and not self._may_begin(span_id, name, arguments, instance, parent_id):
            return
        tags = active_instrument_tags.get() if tags is None else tags
        root = (_metadata_of(tags), _labels_of(tags)) if parent is None else ()
        run = self._recorder.start(span_id, parent, self._kind(role, parent), name, *root)
        if run is None:
            return
        self._evals.instrumentors.note(run, openinference_span)
        if run.outermost:
            run.interaction.is_joinable = FRAMEWORK in self._recorder.by_hand.everywhere
            if run.parent is not None:
                run.interaction.add_metadata(_metadata_of(tags))
        self._describe(run, role, arguments, instance)
        self._copy_arguments(run, role, arguments, instance)

    def _may_begin(
        self,
        span_id: str,
        name: str,
        arguments: Mapping[str, Any],
        instance: Any,
        parent_id: str | None,
    ) -> bool:
        """Return whether a call without a parent may be a request, or part of one by hand."""
        if self._parents.ignores(span_id, parent_id, arguments, instance):
            return False
        root = self._reader.options_of(self._recorder.around(None)).root
        if root is not None:
            return self._recorder.is_root(root, name)
        return not self._parents.began_unseen(span_id, parent_id, arguments)

    def _kind(self, role: Role, parent_id: str | None) -> RunKind:
        """Return the kind of a run; a tool's call within its own, sync within async, is a chain."""
        parent = self._recorder.get(parent_id) if role is Role.TOOL else None
        is_inner = parent is not None and parent.kind is RunKind.TOOL
        return RunKind.CHAIN if is_inner else role.kind

    def _describe(self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any) -> None:
        run.joins = role is Role.SYNTHESIS
        facts = models.object_facts(role.kind, instance)
        if role is Role.WORKFLOW:
            facts = models.agent_facts(instance)
            run.state = FlowState(is_given_input(arguments))
        elif role is Role.TOOL:
            run.description = str(field(instance.metadata, "description") or "")
        elif role is Role.MODEL:
            facts = request_facts([instance])
        run.facts = {**facts, **models.call_id_of(run, arguments)}

    def _copy_arguments(
        self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any
    ) -> None:
        """Copy what a call was given, where it may hold a question, to be read later."""
        reader, defer = self._reader, self._reader.defer
        if role is Role.TOOL and self._recorder.span_content:
            defer(run, "arguments", reader.tool_arguments, dict(arguments))
        if run.outermost:
            is_flow = role is Role.WORKFLOW
            given = {k: v for k, v in arguments.items() if not (is_flow and k in _OF_WORKFLOWS)}
            reader.choose(run, "question", given)
            declared = start_fields(instance) if is_flow else None
            defer(run, "enter", reader.input, given, declared)
        elif role in (Role.RETRIEVAL, Role.ENGINE):
            defer(run, "enter", functools.partial(reader.query, role=role), dict(arguments))
        if run.parent is not None and _may_resume(run.parent):
            event, state = arguments.get("ev"), state_of(arguments)
            reader.choose(run.parent, "question", {**live_fields(event), **state})
            defer(run, "step", reader.step, event, state)

    # A call ends.

    def span_exit(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """End the run of a span, or follow the generator that it gave out."""
        try:
            self._exit(id_, bound_args.arguments, instance, result)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture exit", error)
            self._recorder.lost(id_)
            if (run := self._recorder.get(id_)) is not None:
                self._recorder.end(run)

    def _exit(self, span_id: str, arguments: Mapping[str, Any], instance: Any, result: Any) -> None:
        run = None if self._recorder.leave(span_id) else self._recorder.get(span_id)
        if run is None:
            return
        role, _, method = described(span_id, instance.__class__)
        if role is Role.PART and run.parent is not None:
            self._recorder.end(run)
            return
        if issubclass(result.__class__, StopEvent):
            result = result if result.result is None else result.result
            for outer in run.ancestors():
                if isinstance(outer.state, FlowState):
                    outer.state.has_stopped = True
        elif role is Role.WORKFLOW and result is None and not run.state.has_stopped:
            # The span of a cancelled workflow ends as if all was well, though no step stopped it.
            self._recorder.fail(run, asyncio.CancelledError())
            return
        streams = False
        try:
            streams = self._answers.note(run, result)
            is_own_tool = role is Role.TOOL and is_written_by_framework(instance)
            call = Call(role, method, streams, is_own_tool)
            self._copy_result(run, call, arguments, _without_stream(result) if streams else result)
        finally:
            self._end(run, role, instance, result, streams=streams)

    def _copy_result(self, run: Run, call: Call, arguments: Mapping[str, Any], result: Any) -> None:
        """Copy what a call gave out, to be read later."""
        self._reader.choose(run, "contexts", result)
        if run.outermost and not call.streams:
            self._reader.choose(run, "answer", result)
        self._reader.defer(
            run,
            "exit",
            functools.partial(self._reader.result, call=call),
            result,
            dict(arguments) if call.role is Role.POSTPROCESSING else None,
            state_of(arguments) if call.role is Role.CHAIN else None,
        )

    def _end(self, run: Run, role: Role, instance: Any, result: Any, *, streams: bool) -> None:
        if role is Role.WRITER:
            self._recorder.answer(run, instance.response or None)
        if run.kind is not RunKind.MODEL:
            self._recorder.end(run)
        elif not streams:
            # Only where the event of its reply did not come is it open still.
            self._replied(str(run.id), result)
        if role is Role.WRITER:
            self._recorder.settle(run)

    @host_edge
    def span_drop(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        err: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        """End the run of a span that raised."""
        error = err or RuntimeError()
        run = None if self._recorder.leave(id_, error) else self._recorder.get(id_)
        if run is not None:
            self._recorder.fail(run, error)
            self._recorder.settle(run)

    def new_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing: runs are kept elsewhere."""
        return None

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing."""
        return None

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        """Do nothing."""
        return None

    # Events: calls of models, each in a span of its own, and cancelled workflows.

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        """Handle an event of a call; single tokens are ignored."""
        method = _METHODS.get(type(event).__name__)
        if method is not None:
            getattr(self, method)(event)

    def model_called(self, event: Any) -> None:
        """Note a model's call; inside another model's call it is that one."""
        try:
            run = self._model_run(event.span_id)
            if run is not None and run.kind is RunKind.CHAIN and not run.within(RunKind.MODEL):
                run.kind = RunKind.MODEL
                is_chat = isinstance(event, LLMChatStartEvent)
                given = event.messages if is_chat else event.prompt
                self._reader.defer(run, "model called", self._reader.prompt, given)
                told = models.model_facts(event.model_dict, event.span_id)
                run.facts = {**run.facts, **told}
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture model called", error)
            self._recorder.lost(event.span_id)

    @host_edge
    def model_replied(self, event: Any) -> None:
        """Note the complete reply of a model, streamed or not."""
        self._replied(event.span_id, event.response)

    def _replied(self, span_id: str | None, response: Any) -> None:
        run = self._model_run(span_id)
        if run is None or run.within(RunKind.MODEL):
            return
        if run.kind is not RunKind.MODEL:
            # The event of its prompt did not come.
            self._recorder.lost(run.id)
            return
        try:
            if isinstance(response, ChatResponse | CompletionResponse):
                said = response.message if isinstance(response, ChatResponse) else response
                text = said.content if isinstance(said, ChatMessage) else said.text
                self._recorder.answer(run, text or None)
                self._recorder.defer(run, "model replied", self._reader.reply, run, response)
            else:
                self._recorder.lost(run.id)
        finally:
            self._recorder.end(run)

    @host_edge
    def model_failed(self, event: Any) -> None:
        """Note that a model's stream broke, or was closed by its reader."""
        run = self._recorder.get(event.span_id)
        if run is not None and run.kind is RunKind.MODEL:
            self._recorder.fail(run, event.exception)

    @host_edge
    def cancelled(self, event: Any) -> None:
        """Fail a cancelled workflow or step, whose span LlamaIndex ends as if all was well."""
        run = self._recorder.get(event.span_id)
        if run is not None:
            self._recorder.fail(run, asyncio.CancelledError())

    def _model_run(self, span_id: str | None) -> Run | None:
        """Return the run of a model's span, or None; a span that never began is noted."""
        run = self._recorder.get(span_id)
        if run is None:
            self._parents.began_unseen(str(span_id), span_id, {})
        return run


def _may_resume(flow: Run) -> bool:
    """Return whether a run is that of an outermost workflow that was given no input."""
    return flow.outermost and isinstance(flow.state, FlowState) and not flow.state.is_given


def _without_stream(given: Any) -> Any:
    """Return a response that keeps no generator alive, as its reader may drop it."""
    sources = getattr(given, "source_nodes", None)
    return Response(None, sources) if isinstance(sources, list) else None


def _metadata_of(tags: Any) -> dict[str, Any]:
    """Return metadata from instrument tags, without LlamaIndex's own tags."""
    held = tags.items() if isinstance(tags, READABLE_MAPPING) else ()
    named = {str(key): value for key, value in held}
    return {k: v for k, v in named.items() if not k.startswith(_FRAMEWORK_TAGS) and k != "tags"}


def _labels_of(tags: Any) -> tuple[str, ...]:
    """Return the free labels in the instrument tag `tags`."""
    labels = tags.get("tags") if isinstance(tags, READABLE_MAPPING) else None
    if isinstance(labels, list | tuple | set | frozenset):
        return tuple(map(str, labels))
    return () if labels is None else (str(labels),)
