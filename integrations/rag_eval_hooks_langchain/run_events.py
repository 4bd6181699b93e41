"""Passes LangChain's run events on to the recorder."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_langchain import models
from rag_eval_hooks_langchain.choices import (
    Choices,
    class_name,
    users_tags,
)
from rag_eval_hooks_langchain.document_search import snapshot
from rag_eval_hooks_langchain.documents import Documents
from rag_eval_hooks_langchain.graphs import (
    ChainState,
    checkpoint_of,
    is_interrupt,
    is_no_error,
    is_step,
    state_of,
)
from rag_eval_hooks_langchain.question_answer import message_texts, query_text
from rag_eval_hooks_langchain.run_outputs import RunOutputs
from rag_eval_hooks_langchain.surroundings import (
    SWITCH,
    current_handlers,
    current_run_id,
    has_reader_left,
    key_of,
    note_belonging,
)
from rag_eval_hooks_langchain.turns import Turns
from rag_eval_hooks_langchain.vendor_spans import vendor_span

__all__ = ["RunEvents", "run_edge"]

_REFINING = ("RefineDocumentsChain",)
"""Chains whose model calls make one answer, whatever each of them said."""
F = TypeVar("F", bound=Callable[..., None])


def run_edge(method: F) -> F:
    """Wrap an event of a run: what it raises is counted, and its interaction is marked.

    Args:
        method: A method of a handler that takes the `run_id` as a keyword.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **event: Any) -> None:
        try:
            method(self, *args, **event)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"capture {method.__name__}", error)
            run_id, parent_run_id = event.get("run_id"), event.get("parent_run_id")
            self._recorder.lost(key_of(run_id), key_of(parent_run_id))

    return cast("F", guarded)


