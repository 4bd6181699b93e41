"""The handler for LlamaIndex's spans and events.

LlamaIndex hides the exceptions of handlers, so the handler's methods report their own exceptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from inspect import BoundArguments
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.instrumentation.span_handlers import BaseSpanHandler
from llama_index.core.workflow import StopEvent

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.attributes import field
from rag_eval_hooks.capture.options import Unmatched
from rag_eval_hooks.incidents import host_edge, place_of_caller
from rag_eval_hooks.own_requests import paused
from rag_eval_hooks_llama_index import vocabulary, workflows
from rag_eval_hooks_llama_index.reader import Reader
from rag_eval_hooks_llama_index.spans import (
    DESCRIBED,
    Role,
    SpanCall,
    SpanParents,
    openinference_span,
)
from rag_eval_hooks_llama_index.streams import current_stream, follow_stream, is_subclass
from rag_eval_hooks_llama_index.workflows import FlowState

_FRAMEWORK = "llama_index"
# Internal arguments of a workflow's `run`.
_OF_WORKFLOWS = ("tags", "init_state")
_EVENTS = {
    "LLMChatStartEvent": "model_called",
    "LLMCompletionStartEvent": "model_called",
    "LLMChatEndEvent": "model_replied",
    "LLMCompletionEndEvent": "model_replied",
    "ExceptionEvent": "model_failed",
}


class Instrumentation(BaseSpanHandler[BaseSpan], BaseEventHandler):
    """The handler that `enable` registers with LlamaIndex's root dispatcher."""

    def __init__(self, evals: RagEval, options: CaptureOptions) -> None:
        super().__init__()
        self._evals = evals
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._reader = Reader(evals.recorder, evals.incidents, options)
        self._parents = SpanParents(evals.recorder)
        self._place = place_of_caller()

    @property
    def evals(self) -> RagEval:
        return self._evals

    @property
    def options(self) -> CaptureOptions:
        return self._reader.options

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    def enable(self, before: Unmatched | None) -> None:
        root = get_dispatcher()
        root.add_span_handler(self)
        root.add_event_handler(self)
        self._recorder.locators.add(self._parents.current)
        self._recorder.unmatched.enable(_FRAMEWORK, self._place, before)

    def disable(self) -> None:
        """Stop the capture. Idempotent. Open requests later get the status `abandoned`."""
        root = get_dispatcher()
        root.span_handlers = [one for one in root.span_handlers if one is not self]
        root.event_handlers = [one for one in root.event_handlers if one is not self]
        self._recorder.locators.discard(self._parents.current)

    def paused(self) -> AbstractContextManager[None]:
        """Return a context manager that pauses the capture in its `with` block.

        The pause also applies to tasks and threads that the block starts. Capture continues for
        requests outside the block, and for requests that are already open.
        """
        return paused()

    def span_enter(
        self, id_: str, bound_args: BoundArguments, instance: Any = None, *_: Any, **event: Any
    ) -> None:
        parent_id = event.get("parent_id")
        try:
            self._recorder.unmatched.handlers[self._place] = True
            call = SpanCall.of(id_, bound_args, instance, parent_id)
            # A stream may be nearer to the call than the parent.
            may_skip = self._recorder.left_out and current_stream() is None
            if may_skip and self._recorder.skips(id_, parent_id, call.role.kind):
                return
            run = self._start(call, event.get("tags"))
            if run is not None and not (call.role is Role.PART and run.parent is not None):
                self._describe(run, call)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture enter", error)
            self._parents.lose(id_, parent_id)

    def _start(self, call: SpanCall, tags: Mapping[str, Any] | None) -> Run | None:
        recorder, kind, (parent, outer) = self._recorder, call.role.kind, self._parents.of(call)
        if outer is not None:
            if kind is RunKind.TOOL and outer.kind is RunKind.TOOL:
                # A tool's async call may run the tool's sync call.
                kind = RunKind.CHAIN
            return recorder.start_child(call.id, kind, call.name, outer)
        if parent is not None:
            return recorder.start(call.id, parent, kind, call.name)
        if self._parents.ignores(call) or not self._may_begin(call):
            return None
        tags = active_instrument_tags.get() if tags is None else tags
        metadata, labels = vocabulary.metadata_of(tags), vocabulary.labels_of(tags)
        run = recorder.start(call.id, None, kind, call.name, metadata, labels)
        if run is not None and run.outermost and run.parent is not None:
            run.interaction.add_metadata(metadata)
        return run

    def _may_begin(self, call: SpanCall) -> bool:
        if (root := self._reader.options.root) is not None:
            return self._reader.is_root(root, call.name)
        is_step = call.event is not None
        return not self._parents.lost(call.id, call.parent_id, is_step=is_step)

    def _defer_facts(self, run: Run, call: SpanCall) -> None:
        role, event = call.role, call.event
        if run.kind is RunKind.RETRIEVER or run.interaction.others is None:
            self._evals.instrumentors.note(run, openinference_span)
        if role in DESCRIBED or event is not None:
            # Any other object may hold the response's stream, and must not be kept.
            instance = call.instance if role in DESCRIBED else None
            self._recorder.defer(run, "start", self._reader.started, run, role, instance, event)

    def _describe(self, run: Run, call: SpanCall) -> None:
        reader, defer, role, given = self._reader, self._reader.defer, call.role, call.arguments
        self._defer_facts(run, call)
        run.joins = role is Role.SYNTHESIS
        if role is Role.WORKFLOW:
            run.state = FlowState(workflows.is_given_input(given))
            given = {key: one for key, one in given.items() if key not in _OF_WORKFLOWS}
        elif role is Role.TOOL:
            run.description = str(field(call.instance.metadata, "description") or "")
            if self._recorder.span_content:
                defer(run, "arguments", reader.tool_arguments, dict(given))
        if run.outermost:
            reader.choose(run, "question", dict(given))
            defer(run, "enter", reader.input, dict(given))
        elif role in (Role.RETRIEVAL, Role.ENGINE):
            defer(run, "enter", partial(reader.query, role=role), dict(given))
        if run.parent is not None and _may_resume(run.parent):
            state = workflows.state_of(given)
            reader.choose(run.parent, "question", {**workflows.live_fields(call.event), **state})
            defer(run, "step", reader.step, call.event, state)

    def span_exit(
        self, id_: str, bound_args: BoundArguments, instance: Any = None, *_: Any, **event: Any
    ) -> None:
        try:
            recorder = self._recorder
            if recorder.left_out and recorder.leave(id_):
                return
            if (run := recorder.get(id_)) is not None:
                self._exit(run, SpanCall.of(id_, bound_args, instance), event.get("result"))
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._lose("exit", error, id_)
            if (run := self._recorder.get(id_)) is not None:
                self._recorder.end(run)

    def _exit(self, run: Run, call: SpanCall, result: Any) -> None:
        if call.role is Role.PART and run.parent is not None:
            self._recorder.end(run)
            return
        result = _stop_result(run, result)
        if call.role is Role.WORKFLOW and result is None and not run.state.has_stopped:
            # LlamaIndex reports a cancelled workflow as successful, although no step stopped it.
            self._recorder.fail(run, asyncio.CancelledError())
            return
        streams = False
        try:
            streams = follow_stream(self._recorder, run, result)
            self._copy_result(run, call, result, streams=streams)
        finally:
            if call.role is Role.WRITER:
                self._recorder.answer(run, call.instance.response or None)
            if run.kind is not RunKind.MODEL:
                self._recorder.end(run)
            elif not streams:
                # A run that is still open here has lost its reply event.
                self._replied(call.id, result)
            if call.role is Role.WRITER:
                self._recorder.settle(run)

    def _copy_result(self, run: Run, call: SpanCall, result: Any, *, streams: bool) -> None:
        role = call.role
        if streams:
            # A copy would keep the response's generator alive, even if the application drops it.
            sources = getattr(result, "source_nodes", None)
            result = Response(None, sources) if isinstance(sources, list) else None
        elif run.outermost:
            self._reader.choose(run, "answer", result)
        self._reader.choose(run, "contexts", result)
        given = [dict(call.arguments)] if role is Role.POSTPROCESSING else ()
        read = partial(self._reader.result, role=role, streams=streams)
        self._reader.defer(run, "exit", read, result, *given)

    @host_edge
    def span_drop(self, id_: str, *_: Any, **event: Any) -> None:
        error = event.get("err") or RuntimeError()
        run = None if self._recorder.leave(id_, error) else self._recorder.get(id_)
        if run is not None:
            self._recorder.fail(run, error)
            self._recorder.settle(run)

    def new_span(self, *_: Any, **__: Any) -> None: ...
    def prepare_to_exit_span(self, *_: Any, **__: Any) -> None: ...
    def prepare_to_drop_span(self, *_: Any, **__: Any) -> None: ...

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        method = _EVENTS.get(type(event).__name__)
        if method is not None:
            getattr(self, method)(event)

    def model_called(self, event: Any) -> None:
        # A model call inside another model call is not a separate call.
        try:
            run = self._model_run(event.span_id)
            if run is not None and run.kind is RunKind.CHAIN and not run.within(RunKind.MODEL):
                run.kind = RunKind.MODEL
                is_chat = isinstance(event, LLMChatStartEvent)
                given = event.messages if is_chat else event.prompt
                self._reader.defer(run, "model called", self._reader.prompt, given)
                run.facts = {**run.facts, **vocabulary.model_facts(event.model_dict, event.span_id)}
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._lose("model called", error, event.span_id)

    def _lose(self, event: str, error: Exception, span_id: str | None) -> None:
        self._incidents.report(f"capture {event}", error)
        self._recorder.lost(span_id)

    def _model_run(self, span_id: str | None) -> Run | None:
        run = self._recorder.get(span_id)
        if run is None and self._reader.options.root is None:
            self._parents.lost(str(span_id), span_id)
        return run

    @host_edge
    def model_replied(self, event: Any) -> None:
        self._replied(event.span_id, event.response)

    def _replied(self, span_id: str | None, response: Any) -> None:
        run = self._recorder.of_open_request(span_id) or self._model_run(span_id)
        if run is None or run.within(RunKind.MODEL):
            return
        is_reply = isinstance(response, ChatResponse | CompletionResponse)
        if run.kind is not RunKind.MODEL or (run.end is None and not is_reply):
            # The event of the prompt or the reply was lost, or a stream's span has already ended.
            self._recorder.lost(run.id)
        if run.kind is not RunKind.MODEL or run.end is not None:
            return
        try:
            if is_reply:
                chat = isinstance(response, ChatResponse)
                text = response.message.content if chat else response.text
                self._recorder.answer(run, text or None)
                self._recorder.defer(run, "model replied", self._reader.reply, run, response)
        finally:
            self._recorder.end(run)

    @host_edge
    def model_failed(self, event: Any) -> None:
        run = self._recorder.get(event.span_id)
        if run is not None and run.kind is RunKind.MODEL:
            self._recorder.fail(run, event.exception)


def _may_resume(flow: Run) -> bool:
    return flow.outermost and isinstance(flow.state, FlowState) and not flow.state.is_given


def _stop_result(run: Run, result: Any) -> Any:
    if not is_subclass(result.__class__, (StopEvent,)):
        return result
    for flow in (run, *run.ancestors()):
        if isinstance(flow.state, FlowState):
            flow.state.has_stopped = True
    return result if result.result is None else result.result
