"""Notes what models are asked and what they say, by the events of LlamaIndex."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage

from rag_eval_hooks.capture import Recorder, Run, RunKind
from rag_eval_hooks.incidents import Incidents, host_edge
from rag_eval_hooks_llama_index import values
from rag_eval_hooks_llama_index.kinds import model_facts, reply_facts, tool_calls_of
from rag_eval_hooks_llama_index.span_parents import SpanParents

__all__ = ["ModelCalls"]


class ModelCalls:
    """Calls of models, each in a span of its own.

    Args:
        recorder: Knows the runs.
        parents: Knows the spans that are no runs.
        incidents: Where failures are counted.
    """

    def __init__(self, recorder: Recorder, parents: SpanParents, incidents: Incidents) -> None:
        self._recorder = recorder
        self._parents = parents
        self._incidents = incidents

    def called(
        self, span_id: str | None, given: str | Sequence[ChatMessage], model: Mapping[str, Any]
    ) -> None:
        """Note a model's call in a span of its own; inside another model's call it is that one."""
        try:
            self._called(span_id, given, model)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report("capture model called", error)
            self._recorder.lost(span_id)

    def _called(
        self, span_id: str | None, given: str | Sequence[ChatMessage], model: Mapping[str, Any]
    ) -> None:
        run = self._run_of(span_id)
        if run is not None and run.kind is RunKind.CHAIN and not run.within(RunKind.MODEL):
            run.kind = RunKind.MODEL
            texts = (given,) if isinstance(given, str) else values.message_texts(given)
            self._recorder.prompt(run, texts)
            if not isinstance(given, str):
                self._recorder.for_span(run, roles=[message.role.value for message in given])
            run.facts = model_facts(model)

    @host_edge
    def replied(self, span_id: str | None, response: Any) -> None:
        """Note the complete reply of a model, streamed or not."""
        run = self._run_of(span_id)
        if run is None or run.within(RunKind.MODEL):
            return
        if run.kind is not RunKind.MODEL:
            # What it was asked did not come.
            self._recorder.lost(run.id)
            return
        try:
            if isinstance(response, values.REPLIES):
                self._recorder.answer(run, values.answer_of(response) or None)
                picked = tool_calls_of(response)
                arguments = [one["arguments"] for one in picked]
                self._recorder.reply(run, reply_facts(response), arguments)
                self._recorder.for_span(run, tool_calls=picked)
            else:
                self._recorder.lost(run.id)
        finally:
            self._recorder.end(run)

    def _run_of(self, span_id: str | None) -> Run | None:
        """Return the run of a model's span, or None; one that never began is noted."""
        run = self._recorder.get(span_id)
        if run is None and span_id is not None and span_id not in self._parents.parts:
            self._parents.began_unseen(span_id, span_id, {})
        return run

    @host_edge
    def failed(self, span_id: str | None, error: BaseException) -> None:
        """Note that a model's stream broke, or was closed by its reader."""
        run = self._recorder.get(span_id)
        if run is not None and run.kind is RunKind.MODEL:
            self._recorder.fail(run, error)
