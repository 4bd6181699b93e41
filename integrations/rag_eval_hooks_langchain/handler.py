"""Callback handler that users pass to LangChain, or enable for a whole process.

A method copies what its event shows and leaves the copy to be read off the request's thread.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Self

from langchain_core.outputs import Generation, LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Choice, Origin, Run, RunKind
from rag_eval_hooks.capture.copied import Message, called
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.interaction import enclosing_interactions
from rag_eval_hooks.capture.readings import as_json, question_of
from rag_eval_hooks.capture.snapshots import Opaque
from rag_eval_hooks.evals import checked
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_langchain import graphs, models
from rag_eval_hooks_langchain.graphs import ChainState, state_of
from rag_eval_hooks_langchain.outputs import ChainEnd, Reader
from rag_eval_hooks_langchain.registration import SWITCH, IgnoredClass, InlineUnlessWithheld
from rag_eval_hooks_langchain.runs import FRAMEWORK, RunHandler, end_edge, run_edge
from rag_eval_hooks_langchain.surroundings import (
    current_handlers,
    current_run_id,
    has_reader_left,
    key_of,
)

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler", "record_contexts"]

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents that the model is given."""
_REFINING = ("RefineDocumentsChain",)
"""Chains whose model calls make one answer, whatever each of them said."""


