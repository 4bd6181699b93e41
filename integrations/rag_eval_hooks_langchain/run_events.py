"""Passes LangChain's run events on to the recorder."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Run, RunKind
from rag_eval_hooks.capture.snapshots import LATE_LEVELS, LATE_NODES, Copier, Cut, Form, Opaque
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
    is_pulled,
    is_step,
    resumes,
    state_of,
    update_in,
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
from rag_eval_hooks_langchain.vocabulary import form_of

__all__ = ["FRAMEWORK", "RunEvents", "run_edge"]

FRAMEWORK = "langchain"
_FORMS: dict[type, Form] = {}
"""How objects are copied, by their class."""
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

    choices: Choices
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
        # A collected evaluator is closed.
        self._evals = evals
        self._recorder = evals.recorder
        self._left_out = evals.recorder.left_out
        self._incidents = evals.incidents
        self._instrumentors = evals.instrumentors
        self._options = options
        self._own_readers = self._readers_of(options)

    def __copy__(self) -> Self:
        """Return the handler itself: a copied config captures into the same evaluator."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the handler itself."""
        return self

    def _readers_of(self, options: CaptureOptions) -> Readers:
        documents = Documents(options.document_keys)
        choices = Choices(options.question, options.contexts, options.answer)
        parts = self._recorder, documents, choices, self._incidents
        return Readers(
            choices, documents, Turns(*parts), RunOutputs(*parts), options.retrieval_tools
        )

    def _readers(self, run: Run) -> Readers:
        """Return the readers for a run: one opened by hand may have options of its own."""
        own = run.interaction.options
        return self._own_readers if own is None else self._readers_of(own.over(self._options))

    def _copy(self, run: Run, value: Any) -> Any:
        """Return a copy of a value that may change before it is read."""
        copier = self._copier(run)
        copy = copier.of(value)
        return Cut(value) if copier.is_cut or copier.is_shallow else copy

    def _copier(self, run: Run, **limits: int) -> Copier:
        interaction = run.interaction
        own = interaction.options
        read = None if own is None else own.as_context
        return Copier(
            interaction.snapshots,
            form_of,
            _FORMS,
            read or self._options.as_context,
            self._recorder.most_waiting,
            **limits,
        )

    def _later(self, event: str, read: Callable[..., None], run: Run, *values: Any) -> None:
        """Leave an event to be read off the request's thread.

        Args:
            event: Name of the method that got it.
            read: Reads it.
            run: The run.
            values: Copies, and arguments that nobody changes.
        """
        self._recorder.defer(run, event, self._read, read, run, values)

    def _read(self, read: Callable[..., None], run: Run, values: Sequence[Any]) -> None:
        read(run, *[self._whole(run, value) for value in values])

    def _whole(self, run: Run, value: Any) -> Any:
        """Return a copy of a value that was too large for the request's thread."""
        if not isinstance(value, Cut):
            return value
        copier = self._copier(run, nodes=LATE_NODES)
        copy = copier.of(value.value, LATE_LEVELS)
        if copier.is_cut:
            run.interaction.left_out.add("contexts")
        return copy

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
        run.state = ChainState()
        run.joins = run.name in _REFINING
        parent = run.parent
        readers = self._readers(run)
        given = self._copy(run, inputs)
        if run.outermost or parent is None:
            called = None
            if resumes(inputs):
                run.state.is_resuming = run.state.is_continuing = True
            elif readers.choices.question is not None:
                called = readers.choices.call("question", update_in(inputs))
            self._later("on_chain_start", self._read_input, run, given, called)
            return
        begins_step, graph = is_step(event.get("tags")), state_of(parent)
        if not graph.is_graph:
            earlier = begins_step and parent.outermost and not graph.is_resuming
            self._later("on_chain_start", self._read_given, run, given, earlier)
        else:
            self._later("on_chain_start", self._read_given, run, given, None)
        if begins_step:
            self._begin_step(run, parent, inputs, event.get("metadata"), first=not graph.is_graph)
        elif parent.checkpoint is not None:
            # A task of an entrypoint is a step of its own.
            checkpoint = checkpoint_of(event.get("metadata"))
            run.checkpoint = None if checkpoint == parent.checkpoint else checkpoint

    def _begin_step(
        self,
        run: Run,
        graph: Run,
        inputs: Any,
        metadata: Mapping[str, Any] | None,
        *,
        first: bool,
    ) -> None:
        readers = self._readers(run)
        if not readers.turns.step(run, graph, metadata):
            return
        pulled, called = is_pulled(metadata), None
        if pulled and first:
            called = readers.choices.call("question", inputs)
        read = functools.partial(
            readers.turns.asks, first=first, pulled=pulled, resuming=state_of(graph).is_resuming
        )
        self._later("on_chain_start", read, run, graph, called)

    def _read_input(self, run: Run, inputs: Any, called: Any) -> None:
        run.state.given = inputs
        self._readers(run).turns.begin(run, inputs, called)

    def _read_given(self, run: Run, inputs: Any, earlier: bool | None) -> None:
        run.state.given = inputs
        if earlier is not None:
            self._readers(run).outputs.note_given(run, inputs, earlier=earlier)

    @end_edge
    def on_chain_end(self, run: Run, outputs: Any, **extra: Any) -> None:
        """End a chain run; its output may hold documents, a root's holds the answer."""
        state, choices = state_of(run), self._readers(run).choices
        # A stream reports its input only now.
        given = (self._copy(run, extra["inputs"]),) if "inputs" in extra else ()
        outermost = run.outermost
        called = {
            "contexts": self._copy(run, choices.call("contexts", outputs)),
            "question": choices.call("question", update_in(extra.get("inputs")))
            if outermost and given and not state.is_resuming
            else None,
            "state": choices.call("question", outputs) if outermost and state.is_graph else None,
            "answer": choices.call("answer", outputs) if outermost else None,
        }
        read = functools.partial(
            self._read_outputs,
            given=given,
            called=called,
            is_graph=state.is_graph,
            is_resuming=state.is_resuming,
            is_step=state_of(run.parent).is_graph,
            asked=run.interaction.attempted,
        )
        self._later("on_chain_end", read, run, self._copy(run, outputs))

    def _read_outputs(
        self,
        run: Run,
        outputs: Any,
        *,
        given: Sequence[Any],
        called: Mapping[str, Any],
        is_graph: bool,
        is_resuming: bool,
        is_step: bool,
        asked: bool,
    ) -> None:
        readers = self._readers(run)
        noting = readers.outputs
        before = self._whole(run, given[0]) if given else state_of(run).given
        if run.outermost:
            if given and not is_resuming:
                readers.turns.ends(run, before, called["question"])
            if is_graph:
                readers.turns.gave(run, outputs, called["state"])
            noting.note_answer(run, outputs, before, called["answer"])
        if is_graph:
            noting.note_final_state(run, outputs)
        elif not is_resuming:
            found = noting.note_documents(run, outputs, before, is_step=is_step, asked=asked)
            if not found:
                noting.note_joined_text(run, outputs, before)
            if not run.outermost:
                noting.note_passing(run, outputs, before, beside=found)
        noting.note_written(run, outputs, before)
        noting.note_choice(run, outputs, self._whole(run, called["contexts"]))
        run.state = None

    @run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        """End a run that raised, was cancelled or interrupted, or whose stream was closed."""
        run = self._ended(run_id, extra, None if is_no_error(error) else error)
        if run is None:
            return
        self._recorder.stop(run, run.checkpoint)
        if run.outermost and "inputs" in extra and not state_of(run).is_resuming:
            turns, given = self._readers(run).turns, extra["inputs"]
            called = self._readers(run).choices.call("question", update_in(given))
            self._later("on_chain_error", turns.ends, run, self._copy(run, given), called)
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
            asked = self._copy(run, query)
            self._later("on_retriever_start", self._read_query, run, asked)
            source = (event.get("metadata") or {}).get("ls_vector_store_provider") or run.name
            run.facts = {semconv.GEN_AI_DATA_SOURCE_ID: str(source)}

    def _read_query(self, run: Run, query: Any) -> None:
        self._recorder.question(run, query_text(query))

    @end_edge
    def on_retriever_end(self, run: Run, documents: Sequence[Document], **_extra: Any) -> None:
        """End a retrieval with its documents, possibly none.

        An iterator belongs to the application: to read it is to take its documents.
        """
        if isinstance(documents, list | tuple):
            found = self._copy(run, documents)
            self._later("on_retriever_end", self._read_documents, run, found)

    def _read_documents(self, run: Run, documents: Sequence[Document]) -> None:
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
            run.facts = models.model_facts(event)
            self._later("on_chat_model_start", self._read_messages, run, self._copy(run, messages))

    def _read_messages(self, run: Run, messages: list[list[BaseMessage]]) -> None:
        if isinstance(messages, Opaque):
            run.interaction.left_out.add("prompt")
            return
        self._recorder.prompt(run, message_texts(messages))
        run.earlier = models.earlier_replies(messages)
        self._recorder.for_span(run, roles=models.roles_of(messages))
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
            run.facts = models.model_facts(event)
            self._later("on_llm_start", self._read_prompts, run, self._copy(run, prompts))

    def _read_prompts(self, run: Run, prompts: list[str]) -> None:
        if isinstance(prompts, Opaque):
            run.interaction.left_out.add("prompt")
            return
        self._recorder.prompt(run, prompts)
        self._readers(run).outputs.note_unseen(run, "\n".join(prompts))

    @end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        """End a model call; a streamed reply arrives here put together."""
        self._later("on_llm_end", self._read_reply, run, models.first_generation(response))

    def _read_reply(self, run: Run, generation: Any) -> None:
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
            run.description = str((serialized or {}).get("description") or "")
            if self._recorder.span_content:
                given = self._copy(run, event.get("inputs"))
                self._later("on_tool_start", self._read_arguments, run, given, input_str)
            self._recorder.question(run, input_str if isinstance(input_str, str) else None)

    def _read_arguments(self, run: Run, inputs: Any, written: str) -> None:
        arguments = models.as_json(inputs) if inputs else written
        self._recorder.for_span(run, arguments=arguments)

    @end_edge
    def on_tool_end(self, run: Run, output: Any, **_extra: Any) -> None:
        """End a tool call; its output or artifact may hold documents, else its text counts."""
        called = self._copy(run, self._readers(run).choices.call("contexts", output))
        self._later("on_tool_end", self._read_result, run, self._copy(run, output), called)

    def _read_result(self, run: Run, output: Any, called: Any) -> None:
        if call_id := getattr(output, "tool_call_id", None):
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: call_id}
        self._recorder.for_span(run, result=models.result_text(output))
        readers = self._readers(run)
        noting, tools = readers.outputs, readers.retrieval_tools
        noting.note_choice(run, output, called)
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
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        if self._left_out and self._left_out.starts(run_id, parent_id, kind):
            return None
        name = event.get("name") or class_name(serialized) or kind.value
        # With `root`, only runs of that name and what is inside them count.
        outer = self._recorder.around(parent_id)
        options = self._options if outer is None else outer.interaction.options
        root = None if options is None else options.root
        if root not in (None, name) and (outer is None or outer.kind is RunKind.MANUAL):
            return None
        if root is None and self._has_lost(parent_id, event.get("tags")):
            self._recorder.lost(run_id, parent_id)
            return None
        tags = users_tags(event["tags"]) if outer is None and event.get("tags") else ()
        run = self._recorder.start(run_id, parent_id, kind, name, event.get("metadata"), tags)
        if run is not None:
            self._describe(run, event, is_whole=root is None)
        return run

    def _describe(self, run: Run, event: Mapping[str, Any], *, is_whole: bool) -> None:
        """Note what a run that starts shows of its request."""
        if run.outermost:
            self._note_outermost(run, event)
        if run.parent is None:
            if is_whole:
                self._note_parent(run, event.get("parent_run_id"))
            return
        note_belonging(run, event.get("metadata"))
        if run.kind is RunKind.RETRIEVER or run.interaction.others is None:
            self._instrumentors.note(run, vendor_span)

    def _note_outermost(self, run: Run, event: Mapping[str, Any]) -> None:
        run.interaction.framework = run.interaction.framework or FRAMEWORK
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

    def _ended(
        self, run_id: Any, event: Mapping[str, Any], error: BaseException | None = None
    ) -> Run | None:
        """Return the run that ends, or None; of one that was never seen the beginning was lost."""
        key = key_of(run_id)
        if self._left_out and self._recorder.leave(key, error):
            return None
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
