"""The callback handler: passes LangChain's run events on to the Recorder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import Run, RunKind, host_edge
from rag_eval_hooks_langchain import values
from rag_eval_hooks_langchain.other_instrumentors import find_other

__all__ = ["RagEvalCallbackHandler"]

_CONTAINERS = (list, tuple, dict)


class RagEvalCallbackHandler(BaseCallbackHandler):
    """Captures RAG interactions of LangChain runs. Pass it in `config={"callbacks": [...]}`.

    One handler serves any number of chains, threads and tasks at once. It does dictionary work
    only, changes nothing of the application's, and raises nothing into it.

    Args:
        evals: Where interactions go.
        run_inline: Whether events are handled in the event loop. Off, LangChain hands each
            event of an async run to a worker thread, some milliseconds a request. On, handlers
            of other vendors that are not inline miss `on_llm_start` in async runs of plain
            (non-chat) models, by a defect of langchain-core up to 1.7.
    """

    def __init__(self, evals: RagEval, *, run_inline: bool = True) -> None:
        self.run_inline = run_inline
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors

    @host_edge
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begins a chain run; a root's input holds the question."""
        run = self._start(RunKind.CHAIN, serialized, run_id, parent_run_id, extra)
        if run is not None and run.parent is None:
            run.query = values.question_of(inputs)

    @host_edge
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **extra: Any) -> None:
        """Ends a chain run; its output may hold documents, a root's holds the answer."""
        run = self._recorder.get(run_id.int)
        if run is None:
            return
        if isinstance(outputs, _CONTAINERS):
            self._note_documents(run, outputs)
        if run.parent is None:
            run.text = values.answer_of(outputs)
            self._note_streamed_question(run, extra)
        self._recorder.end(run)

    @host_edge
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **extra: Any) -> None:
        """Ends a chain run that raised, was cancelled, or whose stream was closed."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            if run.parent is None:
                self._note_streamed_question(run, extra)
            self._recorder.fail(run, error)

    @host_edge
    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begins a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, run_id, parent_run_id, extra)
        if run is not None:
            run.query = query
            source = (extra.get("metadata") or {}).get("ls_vector_store_provider") or run.name
            run.facts = {semconv.GEN_AI_DATA_SOURCE_ID: str(source)}

    @host_edge
    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        """Ends a retrieval with its documents, possibly none."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            self._recorder.documents(run, tuple(map(values.snapshot, documents)))
            self._recorder.end(run)

    @host_edge
    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begins a call of a chat model."""
        run = self._start(RunKind.MODEL, serialized, run_id, parent_run_id, extra)
        if run is not None:
            run.prompt = values.message_texts(messages)
            run.facts = values.model_facts(extra)

    @host_edge
    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begins a call of a plain model."""
        run = self._start(RunKind.MODEL, serialized, run_id, parent_run_id, extra)
        if run is not None:
            run.prompt = tuple(prompts)
            run.facts = values.model_facts(extra)

    @host_edge
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Ends a model call; a streamed reply arrives here put together."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            run.text = values.result_text(response)
            run.facts = {**run.facts, **values.result_facts(response)}
            self._recorder.end(run)

    @host_edge
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begins a tool call."""
        run = self._start(RunKind.TOOL, serialized, run_id, parent_run_id, extra)
        if run is not None:
            run.facts = {semconv.GEN_AI_TOOL_NAME: run.name}

    @host_edge
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Ends a tool call; its output may hold documents."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            if isinstance(output, _CONTAINERS):
                self._note_documents(run, output)
            self._recorder.end(run)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    def _start(
        self,
        kind: RunKind,
        serialized: Mapping[str, Any] | None,
        run_id: UUID,
        parent_run_id: UUID | None,
        extra: Mapping[str, Any],
    ) -> Run | None:
        # A UUID hashes and compares in Python, its integer in C: a quarter of our time.
        run = self._recorder.start(
            run_id.int,
            None if parent_run_id is None else parent_run_id.int,
            kind,
            extra.get("name") or _class_name(serialized) or kind.value,
            extra.get("metadata"),
            extra.get("tags"),
        )
        if run is not None:
            self._instrumentors.note(run, find_other)
        return run

    def _note_documents(self, run: Run, outputs: Any) -> None:
        found = values.documents_in(outputs)
        if found is not None:
            self._recorder.documents(run, found)

    def _note_streamed_question(self, run: Run, extra: Mapping[str, Any]) -> None:
        """A streamed root begins with a blank input; the real one comes with its end."""
        if "inputs" in extra and not run.query:
            run.query = values.question_of(extra["inputs"])


def _class_name(serialized: Mapping[str, Any] | None) -> str | None:
    """The class behind a run that has no name of its own."""
    path = (serialized or {}).get("id")
    return str(path[-1]) if path else None