class RagEvalCallbackHandler(RunHandler):
    """Captures RAG interactions of LangChain runs. Pass it in `config={"callbacks": [...]}`.

    One handler serves any number of chains, threads and tasks at once. It does dictionary work
    only, changes nothing of the application's, and raises nothing into it.

    `question`, `contexts` and `answer` replace the automatic choice: the name of a key, or a
    function. A function that fails is counted, and the automatic choice serves.

    Args:
        evals: Where interactions go.
        question: In the outermost run's input.
        contexts: In the output of a step; the last such output counts. The result is the contexts,
            whatever the model saw. A function that fits no output is counted.
        answer: In the outermost run's output.
        root: Name of the run that is an interaction, where it is not the outermost one. All runs
            outside runs of this name are left alone.
        document_keys: Keys of a state under which an empty list, or one of texts or mappings, is
            a retrieval. Lists of documents are found under any key. None for the usual ones,
            under which a step that empties a list before any retrieval resets it.
        retrieval_tools: Names of the tools whose text counts as context where they give no
            documents. None for every tool, where nothing else was found.
        as_context: From an object of the application's own to its text, a `Context`, or None.

    Raises:
        ConfigError: An argument cannot be used.
    """

    ignore_chain = ignore_chat_model = ignore_llm = ignore_retriever = IgnoredClass()

    run_inline: Any = InlineUnlessWithheld()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a handler to which LangGraph also reports interrupts, where it can."""
        kind: Any = cls
        made: Self = super().__new__(graphs.with_graph_events(kind))
        return made

    def __init__(
        self,
        evals: RagEval,
        *,
        question: Choice = None,
        contexts: Choice = None,
        answer: Choice = None,
        root: str | None = None,
        document_keys: Collection[str] | None = None,
        retrieval_tools: Collection[str] | None = None,
        as_context: Callable[[Any], Any] | None = None,
    ) -> None:
        options = CaptureOptions(
            question=question,
            contexts=contexts,
            answer=answer,
            root=root,
            retrieval_tools=retrieval_tools,
            document_keys=document_keys,
            as_context=as_context,
        )
        super().__init__(checked(evals), options)

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
        cls.disable()
        evals.recorder.by_hand.everywhere.add(FRAMEWORK)
        SWITCH.set(handler)
        return handler

    @staticmethod
    def disable() -> None:
        """Take `enable` back for runs that start later."""
        handler = SWITCH.get()
        if isinstance(handler, RagEvalCallbackHandler):
            handler._recorder.by_hand.everywhere.discard(FRAMEWORK)
        SWITCH.set(None)

    # Chains.

    @run_edge
    def on_chain_start(self, serialized: dict[str, Any] | None, inputs: Any, **event: Any) -> None:
        """Start a chain run; the input of an outermost run holds the question."""
        run = self._start(RunKind.CHAIN, serialized, event)
        if run is None:
            return
        run.state = ChainState()
        run.joins = run.name in _REFINING
        parent, reader = run.parent, self._reader_of(run)
        if run.outermost or parent is None:
            run.state.is_resuming = run.state.is_continuing = graphs.resumes(inputs)
            chosen = None if run.state.is_resuming else _asked(reader, inputs)
            self._copies.defer(run, "on_chain_start", self._read_input, inputs, chosen)
            return
        begins_step, graph = graphs.is_step(event.get("tags")), state_of(parent)
        first = not graph.is_graph
        is_earlier = begins_step and parent.outermost and not graph.is_resuming
        earlier = is_earlier if first else None
        self._copies.defer(run, "on_chain_start", self._read_given, inputs, earlier)
        metadata = event.get("metadata")
        if begins_step:
            self._begin_step(run, parent, inputs, metadata, first=first)
        elif parent.checkpoint is not None:
            # A task of an entrypoint is a step of its own.
            checkpoint = graphs.checkpoint_of(metadata)
            run.checkpoint = None if checkpoint == parent.checkpoint else checkpoint

    def _begin_step(
        self, run: Run, graph: Run, inputs: Any, metadata: Mapping[str, Any] | None, *, first: bool
    ) -> None:
        if not graphs.begin_step(self._recorder, run, graph, metadata):
            return
        reader, pulled = self._reader_of(run), graphs.is_pulled(metadata)
        chosen = called(reader.options.question, inputs) if pulled and first else None
        read = functools.partial(
            reader.input_of_step, first=first, pulled=pulled, resuming=state_of(graph).is_resuming
        )
        self._copies.later(run, "on_chain_start", read, graph, chosen)

    def _read_input(self, run: Run, inputs: Any, chosen: Any) -> None:
        state_of(run).given = inputs
        self._reader_of(run).input_of_root(run, inputs, chosen)

    def _read_given(self, run: Run, inputs: Any, earlier: bool | None) -> None:
        state_of(run).given = inputs
        if earlier is not None:
            self._reader_of(run).texts_of_caller(run, inputs, earlier=earlier)

    @end_edge
    def on_chain_end(self, run: Run, outputs: Any, **extra: Any) -> None:
        """End a chain run; its output may hold documents, the output of a root the answer."""
        state, reader = state_of(run), self._reader_of(run)
        options, outermost = reader.options, run.outermost
        # A stream reports its input only now.
        reports = "inputs" in extra
        given = extra["inputs"] if reports else None
        asks = outermost and reports and not state.is_resuming
        gives_state = outermost and state.is_graph
        end = ChainEnd(
            is_graph=state.is_graph,
            is_resuming=state.is_resuming,
            is_step=state_of(run.parent).is_graph,
            attempted=run.interaction.attempted,
            reports_input=reports,
            chosen={
                "question": _asked(reader, given) if asks else None,
                "state": called(options.question, outputs) if gives_state else None,
                "answer": called(options.answer, outputs) if outermost else None,
            },
        )
        read = functools.partial(reader.output_of_chain, end=end)
        contexts = called(options.contexts, outputs)
        self._copies.defer(run, "on_chain_end", read, outputs, given, contexts)

    @run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        """End a run that raised, was cancelled or interrupted, or whose stream was closed."""
        only_steers = graphs.only_steers(error)
        run = self._ended(run_id, extra, None if only_steers else error)
        if run is None:
            return
        self._recorder.stop(run, run.checkpoint)
        if run.outermost and "inputs" in extra and not state_of(run).is_resuming:
            reader, given = self._reader_of(run), extra["inputs"]
            chosen = _asked(reader, given)
            self._copies.defer(run, "on_chain_error", reader.whole_input, given, chosen)
        if graphs.is_interrupt(error):
            self._recorder.interrupt(run)
        if only_steers:
            self._recorder.end(run)
        elif isinstance(error, asyncio.CancelledError) and has_reader_left(run.interaction.task):
            self._recorder.fail(run, GeneratorExit)
        else:
            self._recorder.fail(run, error)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    # Retrievers.

    @run_edge
    def on_retriever_start(
        self, serialized: dict[str, Any] | None, query: Any, **event: Any
    ) -> None:
        """Start a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._copies.defer(run, "on_retriever_start", self._read_query, query)
            source = (event.get("metadata") or {}).get("ls_vector_store_provider") or run.name
            run.facts = {semconv.GEN_AI_DATA_SOURCE_ID: str(source)}

    def _read_query(self, run: Run, query: Any) -> None:
        asked = question_of(query)
        self._recorder.question(run, str(query) if asked is None and query is not None else asked)

    @end_edge
    def on_retriever_end(self, run: Run, documents: Any, **_extra: Any) -> None:
        """End a retrieval with its documents, possibly none.

        An iterator belongs to the application: to read it is to take its documents.
        """
        if isinstance(documents, list | tuple):
            self._copies.defer(run, "on_retriever_end", self._recorder.documents, documents)

    # Models.

    @run_edge
    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[Any]], **event: Any
    ) -> None:
        """Start a call of a chat model."""
        self._start_model(serialized, messages, event)

    @run_edge
    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], **event: Any
    ) -> None:
        """Start a call of a plain model."""
        self._start_model(serialized, prompts, event)

    def _start_model(
        self, serialized: dict[str, Any] | None, prompt: Any, event: Mapping[str, Any]
    ) -> None:
        run = self._start(RunKind.MODEL, serialized, event)
        if run is not None:
            run.facts = models.model_facts(event)
            self._copies.defer(run, "on_llm_start", self._read_prompt, prompt)

    def _read_prompt(self, run: Run, batches: Any) -> None:
        if isinstance(batches, Opaque):
            run.interaction.left_out.add("prompt")
            return
        parts = [one for batch in batches for one in ([batch] if isinstance(batch, str) else batch)]
        messages = [one for one in parts if isinstance(one, Message)]
        texts = [one.shown for one in messages] or parts
        self._recorder.prompt(run, texts, [message.role for message in messages])
        shown = list(batches[0]) if messages else "\n".join(parts)
        keys, longest = self._reader_of(run).keys, self._recorder.longest
        step, lists = graphs.unseen_documents(run, shown, keys, longest)
        for contexts in lists:
            self._recorder.documents(step, contexts)

    @end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        """End a model call; a streamed reply arrives here put together."""
        self._copies.later(run, "on_llm_end", self._read_reply, models.first_generation(response))

    def _read_reply(self, run: Run, reply: Generation | None) -> None:
        calls = models.tool_calls(reply)
        self._recorder.answer(run, models.reply_text(reply))
        self._recorder.reply(run, models.reply_facts(reply), [one.get("args") for one in calls])
        shown = [
            {"id": one.get("id"), "name": one.get("name"), "arguments": one.get("args")}
            for one in calls
        ]
        self._recorder.for_span(run, tool_calls=shown or None)

    # Tools.

    @run_edge
    def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: Any, **event: Any
    ) -> None:
        """Start a tool call."""
        run = self._start(RunKind.TOOL, serialized, event)
        if run is None:
            return
        for outer in run.ancestors():
            if isinstance(outer.state, ChainState):
                outer.state.holds_tool = True
        run.facts = models.tool_facts(run.name, event)
        run.description = str((serialized or {}).get("description") or "")
        self._recorder.question(run, input_str if isinstance(input_str, str) else None)
        if self._recorder.span_content:
            given = event.get("inputs")
            self._copies.defer(run, "on_tool_start", self._read_arguments, given, input_str)

    def _read_arguments(self, run: Run, inputs: Any, written: Any) -> None:
        self._recorder.for_span(run, arguments=as_json(inputs) or written)

    @end_edge
    def on_tool_end(self, run: Run, output: Any, **_extra: Any) -> None:
        """End a tool call; its output or artifact may hold documents, or else its text counts."""
        chosen = called(self._reader_of(run).options.contexts, output)
        self._copies.defer(run, "on_tool_end", self._read_result, output, chosen)

    def _read_result(self, run: Run, output: Any, chosen: Any) -> None:
        is_message = isinstance(output, Message)
        if is_message and output.call_id:
            run.facts = {**run.facts, semconv.GEN_AI_TOOL_CALL_ID: output.call_id}
        text = output.text if is_message else output
        self._recorder.for_span(run, result=text if isinstance(text, str) else None)
        reader = self._reader_of(run)
        reader.contexts_chosen(run, output, chosen)
        reader.output_of_tool(run, output)

    # Graphs, and contexts that the application states.

    @host_edge
    def on_interrupt(self, event: Any) -> None:
        """Note that a graph waits for somebody."""
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            self._recorder.interrupt(run, event.checkpoint_id)

    @host_edge
    def on_resume(self, event: Any) -> None:
        """Continue the interaction in which a graph was interrupted."""
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            graphs.resume_at(self._recorder, run, event.checkpoint_id)

    @run_edge
    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        run = self._recorder.get(key_of(run_id)) if name == CONTEXTS_EVENT else None
        if run is None:
            return
        contexts = contexts_in(self._copies.whole(run, self._copies.copy(run, data)))
        if contexts is None:
            raise TypeError(type(data).__name__)
        self._copies.later(
            run, "on_custom_event", self._recorder.documents, contexts, Origin.STATED
        )


def _asked(reader: Reader, inputs: Any) -> Any:
    """Return the result of the application's function for the question in a live input."""
    is_command = type(inputs).__name__ == "Command"
    return called(reader.options.question, inputs.update if is_command else inputs)


def record_contexts(documents: Any) -> bool:
    """Record documents as what the running step gives to the model.

    For what no event shows: a search in a middleware whose result goes into the system prompt, a
    call of a service, text put together by hand. Call it in a node, tool, middleware or lambda;
    whether the model really saw the documents is still found from its prompt.

    In an `evals.interaction(...)` outside of any run it records what `it.contexts` records.

    Args:
        documents: Texts, documents of LangChain, pairs with a score, mappings, or one of them.

    Returns:
        Whether a handler of ours, or an interaction, received it.
    """
    run_id = current_run_id()
    ours = [h for h in current_handlers() if isinstance(h, RagEvalCallbackHandler)]
    if run_id is not None and ours:
        for handler in ours:
            handler.on_custom_event(CONTEXTS_EVENT, documents, run_id=run_id)
        return True
    scopes = enclosing_interactions()
    for scope in scopes:
        scope.contexts(documents)
    return bool(scopes)
