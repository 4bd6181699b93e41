"""Callback handler that passes LangChain's run events on to the recorder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import Origin, Run, RunKind
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_langchain import models
from rag_eval_hooks_langchain.choices import Choice, Choices
from rag_eval_hooks_langchain.documents import DOCUMENT_KEYS, Documents, snapshot
from rag_eval_hooks_langchain.graphs import (
    ChainState,
    checkpoint_of,
    is_interrupt,
    is_no_error,
    is_step,
    state_of,
    with_graph_events,
)
from rag_eval_hooks_langchain.names import class_name, name_or_none, names, users_tags
from rag_eval_hooks_langchain.question_answer import message_texts
from rag_eval_hooks_langchain.run_outputs import RunOutputs
from rag_eval_hooks_langchain.surroundings import current_run_id, note_belonging
from rag_eval_hooks_langchain.switch import SWITCH
from rag_eval_hooks_langchain.tools import text_of_tool
from rag_eval_hooks_langchain.turns import Turns
from rag_eval_hooks_langchain.vendor_spans import vendor_span

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler"]

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents that the model is given."""


class RagEvalCallbackHandler(BaseCallbackHandler):
    """Captures RAG interactions of LangChain runs. Pass it in `config={"callbacks": [...]}`.

    One handler serves any number of chains, threads and tasks at once. It does dictionary work
    only, changes nothing of the application's, and raises nothing into it.

    `question`, `contexts` and `answer` replace the automatic choice: the name of a key, or a
    function. A function that raises is counted, and the automatic choice serves.

    Args:
        evals: Where interactions go.
        run_inline: Whether events are handled in the event loop. Off, LangChain hands each
            event of an async run to a worker thread, some milliseconds a request. On, handlers
            of other vendors that are not inline miss `on_llm_start` in async runs of plain
            (non-chat) models, by a defect of langchain-core up to 1.7.
        question: In the outermost run's input.
        contexts: As a key, in any step's output, of which the last counts; as a function, in the
            outermost run's output. What it gives are the contexts, whatever the model saw.
        answer: In the outermost run's output.
        root: Name of the run that is an interaction, where it is not the outermost one. All runs
            outside runs of this name are left alone.
        document_keys: Keys of a state under which an empty list, or one of texts or mappings, is
            a retrieval. Lists of documents are found under any key.
        retrieval_tools: Names of the tools whose text counts as context where they give no
            documents, or None for every tool.

    Raises:
        ConfigError: An argument cannot be used.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a handler to which LangGraph also reports interrupts, where it can."""
        kind: Any = cls
        made: Self = super().__new__(with_graph_events(kind))
        return made

    def __init__(
        self,
        evals: RagEval,
        *,
        run_inline: bool = True,
        question: Choice = None,
        contexts: Choice = None,
        answer: Choice = None,
        root: str | None = None,
        document_keys: Collection[str] = DOCUMENT_KEYS,
        retrieval_tools: Collection[str] | None = None,
    ) -> None:
        if not isinstance(evals, RagEval):
            raise ConfigError("evals", evals, "a RagEval")
        if not isinstance(run_inline, bool):
            raise ConfigError("run_inline", run_inline, "True or False")
        self.run_inline = run_inline
        self._evals = evals
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._choices = Choices(question, contexts, answer)
        self._root = name_or_none("root", root)
        self._documents = Documents(names("document_keys", document_keys))
        parts = self._recorder, self._documents, self._choices, self._incidents
        self._turns = Turns(*parts)
        self._outputs = RunOutputs(*parts)
        self._retrieval_tools = (
            None if retrieval_tools is None else names("retrieval_tools", retrieval_tools)
        )
        self._recorder.locators.add(current_run_id)

    @classmethod
    def enable(cls, evals: RagEval, **options: Any) -> Self:
        """Give every run of the process a handler, without passing it anywhere.

        A run that is passed a handler of the same `evals` as well is still captured once.
        Enabling again replaces the handler of before.

        Args:
            evals: Where interactions go.
            **options: As for the handler.

        Returns:
            The handler.
        """
        handler = cls(evals, **options)
        SWITCH.set(handler)
        return handler

    @staticmethod
    def disable() -> None:
        """Take `enable` back for runs that begin later."""
        SWITCH.set(None)

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
        """Begin a chain run; a root's input holds the question."""
        run = self._start(RunKind.CHAIN, serialized, run_id, parent_run_id, extra)
        if run is None:
            return
        run.state = ChainState(inputs)
        parent = run.parent
        if run.outermost:
            self._turns.begin(run, inputs)
        elif parent is not None and is_step(extra.get("tags")):
            self._turns.step(run, parent, extra.get("metadata"))
        elif parent is not None and parent.checkpoint is not None:
            # A task of an entrypoint is a step of its own.
            checkpoint = checkpoint_of(extra.get("metadata"))
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
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begin a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, run_id, parent_run_id, extra)
        if run is not None:
            self._recorder.question(run, query)
            source = (extra.get("metadata") or {}).get("ls_vector_store_provider") or run.name
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
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begin a call of a chat model."""
        run = self._start(RunKind.MODEL, serialized, run_id, parent_run_id, extra)
        if run is not None:
            self._recorder.prompt(run, message_texts(messages))
            run.facts = models.model_facts(extra)
            if messages:
                self._outputs.note_unseen(run, messages[0])

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
        """Begin a call of a plain model."""
        run = self._start(RunKind.MODEL, serialized, run_id, parent_run_id, extra)
        if run is not None:
            self._recorder.prompt(run, prompts)
            run.facts = models.model_facts(extra)
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
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        **extra: Any,
    ) -> None:
        """Begin a tool call."""
        run = self._start(RunKind.TOOL, serialized, run_id, parent_run_id, extra)
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
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        if name == CONTEXTS_EVENT:
            self._record(data, run_id.int)

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

    @host_edge
    def record(self, documents: Any, run_id: int) -> None:
        """Record documents that the application states; see `record_contexts`."""
        self._record(documents, run_id)

    def _record(self, documents: Any, run_id: int) -> None:
        run = self._recorder.get(run_id)
        if run is None:
            return
        contexts = self._documents.typed(documents)
        if contexts is None:
            raise TypeError(type(documents).__name__)
        self._recorder.documents(run, contexts, Origin.STATED)

    def _start(
        self,
        kind: RunKind,
        serialized: Mapping[str, Any] | None,
        run_id: UUID,
        parent_run_id: UUID | None,
        extra: Mapping[str, Any],
    ) -> Run | None:
        name = extra.get("name") or class_name(serialized) or kind.value
        # A UUID hashes and compares in Python, its integer in C: a quarter of our time.
        parent_id = None if parent_run_id is None else parent_run_id.int
        # With `root`, only runs of that name and what is inside them count.
        if not (self._root in (None, name) or self._recorder.is_inside(parent_id)):
            return None
        metadata = extra.get("metadata")
        run = self._recorder.start(run_id.int, parent_id, kind, name, metadata)
        if run is None:
            return None
        if run.outermost and (tags := extra.get("tags")):
            run.interaction.add_tags(users_tags(tags))
        if run.parent is not None:
            note_belonging(run, metadata)
            if kind is RunKind.RETRIEVER or run.interaction.others is None:
                self._instrumentors.note(run, vendor_span)
        return run
