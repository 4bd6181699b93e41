"""Spans and events of LlamaIndex, from their arrival to the recorder."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import Response
from llama_index.core.instrumentation.dispatcher import active_instrument_tags
from llama_index.core.instrumentation.events.llm import LLMChatStartEvent

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Choice, Run, RunKind
from rag_eval_hooks.capture.copies import Copies
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import facts, values
from rag_eval_hooks_llama_index.copies import form_of
from rag_eval_hooks_llama_index.documents import is_written_by_framework
from rag_eval_hooks_llama_index.openinference import openinference_span
from rag_eval_hooks_llama_index.parents import SpanParents
from rag_eval_hooks_llama_index.reader import Reader
from rag_eval_hooks_llama_index.roles import Role, described, name_of
from rag_eval_hooks_llama_index.streams import StreamedAnswers
from rag_eval_hooks_llama_index.workflows import (
    is_given_input,
    live_fields,
    start_fields,
    state_of,
)

__all__ = ["FRAMEWORK", "Events"]

FRAMEWORK = "llama_index"
_OF_WORKFLOWS = ("tags", "init_state")
"""Arguments of a workflow's run that are its own bookkeeping."""


class Events:
    """Records the spans and events of LlamaIndex; one for each `RagEval`.

    LlamaIndex swallows what handlers raise: here it is counted first. Values are copied at once
    and read off the request's thread.

    Args:
        evals: Where interactions go.
        options: Of all interactions that have none of their own.
        watch_streams: See `enable`.

    Attributes:
        current: Returns the id of LlamaIndex's run around the caller, or None.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions, *, watch_streams: bool) -> None:
        self._recorder = recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._copies = Copies(recorder, options, form_of)
        self._answers = StreamedAnswers(recorder, watch_streams=watch_streams)
        self._parents = SpanParents(recorder, self._answers.streams)
        self._reader = Reader(recorder, evals.incidents, options)
        self.current = self._parents.current

    # A call begins.

    def span_enter(
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
            self._parents.add_part(span_id, parent)
            return
        name = name_of(role, instance) or owner or method
        if parent is None and not self._is_root(span_id, name, arguments, instance, parent_id):
            return
        tags = active_instrument_tags.get() if tags is None else tags
        root = (values.metadata_of(tags), values.labels_of(tags)) if parent is None else ()
        run = self._recorder.start(span_id, parent, self._kind(role, parent), name, *root)
        if run is None:
            return
        if run.outermost:
            run.interaction.is_joinable = FRAMEWORK in self._recorder.by_hand.everywhere
        self._instrumentors.note(run, openinference_span)
        self._describe(run, role, arguments, instance)
        self._defer_arguments(run, role, arguments, instance)
        if run.outermost and run.parent is not None:
            run.interaction.add_metadata(values.metadata_of(tags))

    def _is_root(
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
        wanted = self._reader.options_of(self._recorder.around(None)).root
        if wanted is not None:
            return wanted == name
        return not self._parents.began_unseen(span_id, parent_id, arguments)

    def _kind(self, role: Role, parent_id: str | None) -> RunKind:
        """Return the kind of a run; a tool's call within its own, sync within async, is a chain."""
        if role is Role.TOOL and parent_id is not None:
            parent = self._recorder.get(parent_id)
            return RunKind.CHAIN if parent and parent.kind is RunKind.TOOL else RunKind.TOOL
        return role.kind

    def _describe(self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any) -> None:
        is_workflow = role is Role.WORKFLOW
        run.facts = facts.object_facts(role.kind, instance, is_workflow=is_workflow)
        if (call_id := facts.call_id_of(run, arguments)) is not None:
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: call_id}
        run.joins = role is Role.SYNTHESIS
        if is_workflow:
            self._parents.add_workflow(run, is_given=is_given_input(arguments))
        elif role is Role.TOOL:
            run.description = str(facts.field(instance.metadata, "description") or "")

    def _defer_arguments(
        self, run: Run, role: Role, arguments: Mapping[str, Any], instance: Any
    ) -> None:
        """Copy what a call was given, where it may hold a question, to be read later."""
        if role is Role.WORKFLOW:
            arguments = {k: v for k, v in arguments.items() if k not in _OF_WORKFLOWS}
        if role is Role.TOOL and self._recorder.span_content:
            self._copies.defer(run, "arguments", self._reader.tool_arguments, dict(arguments))
        if run.outermost:
            chosen = self._call("question", run, arguments)
            declared = start_fields(instance) if role is Role.WORKFLOW else None
            self._copies.defer(run, "enter", self._reader.input, dict(arguments), chosen, declared)
        elif role in (Role.RETRIEVAL, Role.ENGINE):
            read = functools.partial(self._reader.query, role)
            self._copies.defer(run, "enter", read, dict(arguments))
        if run.parent is not None and self._parents.may_resume(run.parent):
            event, state = arguments.get("ev"), state_of(arguments)
            chosen = self._call("question", run.parent, {**live_fields(event), **state})
            self._copies.defer(run, "step", self._reader.step, event, state, chosen)

    def _call(self, name: str, run: Run, value: Any) -> Any:
        """Return what a function of the application chooses; it gets the live objects."""
        choice: Choice = getattr(self._reader.options_of(run), name)
        if not callable(choice):
            return None
        try:
            return choice(value)
        except Exception as error:  # noqa: BLE001 - the host's edge: a function of its own
            self._incidents.report(f"choice {name}", error)
            return None

    # A call ends.

    def span_exit(
        self, span_id: str, arguments: Mapping[str, Any], instance: Any, result: Any
    ) -> None:
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
        given = values.unwrapped(result)
        if values.is_stop(result):
            for outer in run.ancestors():
                outer.state = True
        elif role is Role.WORKFLOW and result is None and not run.state:
            # The span of a cancelled workflow ends as if all was well, though no step stopped it.
            self._recorder.fail(run, asyncio.CancelledError())
            return
        streams = False
        try:
            if values.may_stream(given):
                streams = self._answers.note(run, given)
            shown = _without_stream(given) if streams else given
            self._defer_result(run, role, method, instance, arguments, shown, streams)
        finally:
            self._end(run, role, instance, given, streams)

    def _defer_result(
        self,
        run: Run,
        role: Role,
        method: str,
        instance: Any,
        arguments: Mapping[str, Any],
        given: Any,
        streams: bool,
    ) -> None:
        is_own_tool = role is Role.TOOL and is_written_by_framework(instance)
        answer = self._call("answer", run, given) if run.outermost and not streams else None
        read = functools.partial(self._reader.result, (role, method, is_own_tool), streams)
        self._copies.defer(
            run,
            "exit",
            read,
            given,
            dict(arguments) if role is Role.POSTPROCESSING else None,
            state_of(arguments) if role is Role.CHAIN else None,
            self._call("contexts", run, given),
            answer,
        )

    def _end(self, run: Run, role: Role, instance: Any, given: Any, streams: bool) -> None:
        if role is Role.WRITER:
            self._recorder.answer(run, instance.response or None)
        if run.kind is not RunKind.MODEL:
            self._recorder.end(run)
        elif not streams:
            # Only where the event of its reply did not come is it open still.
            self._replied(str(run.id), given)
        if role is Role.WRITER:
            self._recorder.settle(run)

    @host_edge
    def span_drop(self, span_id: str, error: BaseException | None) -> None:
        """End the run of a span that raised."""
        if self._recorder.leave(span_id, error or RuntimeError()):
            return
        run = self._parents.left(span_id)
        if run is not None:
            self._recorder.fail(run, error or RuntimeError())
            self._recorder.settle(run)

    @host_edge
    def cancelled(self, event: Any) -> None:
        """Fail a cancelled workflow or step, whose span LlamaIndex ends as if all was well."""
        run = self._recorder.get(event.span_id)
        if run is not None:
            self._recorder.fail(run, asyncio.CancelledError())

    # Calls of models, each in a span of its own.

    def model_called(self, event: Any) -> None:
        """Note a model's call; inside another model's call it is that one."""
        try:
            run = self._model_run(event.span_id)
            if run is not None and run.kind is RunKind.CHAIN and not run.within(RunKind.MODEL):
                run.kind = RunKind.MODEL
                is_chat = isinstance(event, LLMChatStartEvent)
                given = event.messages if is_chat else event.prompt
                self._copies.defer(run, "model called", self._reader.prompt, given)
                run.facts = facts.model_facts(event.model_dict)
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
            # What it was asked did not come.
            self._recorder.lost(run.id)
            return
        try:
            if isinstance(response, ChatResponse | CompletionResponse):
                if isinstance(response, CompletionResponse):
                    text: str | None = response.text
                else:
                    text = response.message.content
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

    def _model_run(self, span_id: str | None) -> Run | None:
        """Return the run of a model's span, or None; one that never began is noted."""
        run = self._recorder.get(span_id)
        if run is None and span_id is not None and not self._parents.is_part(span_id):
            self._parents.began_unseen(span_id, span_id, {})
        return run


def _without_stream(given: Any) -> Any:
    """Return a response as one that keeps no generator alive, which its reader may drop."""
    sources = getattr(given, "source_nodes", None)
    return Response(None, sources) if isinstance(sources, list) else None
