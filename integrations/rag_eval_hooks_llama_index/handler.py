"""Our handler for LlamaIndex's spans and events."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from inspect import BoundArguments
from typing import Any

from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.span import BaseSpan
from llama_index.core.workflow import StopEvent

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.facts import field
from rag_eval_hooks.incidents import host_edge, place_of_caller
from rag_eval_hooks.suppress import paused
from rag_eval_hooks_llama_index import models
from rag_eval_hooks_llama_index.model_events import ModelEvents
from rag_eval_hooks_llama_index.reader import FunctionCall
from rag_eval_hooks_llama_index.spans import (
    Role,
    described,
    is_written_by_framework,
    name_of,
    openinference_span,
)
from rag_eval_hooks_llama_index.workflows import (
    FlowState,
    is_given_input,
    live_fields,
    start_fields,
    state_of,
)

__all__ = ["Instrumentation"]

_FRAMEWORK = "llama_index"
_OTHER = (
    "No call of LlamaIndex reached rag_eval_hooks_llama_index.enable(). For LangChain, write: "
    "from rag_eval_hooks_langchain import enable"
)
_OF_WORKFLOWS = ("tags", "init_state")
"""Internal arguments of a workflow's run."""


class Instrumentation(ModelEvents):
    """Our handler on LlamaIndex's root dispatcher, for one evaluator."""

    def __init__(self, evals: RagEval, options: CaptureOptions, *, watch_streams: bool) -> None:
        super().__init__(evals, options, watch_streams=watch_streams)
        self._options = options, watch_streams
        self._place = place_of_caller()

    @property
    def evals(self) -> RagEval:
        return self._evals

    @property
    def options(self) -> tuple[CaptureOptions, bool]:
        return self._options

    def enable(self) -> None:
        root = get_dispatcher()
        root.add_span_handler(self)
        root.add_event_handler(self)
        self._recorder.locators.add(self._parents.current)
        self._recorder.by_hand.everywhere.add(_FRAMEWORK)
        self._recorder.enabled[self._place] = ("langchain_core", _OTHER)

    def disable(self) -> None:
        """Remove the handler. Open requests are abandoned at their time limit. Idempotent."""
        root = get_dispatcher()
        root.span_handlers = [one for one in root.span_handlers if one is not self]
        root.event_handlers = [one for one in root.event_handlers if one is not self]
        self._recorder.locators.discard(self._parents.current)
        self._recorder.by_hand.everywhere.discard(_FRAMEWORK)

    def paused(self) -> AbstractContextManager[None]:
        """Capture nothing that starts in the block or in tasks and threads created there.

        Concurrent requests are still captured. Requests that are already open stay complete.
        """
        return paused()

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
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
        self._recorder.handlers[self._place] = True
        role, owner, method = described(span_id, instance.__class__)
        parent = self._parents.of(parent_id, role, instance)
        if role is Role.PART and parent is not None:
            self._recorder.start(span_id, parent, RunKind.CHAIN, method)
            return
        name = name_of(role, instance) or owner or method
        if parent is None and not self._may_begin(span_id, name, arguments, instance, parent_id):
            return
        tags = active_instrument_tags.get() if tags is None else tags
        root = (models.metadata_of(tags), models.labels_of(tags)) if parent is None else ()
        run = self._recorder.start(span_id, parent, self._kind(role, parent), name, *root)
        if run is None:
            return
        self._evals.instrumentors.note(run, openinference_span)
        if run.outermost:
            run.interaction.is_joinable = _FRAMEWORK in self._recorder.by_hand.everywhere
            if run.parent is not None:
                run.interaction.add_metadata(models.metadata_of(tags))
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
        """Return whether a call without a parent may be a request or part of a manual request."""
        if self._parents.ignores(span_id, parent_id, arguments, instance):
            return False
        root = self._reader.options_of(self._recorder.around(None)).root
        if root is not None:
            return self._recorder.is_root(root, name, self._reader.place)
        return not self._parents.began_unseen(span_id, parent_id, arguments)

    def _kind(self, role: Role, parent_id: str | None) -> RunKind:
        """Return a run's kind.

        A tool run directly inside a tool run gets the kind `CHAIN`, because a tool's async call may
        run its sync call.
        """
        parent = self._recorder.get(parent_id) if role is Role.TOOL else None
        is_inner = parent is not None and parent.kind is RunKind.TOOL
        return RunKind.CHAIN if is_inner else role.kind

    def _describe(self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any) -> None:
        run.joins = role is Role.SYNTHESIS
        if role is Role.WORKFLOW:
            run.state = FlowState(is_given_input(arguments))
        elif role is Role.TOOL:
            run.description = str(field(instance.metadata, "description") or "")
        facts = models.object_facts(role, instance)
        run.facts = {**facts, **models.call_id_of(run, arguments)}

    def _copy_arguments(
        self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any
    ) -> None:
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

    def span_exit(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        result: Any | None = None,
        **kwargs: Any,
    ) -> None:
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
            # The span of a cancelled workflow ends like a success, though no step stopped it.
            self._recorder.fail(run, asyncio.CancelledError())
            return
        streams = False
        try:
            streams = self._answers.note(run, result)
            call = FunctionCall(
                role, method, streams, role is Role.TOOL and is_written_by_framework(instance)
            )
            self._copy_result(run, call, arguments, _without_stream(result) if streams else result)
        finally:
            self._end(run, role, instance, result, streams=streams)

    def _copy_result(
        self, run: Run, call: FunctionCall, arguments: Mapping[str, Any], result: Any
    ) -> None:
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
            # The run is still open only if its reply event was lost.
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
        error = err or RuntimeError()
        run = None if self._recorder.leave(id_, error) else self._recorder.get(id_)
        if run is not None:
            self._recorder.fail(run, error)
            self._recorder.settle(run)

    def new_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        return None

    def prepare_to_exit_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        return None

    def prepare_to_drop_span(self, *args: Any, **kwargs: Any) -> BaseSpan | None:
        return None


def _may_resume(flow: Run) -> bool:
    return flow.outermost and isinstance(flow.state, FlowState) and not flow.state.is_given


def _without_stream(given: Any) -> Any:
    """Return a response without its generator, because the application may drop the generator."""
    sources = getattr(given, "source_nodes", None)
    return Response(None, sources) if isinstance(sources, list) else None
