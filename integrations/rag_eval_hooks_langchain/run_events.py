"""Passes LangChain's run events on to the recorder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import Run, RunKind
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_langchain import models
from rag_eval_hooks_langchain.choices import (
    Choices,
    class_name,
    users_tags,
)
from rag_eval_hooks_langchain.documents import Documents, snapshot
from rag_eval_hooks_langchain.graphs import (
    ChainState,
    checkpoint_of,
    is_interrupt,
    is_no_error,
    is_step,
    state_of,
)
from rag_eval_hooks_langchain.question_answer import message_texts
from rag_eval_hooks_langchain.run_outputs import RunOutputs, text_of_tool
from rag_eval_hooks_langchain.surroundings import note_belonging
from rag_eval_hooks_langchain.turns import Turns
from rag_eval_hooks_langchain.vendor_spans import vendor_span

__all__ = ["RunEvents"]


class RunEvents(BaseCallbackHandler):
    """Records what LangChain reports about runs, and what LangGraph reports about interrupts.

    Args:
        evals: Where interactions go.
        choices: Choices of the application.
        root: Name of the run that is an interaction, or None for the outermost one.
        documents: Finds documents in values.
        retrieval_tools: Names of the tools whose text counts as context, or None for every tool.
    """

    def __init__(
        self,
        evals: RagEval,
        choices: Choices,
        root: str | None,
        documents: Documents,
        retrieval_tools: Collection[str] | None,
    ) -> None:
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._root = root
        self._retrieval_tools = retrieval_tools
        parts = self._recorder, documents, choices, self._incidents
        self._turns = Turns(*parts)
        self._outputs = RunOutputs(*parts)

    @host_edge
    def on_chain_start(
        self,
        serialized: dict[str, Any] | None,
        inputs: Any,
        **event: Any,
    ) -> None:
        """Begin a chain run; a root's input holds the question."""
        run = self._start(RunKind.CHAIN, serialized, event)
        if run is None:
            return
        run.state = ChainState(inputs)
        parent = run.parent
        if run.outermost:
            self._turns.begin(run, inputs)
        elif parent is not None and is_step(event.get("tags")):
            self._turns.step(run, parent, event.get("metadata"))
        elif parent is not None and parent.checkpoint is not None:
            # A task of an entrypoint is a step of its own.
            checkpoint = checkpoint_of(event.get("metadata"))
            run.checkpoint = None if checkpoint == parent.checkpoint else checkpoint

    @host_edge
    def on_chain_end(self, outputs: Any, *, run_id: UUID, **extra: Any) -> None:
        """End a chain run; its output may hold documents, a root's holds the answer."""
        run = self._recorder.get(run_id.int)
        if run is None:
            return
        state = state_of(run)
        # A stream reports its input only now.
        given = extra.get("inputs", state.given)
        try:
            if run.outermost:
                self._turns.ends(run, extra)
                self._turns.gave(run, outputs)
                self._outputs.note_answer(run, outputs, given)
            if state.is_graph:
                self._outputs.note_final_state(run, outputs)
            elif not state.is_resuming and not self._outputs.note_documents(run, outputs, given):
                self._outputs.note_joined_text(run, outputs, given)
            self._outputs.note_choice(run, outputs)
        finally:
            self._recorder.end(run)
            state.given = state.unseen = None

    @host_edge
    def on_chain_error(self, error: BaseException, *, run_id: UUID, **extra: Any) -> None:
        """End a run that raised, was cancelled or interrupted, or whose stream was closed."""
        run = self._recorder.get(run_id.int)
        if run is None:
            return
        if run.state is not None:
            run.state.given = None
        self._recorder.stop(run, run.checkpoint)
        if run.outermost:
            self._turns.ends(run, extra)
        if is_interrupt(error):
            self._recorder.interrupt(run)
        if is_no_error(error):
            self._recorder.end(run)
        else:
            self._recorder.fail(run, error)

    @host_edge
    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: str,
        **event: Any,
    ) -> None:
        """Begin a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._recorder.question(run, query)
            source = (event.get("metadata") or {}).get("ls_vector_store_provider") or run.name
            run.facts = {semconv.GEN_AI_DATA_SOURCE_ID: str(source)}

    @host_edge
    def on_retriever_end(self, documents: Sequence[Document], *, run_id: UUID, **_: Any) -> None:
        """End a retrieval with its documents, possibly none."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            try:
                self._recorder.documents(run, tuple(map(snapshot, documents)))
            finally:
                self._recorder.end(run)

    @host_edge
    def on_chat_model_start(
        self,
        serialized: dict[str, Any] | None,
        messages: list[list[BaseMessage]],
        **event: Any,
    ) -> None:
        """Begin a call of a chat model."""
        run = self._start(RunKind.MODEL, serialized, event)
        if run is not None:
            self._recorder.prompt(run, message_texts(messages))
            run.facts = models.model_facts(event)
            if messages:
                self._outputs.note_unseen(run, messages[0])

    @host_edge
    def on_llm_start(
        self,
        serialized: dict[str, Any] | None,
        prompts: list[str],
        **event: Any,
    ) -> None:
        """Begin a call of a plain model."""
        run = self._start(RunKind.MODEL, serialized, event)
        if run is not None:
            self._recorder.prompt(run, prompts)
            run.facts = models.model_facts(event)
            self._outputs.note_unseen(run, "\n".join(prompts))

    @host_edge
    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """End a model call; a streamed reply arrives here put together."""
        run = self._recorder.get(run_id.int)
        if run is not None:
            try:
                generation = models.first_generation(response)
                self._recorder.answer(run, models.reply_text(generation))
                self._recorder.reply(run, *models.reply_details(generation))
            finally:
                self._recorder.end(run)

    @host_edge
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        **event: Any,
    ) -> None:
        """Begin a tool call."""
        run = self._start(RunKind.TOOL, serialized, event)
        if run is not None:
            run.facts = {semconv.GEN_AI_TOOL_NAME: run.name}

    @host_edge
    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """End a tool call; its output or artifact may hold documents, else its text counts."""
        run = self._recorder.get(run_id.int)
        if run is None:
            return
        try:
            self._outputs.note_choice(run, output)
            tools = self._retrieval_tools
            if not self._outputs.note_documents(run, output) and (
                tools is None or run.name in tools
            ):
                self._outputs.note_text(run, text_of_tool(output))
        finally:
            self._recorder.end(run)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    @host_edge
    def on_interrupt(self, event: Any) -> None:
        """Note that a graph waits for somebody."""
        run = None if event.run_id is None else self._recorder.get(event.run_id.int)
        if run is not None:
            self._recorder.interrupt(run, event.checkpoint_id)

    @host_edge
    def on_resume(self, event: Any) -> None:
        """Continue what a graph was interrupted in."""
        run = None if event.run_id is None else self._recorder.get(event.run_id.int)
        if run is not None:
            self._turns.resumed(run, event.checkpoint_id)

    def _start(
        self, kind: RunKind, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
    ) -> Run | None:
        name = event.get("name") or class_name(serialized) or kind.value
        parent_run_id = event.get("parent_run_id")
        # A UUID hashes and compares in Python, its integer in C: a quarter of our time.
        parent_id = None if parent_run_id is None else parent_run_id.int
        # With `root`, only runs of that name and what is inside them count.
        if not (self._root in (None, name) or self._recorder.is_inside(parent_id)):
            return None
        metadata = event.get("metadata")
        run = self._recorder.start(event["run_id"].int, parent_id, kind, name, metadata)
        if run is None:
            return None
        if run.outermost and (tags := event.get("tags")):
            run.interaction.add_tags(users_tags(tags))
        if run.parent is not None:
            note_belonging(run, metadata)
            if kind is RunKind.RETRIEVER or run.interaction.others is None:
                self._instrumentors.note(run, vendor_span)
        return run
