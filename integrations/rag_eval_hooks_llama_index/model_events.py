"""Handles LlamaIndex's events: model calls in separate spans, and cancelled workflows."""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
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

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import models
from rag_eval_hooks_llama_index.reader import Reader
from rag_eval_hooks_llama_index.spans import SpanParents
from rag_eval_hooks_llama_index.streams import StreamedAnswers

__all__ = ["ModelEvents"]

_METHODS = {
    LLMChatStartEvent.__name__: "model_called",
    LLMCompletionStartEvent.__name__: "model_called",
    LLMChatEndEvent.__name__: "model_replied",
    LLMCompletionEndEvent.__name__: "model_replied",
    ExceptionEvent.__name__: "model_failed",
    # Some versions lack the workflows package.
    "SpanCancelledEvent": "cancelled",
}
"""Method of the handler for each event class. Other events are ignored."""


class ModelEvents(BaseSpanHandler[BaseSpan], BaseEventHandler):
    """Records model calls.

    LlamaIndex swallows handlers' exceptions, so each method counts its own. Values are copied
    immediately, and another thread reads the copies.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions, *, watch_streams: bool) -> None:
        super().__init__()
        self._evals = evals
        self._recorder = recorder = evals.recorder
        self._incidents = evals.incidents
        self._reader = Reader(recorder, evals.incidents, options)
        self._answers = StreamedAnswers(recorder, watch_streams=watch_streams)
        self._parents = SpanParents(recorder)

    @classmethod
    def class_name(cls) -> str:
        return cls.__name__

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        method = _METHODS.get(type(event).__name__)
        if method is not None:
            getattr(self, method)(event)

    def model_called(self, event: Any) -> None:
        """Record a model call. A call inside another model's call is the same call."""
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
        self._replied(event.span_id, event.response)

    def _replied(self, span_id: str | None, response: Any) -> None:
        run = self._recorder.of_open_request(span_id) or self._model_run(span_id)
        if run is None or run.within(RunKind.MODEL):
            return
        if run.kind is not RunKind.MODEL:
            # The prompt's event was lost. The span of a stream may have ended since.
            self._recorder.lost(run.id)
            return
        if run.end is not None:
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
        """Record that a model's stream failed or that the stream's reader closed it."""
        run = self._recorder.get(event.span_id)
        if run is not None and run.kind is RunKind.MODEL:
            self._recorder.fail(run, event.exception)

    @host_edge
    def cancelled(self, event: Any) -> None:
        """Mark a cancelled workflow or step as failed. LlamaIndex ends its span as successful."""
        run = self._recorder.get(event.span_id)
        if run is not None:
            self._recorder.fail(run, asyncio.CancelledError())

    def _model_run(self, span_id: str | None) -> Run | None:
        """Return the run of a model's span, or None. If the span's start was lost, record that."""
        run = self._recorder.get(span_id)
        if run is None and self._reader.options.root is None:
            self._parents.began_unseen(str(span_id), span_id, {})
        return run
