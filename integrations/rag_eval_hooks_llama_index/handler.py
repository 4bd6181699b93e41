"""The handler for LlamaIndex's older `CallbackManager`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

from llama_index.core.callbacks import CBEventType, EventPayload
from llama_index.core.callbacks.base_handler import BaseCallbackHandler
from llama_index.core.instrumentation.dispatcher import active_instrument_tags

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.evals import checked
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.instrumentation import is_enabled
from rag_eval_hooks_llama_index.kinds import model_facts, reply_facts, span_values
from rag_eval_hooks_llama_index.offline import is_offline
from rag_eval_hooks_llama_index.sources import note_sources, shown_forms, snapshot
from rag_eval_hooks_llama_index.streamed_answers import StreamedAnswers

__all__ = ["RagEvalHandler"]

_KINDS: Mapping[CBEventType, RunKind] = {
    CBEventType.QUERY: RunKind.CHAIN,
    CBEventType.SYNTHESIZE: RunKind.CHAIN,
    CBEventType.SUB_QUESTION: RunKind.CHAIN,
    CBEventType.AGENT_STEP: RunKind.CHAIN,
    CBEventType.RETRIEVE: RunKind.RETRIEVER,
    CBEventType.RERANKING: RunKind.RERANKER,
    CBEventType.LLM: RunKind.MODEL,
    CBEventType.FUNCTION_CALL: RunKind.TOOL,
}
"""Events that are followed; those of other types hold no others."""
_IGNORED = [kind for kind in CBEventType if kind not in _KINDS]
_MOST_ERRORS = 1000


class RagEvalHandler(BaseCallbackHandler):
    """Captures query engines by `CallbackManager([RagEvalHandler(evals)])`.

    Prefer `enable`, which sees everything. Callback events of chat engines, agents and workflows
    have no common parent: a query engine that one of them calls is an interaction of its own,
    with the question that it was given. Where `enable(evals)` is on, too, this does nothing, so
    that one interaction stays one sample.

    Args:
        evals: Where interactions go.
    """

    def __init__(self, evals: RagEval) -> None:
        super().__init__(_IGNORED, _IGNORED)
        self._evals = checked(evals)
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._answers = StreamedAnswers(evals)
        self._errors: dict[Any, type[BaseException]] = {}

    def on_event_start(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        parent_id: str = "",
        **kwargs: Any,
    ) -> str:
        """Begin the run of an event.

        Returns:
            Its id.
        """
        event_id = event_id or str(uuid.uuid4())
        self._start(event_type, payload or {}, event_id, parent_id)
        return event_id

    @host_edge
    def on_event_end(
        self,
        event_type: CBEventType,
        payload: dict[str, Any] | None = None,
        event_id: str = "",
        **kwargs: Any,
    ) -> None:
        """End the run of an event; one without a result was left by an exception."""
        run = self._recorder.get(event_id)
        # Only the innermost event tells of an exception; kept as its class, it keeps no frames.
        inner = self._errors.pop(event_id, asyncio.CancelledError)
        if run is None:
            return
        error = (payload or {}).get(EventPayload.EXCEPTION)
        if error is not None:
            self._fail(run, error)
        elif event_type is CBEventType.QUERY and EventPayload.RESPONSE not in (payload or {}):
            root = run.interaction.root
            self._recorder.fail(run, inner if run is root else self._errors.get(root.id, inner))
        else:
            self._end(run, event_type, payload or {})

    def start_trace(self, trace_id: str | None = None) -> None:
        """Do nothing: an interaction is a root event."""

    def end_trace(
        self, trace_id: str | None = None, trace_map: dict[str, list[str]] | None = None
    ) -> None:
        """Do nothing: an interaction is a root event."""

    @host_edge
    def _start(
        self, event_type: CBEventType, payload: Mapping[str, Any], event_id: str, parent_id: str
    ) -> None:
        parent = self._parent(parent_id)
        if parent is None and (is_enabled(self._evals) or self._is_offline(payload)):
            return
        kind, tags = _KINDS[event_type], active_instrument_tags.get()
        root = (values.metadata_of(tags), values.labels_of(tags)) if parent is None else ()
        run = self._recorder.start(event_id, parent, kind, event_type.value, *root)
        if run is None:
            return
        if EventPayload.QUERY_STR in payload:
            self._recorder.question(run, payload[EventPayload.QUERY_STR])
        run.joins = event_type is CBEventType.SYNTHESIZE
        if kind is RunKind.MODEL:
            self._note_prompt(run, payload)
        elif kind is RunKind.TOOL:
            tool = payload.get(EventPayload.TOOL)
            run.facts = span_values({semconv.GEN_AI_TOOL_NAME: getattr(tool, "name", None)})

    def _is_offline(self, payload: Mapping[str, Any]) -> bool:
        asked = {"query": payload.get(EventPayload.QUERY_STR)}
        return not self._recorder.is_inside(None) and is_offline(asked, None)

    def _parent(self, parent_id: str) -> str | None:
        if self._recorder.knows(parent_id):
            return parent_id
        streaming = self._answers.streams.around()
        return None if streaming is None else str(streaming.id)

    def _note_prompt(self, run: Run, payload: Mapping[str, Any]) -> None:
        prompt = payload.get(EventPayload.PROMPT)
        messages = payload.get(EventPayload.MESSAGES, ())
        texts = values.message_texts(messages) if prompt is None else (str(prompt),)
        self._recorder.prompt(run, texts)
        run.facts = model_facts(payload.get(EventPayload.SERIALIZED) or {})

    def _end(self, run: Run, event_type: CBEventType, payload: Mapping[str, Any]) -> None:
        try:
            self._note_result(run, event_type, payload)
        finally:
            self._recorder.end(run)

    def _note_result(self, run: Run, event_type: CBEventType, payload: Mapping[str, Any]) -> None:
        given = payload.get(EventPayload.RESPONSE, payload.get(EventPayload.COMPLETION))
        nodes = payload.get(EventPayload.NODES)
        if nodes is not None:
            self._recorder.documents(run, snapshot(nodes), shown=shown_forms(nodes))
        elif isinstance(given, values.ANSWERS_WITH_SOURCES):
            note_sources(self._recorder, run, given.source_nodes)
            if not given.source_nodes and not _has_asked_a_model(run):
                # A postprocessor dropped everything, of which no event tells.
                self._recorder.documents(run, ())
        if event_type is CBEventType.LLM:
            self._recorder.answer(run, values.answer_of(given) or None)
            self._recorder.reply(run, reply_facts(given))
        else:
            self._note_answer(run, given)

    def _note_answer(self, run: Run, given: Any) -> None:
        if not self._answers.note(run, given):
            text = values.answer_of(given)
            unknown = text is None and isinstance(given, values.STREAMING)
            self._recorder.answer(run, text, unknown=unknown)

    def _fail(self, run: Run, error: BaseException) -> None:
        root = run.interaction.root
        # Once the root has returned, nobody will ask: what fails then is a stream.
        if run is not root and not run.interaction.returned:
            self._errors[root.id] = type(error)
            while len(self._errors) > _MOST_ERRORS:
                self._errors.pop(next(iter(self._errors)), None)
        self._recorder.fail(run, error)


def _has_asked_a_model(run: Run) -> bool:
    return any(inner.kind is RunKind.MODEL for inner in run.interaction.runs)