def end_edge(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap the end of a run: the run ends, whatever reading its output raises.

    Args:
        method: A method that takes the run and what it gave out.
    """

    @run_edge
    @functools.wraps(method)
    def ending(self: Any, output: Any, *, run_id: Any, **extra: Any) -> None:
        run = self._ended(run_id, extra)
        if run is None:
            return
        try:
            method(self, run, output, **extra)
        except Exception:
            self._recorder.lost(run.id)
            raise
        finally:
            self._recorder.end(run)

    return ending


class Readers(NamedTuple):
    """Readers of the inputs and outputs of runs, under the same options."""

    documents: Documents
    turns: Turns
    outputs: RunOutputs
    retrieval_tools: Collection[str] | None


class RunEvents(BaseCallbackHandler):
    """Records what LangChain reports about runs, and what LangGraph reports about interrupts.

    Args:
        evals: Where interactions go.
        options: Of all interactions that have none of their own.
    """

    def __init__(self, evals: RagEval, options: CaptureOptions) -> None:
        self._recorder = evals.recorder
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._options = options
        self._own_readers = self._readers_of(options)

    def _readers_of(self, options: CaptureOptions) -> Readers:
        documents = Documents(options.document_keys, options.as_context)
        choices = Choices(options.question, options.contexts, options.answer)
        parts = self._recorder, documents, choices, self._incidents
        return Readers(documents, Turns(*parts), RunOutputs(*parts), options.retrieval_tools)

    def _readers(self, run: Run) -> Readers:
        """Return the readers for a run: one opened by hand may have options of its own."""
        own = run.interaction.options
        return self._own_readers if own is None else self._readers_of(own.over(self._options))

    @run_edge
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
        run.joins = run.name in _REFINING
        parent = run.parent
        readers = self._readers(run)
        if run.outermost:
            readers.turns.begin(run, inputs)
            return
        begins_step = is_step(event.get("tags"))
        readers.outputs.note_given(run, inputs, is_step=begins_step)
        if parent is not None and begins_step:
            readers.turns.step(run, parent, event.get("metadata"))
        elif parent is not None and parent.checkpoint is not None:
            # A task of an entrypoint is a step of its own.
            checkpoint = checkpoint_of(event.get("metadata"))
            run.checkpoint = None if checkpoint == parent.checkpoint else checkpoint

    @end_edge
    def on_chain_end(self, run: Run, outputs: Any, **extra: Any) -> None:
        """End a chain run; its output may hold documents, a root's holds the answer."""
        state = state_of(run)
        # A stream reports its input only now.
        given = extra.get("inputs", state.given)
        readers = self._readers(run)
        noting = readers.outputs
        if run.outermost:
            readers.turns.ends(run, extra)
            readers.turns.gave(run, outputs)
            noting.note_answer(run, outputs, given)
        if state.is_graph:
            noting.note_final_state(run, outputs)
        elif not state.is_resuming:
            if not (found := noting.note_documents(run, outputs, given)):
                noting.note_joined_text(run, outputs, given)
            if not run.outermost:
                noting.note_passing(run, outputs, given, beside=found)
        noting.note_written(run, outputs, given)
        noting.note_choice(run, outputs)
        run.state = None

    @run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        """End a run that raised, was cancelled or interrupted, or whose stream was closed."""
        run = self._ended(run_id, extra)
        if run is None:
            return
        if run.state is not None:
            run.state.given = None
        self._recorder.stop(run, run.checkpoint)
        if run.outermost:
            self._readers(run).turns.ends(run, extra)
        if is_interrupt(error):
            self._recorder.interrupt(run)
        if is_no_error(error):
            self._recorder.end(run)
        elif isinstance(error, asyncio.CancelledError) and has_reader_left(run.interaction.task):
            self._recorder.fail(run, GeneratorExit)
        else:
            self._recorder.fail(run, error)

    @run_edge
    def on_retriever_start(
        self,
        serialized: dict[str, Any] | None,
        query: Any,
        **event: Any,
    ) -> None:
        """Begin a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._recorder.question(run, query_text(query))
            source = (event.get("metadata") or {}).get("ls_vector_store_provider") or run.name
            run.facts = {semconv.GEN_AI_DATA_SOURCE_ID: str(source)}

    @end_edge
    def on_retriever_end(self, run: Run, documents: Sequence[Document], **_extra: Any) -> None:
        """End a retrieval with its documents, possibly none.

        An iterator belongs to the application: to read it is to take its documents.
        """
        if isinstance(documents, list | tuple):
            self._recorder.documents(run, tuple(map(snapshot, documents)))

    @run_edge
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
            run.earlier = models.earlier_replies(messages)
            self._recorder.for_span(run, roles=models.roles_of(messages))
            run.facts = models.model_facts(event)
            if messages:
                self._readers(run).outputs.note_unseen(run, messages[0])

    @run_edge
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
            self._readers(run).outputs.note_unseen(run, "\n".join(prompts))

    @end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        """End a model call; a streamed reply arrives here put together."""
        generation = models.first_generation(response)
        self._recorder.answer(run, models.reply_text(generation))
        self._recorder.reply(run, *models.reply_details(generation))
        self._recorder.for_span(run, tool_calls=models.tool_calls_of(generation))

    @run_edge
    def on_tool_start(
        self,
        serialized: dict[str, Any] | None,
        input_str: str,
        **event: Any,
    ) -> None:
        """Begin a tool call."""
        run = self._start(RunKind.TOOL, serialized, event)
        if run is not None:
            for outer in run.ancestors():
                if isinstance(outer.state, ChainState):
                    outer.state.holds_tool = True
            run.facts = models.tool_facts(run.name, event)
            if self._recorder.span_content:
                arguments = models.as_json(event["inputs"]) if event.get("inputs") else input_str
                self._recorder.for_span(run, arguments=arguments)
            self._recorder.question(run, input_str if isinstance(input_str, str) else None)

    @end_edge
    def on_tool_end(self, run: Run, output: Any, **_extra: Any) -> None:
        """End a tool call; its output or artifact may hold documents, else its text counts."""
        if call_id := getattr(output, "tool_call_id", None):
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: call_id}
        self._recorder.for_span(run, result=models.result_text(output))
        _, _, noting, tools = self._readers(run)
        noting.note_choice(run, output)
        if not noting.note_documents(run, output) and (tools is None or run.name in tools):
            noting.note_tool(run, output, named=tools is not None)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    @host_edge
    def on_interrupt(self, event: Any) -> None:
        """Note that a graph waits for somebody."""
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            self._recorder.interrupt(run, event.checkpoint_id)

    @host_edge
    def on_resume(self, event: Any) -> None:
        """Continue what a graph was interrupted in."""
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            self._readers(run).turns.resumed(run, event.checkpoint_id)

    def _start(
        self, kind: RunKind, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
    ) -> Run | None:
        name = event.get("name") or class_name(serialized) or kind.value
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        # With `root`, only runs of that name and what is inside them count.
        outer = self._recorder.around(parent_id)
        options = self._options if outer is None else outer.interaction.options
        root = None if options is None else options.root
        if root not in (None, name) and (outer is None or outer.kind is RunKind.MANUAL):
            return None
        if root is None and self._has_lost(parent_id, event.get("tags")):
            self._recorder.lost(run_id, parent_id)
            return None
        metadata = event.get("metadata")
        run = self._recorder.start(run_id, parent_id, kind, name, metadata)
        if run is None:
            return None
        if run.outermost:
            self._note_outermost(run, event)
        if run.parent is None and root is None:
            self._note_parent(run, event.get("parent_run_id"))
        if run.parent is not None:
            note_belonging(run, metadata)
            if kind is RunKind.RETRIEVER or run.interaction.others is None:
                self._instrumentors.note(run, vendor_span)
        return run

    def _note_outermost(self, run: Run, event: Mapping[str, Any]) -> None:
        run.interaction.passed = self is not SWITCH.get()
        run.facts = models.agent_facts(run.name, event.get("metadata") or {})
        if run.parent is None and isinstance(event["run_id"], UUID):
            # LangChain's run manager holds it, and is gone when a batch was cancelled.
            run.interaction.id = weakref.ref(event["run_id"])
        if tags := event.get("tags"):
            run.interaction.add_tags(users_tags(tags))

    def _note_parent(self, root: Run, parent_run_id: Any) -> None:
        """Note a parent that was never seen. A batch gives its steps no context that tells more."""
        if isinstance(parent_run_id, UUID) and current_run_id() != key_of(parent_run_id):
            self._recorder.ended.name_parent(
                root, key_of(parent_run_id), weakref.ref(parent_run_id)
            )

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str] | None) -> bool:
        """Return whether a run that was never seen began while this handler was to be called."""
        if parent_id is not None and not self._recorder.is_unknown(parent_id):
            return False
        if is_step(tags):
            return not is_suppressed()
        if parent_id is None or is_suppressed():
            return False
        handlers = current_handlers() if current_run_id() == parent_id else ()
        ours = (one for one in handlers if isinstance(one, RunEvents))
        return any(one._recorder is self._recorder for one in ours)

    def _ended(self, run_id: Any, event: Mapping[str, Any]) -> Run | None:
        """Return the run that ends, or None; of one that was never seen the beginning was lost."""
        key = key_of(run_id)
        run = self._recorder.get(key)
        parent = self._recorder.get(key_of(event.get("parent_run_id")))
        if run is not None:
            if run.parent is None and parent is not None:
                self._recorder.misplaced(run, parent)
        elif not self._recorder.knows(key):
            if parent is None:
                self._recorder.ended_unseen(key)
            else:
                self._recorder.lost(key, parent.id)
        return run
