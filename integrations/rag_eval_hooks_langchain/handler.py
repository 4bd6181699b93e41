"""Callback handler that users pass to LangChain, or enable for a whole process.

A method copies what its event shows and leaves the copy to be read off the request's thread.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self, TypeVar, Unpack, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Origin, Run, RunKind
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.interaction import enclosing_interactions
from rag_eval_hooks.capture.options import HandlerKeywords
from rag_eval_hooks.evals import checked
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks.suppress import is_suppressed
from rag_eval_hooks_langchain import graphs
from rag_eval_hooks_langchain.graphs import ChainState, state_of
from rag_eval_hooks_langchain.reader import Reader
from rag_eval_hooks_langchain.searches import report_searches
from rag_eval_hooks_langchain.surroundings import (
    SWITCH,
    InlineUnlessWithheld,
    current_handlers,
    current_run_id,
    key_of,
    note_belonging,
    users_tags,
)
from rag_eval_hooks_langchain.vendor_spans import vendor_span
from rag_eval_hooks_langchain.vocabulary import class_name, start_facts

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler", "record_contexts"]

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents that the model is given."""
_FRAMEWORK = "langchain"
_REFINING = ("RefineDocumentsChain",)
"""Chains whose model calls make one answer, whatever each of them said."""
F = TypeVar("F", bound=Callable[..., None])


def _run_edge(method: F) -> F:
    """Wrap an event of a run: an exception is counted, and the run's interaction is marked."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **event: Any) -> None:
        try:
            method(self, *args, **event)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._incidents.report(f"capture {method.__name__}", error)
            run_id, parent_run_id = event.get("run_id"), event.get("parent_run_id")
            self._recorder.lost(key_of(run_id), key_of(parent_run_id))

    return cast("F", guarded)


def _end_edge(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap the end of a run: the run ends even if reading its output raises."""

    @_run_edge
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


class RagEvalCallbackHandler(BaseCallbackHandler):
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

    run_inline: Any = InlineUnlessWithheld()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a handler to which LangGraph also reports interrupts, where it can."""
        kind: Any = cls
        made: Self = super().__new__(graphs.with_graph_events(kind))
        return made

    def __init__(self, evals: RagEval, **options: Unpack[HandlerKeywords]) -> None:
        # A collected evaluator is closed.
        self._evals = checked(evals)
        self._recorder = recorder = evals.recorder
        self._left_out = recorder.left_out
        self._incidents = evals.incidents
        chosen = CaptureOptions(**options)
        self._reader = Reader(recorder, evals.incidents, chosen)
        recorder.locators.add(current_run_id)
        self._restore: Callable[[], None] = lambda: None

    def __copy__(self) -> Self:
        """Return the handler itself: a copied config captures into the same evaluator."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the handler itself."""
        return self

    @classmethod
    def enable(cls, evals: RagEval, **options: Unpack[HandlerKeywords]) -> Self:
        """Give every run of the process a handler, without passing it anywhere.

        Searches that the application makes on a vector store itself are captured as well, which
        no callback reports: until `disable`, the search methods of their classes are replaced.
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
        evals.recorder.by_hand.everywhere.add(_FRAMEWORK)
        SWITCH.set(handler)
        handler._restore = report_searches(handler, evals.recorder)
        return handler

    @staticmethod
    def disable() -> None:
        """Take `enable` back for runs that start later."""
        handler = SWITCH.get()
        if isinstance(handler, RagEvalCallbackHandler):
            handler._recorder.by_hand.everywhere.discard(_FRAMEWORK)
            handler._restore()
        SWITCH.set(None)

    # Runs.

    def _start(
        self, kind: RunKind, serialized: Mapping[str, Any] | None, event: Mapping[str, Any]
    ) -> Run | None:
        """Start a run, unless it is left out, outside of the named root, or its start was lost."""
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        if self._left_out and self._left_out.starts(run_id, parent_id, kind):
            return None
        name = event.get("name") or class_name(serialized) or kind.value
        # With `root`, only runs of that name and the runs inside of them count.
        outer = self._recorder.around(parent_id)
        options = self._reader.options if outer is None else outer.interaction.options
        root = None if options is None else options.root
        if root not in (None, name) and (outer is None or outer.kind is RunKind.MANUAL):
            return None
        tags, metadata = event.get("tags") or (), event.get("metadata")
        if root is None and self._has_lost(parent_id, tags):
            self._recorder.lost(run_id, parent_id)
            return None
        own_tags = users_tags(tags) if outer is None else ()
        run = self._recorder.start(run_id, parent_id, kind, name, metadata, own_tags)
        if run is not None:
            self._describe(run, serialized, event, tags)
        return run

    def _describe(
        self,
        run: Run,
        serialized: Mapping[str, Any] | None,
        event: Mapping[str, Any],
        tags: Sequence[str],
    ) -> None:
        if run.kind is not RunKind.CHAIN or run.outermost:
            run.facts = start_facts(run.kind, run.name, serialized, event)
        if run.outermost:
            self._note_outermost(run, event["run_id"], tags)
        if run.parent is not None:
            note_belonging(run, event.get("metadata"))
            if run.kind is RunKind.RETRIEVER or run.interaction.others is None:
                self._evals.instrumentors.note(run, vendor_span)

    def _note_outermost(self, run: Run, run_id: Any, tags: Sequence[str]) -> None:
        interaction = run.interaction
        interaction.is_joinable = _FRAMEWORK in self._recorder.by_hand.everywhere
        interaction.passed = self is not SWITCH.get()
        if run.parent is None and isinstance(run_id, UUID):
            # LangChain's run manager holds it, and is gone when a batch was cancelled.
            interaction.id = weakref.ref(run_id)
        if tags:
            interaction.add_tags(users_tags(tags))

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str]) -> bool:
        """Return whether a run that was never seen started while this handler was to be called."""
        if not self._recorder.is_unknown(parent_id) or is_suppressed():
            return False
        if graphs.is_step(tags):
            return True
        if parent_id is None or current_run_id() != parent_id:
            return False
        ours = (one for one in current_handlers() if isinstance(one, RagEvalCallbackHandler))
        return any(one._recorder is self._recorder for one in ours)

    def _ended(
        self, run_id: Any, event: Mapping[str, Any], error: BaseException | None = None
    ) -> Run | None:
        """Return the run that ends, or None for a run whose start was lost or is left out."""
        key = key_of(run_id)
        if self._left_out and self._recorder.leave(key, error):
            return None
        run = self._recorder.get(key)
        parent = self._recorder.get(key_of(event.get("parent_run_id")))
        if run is None and parent is not None and not self._recorder.knows(key):
            self._recorder.lost(key, parent.id)
        return run

    # Chains.

    @_run_edge
    def on_chain_start(self, serialized: dict[str, Any] | None, inputs: Any, **event: Any) -> None:
        """Start a chain run; the input of an outermost run holds the question."""
        run = self._start(RunKind.CHAIN, serialized, event)
        if run is None:
            return
        run.state = state = ChainState()
        run.joins = run.name in _REFINING
        parent = run.parent
        if run.outermost or parent is None:
            state.is_resuming = state.is_continuing = graphs.resumes(inputs)
            chosen = None if state.is_resuming else self._asked(run, inputs)
            self._reader.defer(run, "on_chain_start", self._reader.input_of_root, inputs, chosen)
            return
        begins_step, graph = graphs.is_step(event.get("tags")), state_of(parent)
        first = not graph.is_graph
        is_earlier = begins_step and parent.outermost and not graph.is_resuming
        read = functools.partial(self._reader.input_of_chain, earlier=is_earlier if first else None)
        self._reader.defer(run, "on_chain_start", read, inputs)
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
        pulled, resuming = graphs.is_pulled(metadata), state_of(graph).is_resuming
        chosen = self._reader.choose("question", run, inputs) if pulled and first else None
        read = functools.partial(
            self._reader.input_of_step, first=first, pulled=pulled, resuming=resuming
        )
        self._reader.later(run, "on_chain_start", read, graph, chosen)

    def _asked(self, run: Run, inputs: Any) -> Any:
        """Return the result of the application's function for the question in a live input."""
        is_command = type(inputs).__name__ == "Command"
        return self._reader.choose("question", run, inputs.update if is_command else inputs)

    @_end_edge
    def on_chain_end(self, run: Run, outputs: Any, **extra: Any) -> None:
        """End a chain run; its output may hold documents, the output of a root the answer."""
        state, choose = state_of(run), self._reader.choose
        # A stream reports its input only now.
        reports, given = "inputs" in extra, extra.get("inputs")
        chosen = {"question": None, "state": None, "answer": None}
        if run.outermost:
            if reports and not state.is_resuming:
                chosen["question"] = self._asked(run, given)
            chosen["state"] = choose("question", run, outputs) if state.is_graph else None
            chosen["answer"] = choose("answer", run, outputs)
        read = functools.partial(self._reader.output_of_chain, reports_input=reports, chosen=chosen)
        contexts = choose("contexts", run, outputs)
        self._reader.defer(run, "on_chain_end", read, outputs, given, contexts)

    @_run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        """End a run that raised, was cancelled or interrupted, or whose stream was closed."""
        only_steers = graphs.only_steers(error)
        run = self._ended(run_id, extra, None if only_steers else error)
        if run is None:
            return
        self._recorder.stop(run, run.checkpoint)
        if run.outermost and "inputs" in extra and not state_of(run).is_resuming:
            given = extra["inputs"]
            chosen = self._asked(run, given)
            self._reader.defer(run, "on_chain_error", self._reader.whole_input, given, chosen)
        if graphs.is_interrupt(error):
            self._recorder.interrupt(run)
        if only_steers:
            self._recorder.end(run)
        else:
            self._recorder.fail(run, error)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    # Retrievers.

    @_run_edge
    def on_retriever_start(
        self, serialized: dict[str, Any] | None, query: Any, **event: Any
    ) -> None:
        """Start a retrieval."""
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._reader.defer(run, "on_retriever_start", self._reader.query, query)

    @_end_edge
    def on_retriever_end(self, run: Run, documents: Any, **_extra: Any) -> None:
        """End a retrieval with its documents, possibly none.

        An iterator belongs to the application: to read it is to take its documents.
        """
        if isinstance(documents, list | tuple):
            self._reader.defer(run, "on_retriever_end", self._reader.found, documents)

    # Models.

    @_run_edge
    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[list[Any]], **event: Any
    ) -> None:
        """Start a call of a chat model."""
        self._start_model(serialized, messages, event)

    @_run_edge
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
            self._reader.defer(run, "on_llm_start", self._reader.prompt, prompt)

    @_end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        """End a model call; a streamed reply arrives here put together."""
        replies = [one for batch in response.generations for one in batch]
        self._reader.later(run, "on_llm_end", self._reader.reply, replies)

    @host_edge
    def on_llm_new_token(self, *_: Any, run_id: Any, **__: Any) -> None:
        """Note that a model streams; its first token tells."""
        run = self._recorder.get(key_of(run_id))
        if run is not None and semconv.GEN_AI_REQUEST_STREAM not in run.facts:
            run.facts = {**run.facts, semconv.GEN_AI_REQUEST_STREAM: True}

    on_stream_event = on_llm_new_token

    # Tools.

    @_run_edge
    def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: Any, **event: Any
    ) -> None:
        """Start a tool call."""
        run = self._start(RunKind.TOOL, serialized, event)
        if run is None:
            return
        run.description = str((serialized or {}).get("description") or "")
        self._recorder.question(run, input_str if isinstance(input_str, str) else None)
        if self._recorder.span_content:
            given = event.get("inputs")
            self._reader.defer(run, "on_tool_start", self._reader.arguments, given, input_str)

    @_end_edge
    def on_tool_end(self, run: Run, output: Any, **_extra: Any) -> None:
        """End a tool call; its output or artifact may hold documents, or else its text counts."""
        chosen = self._reader.choose("contexts", run, output)
        self._reader.defer(run, "on_tool_end", self._reader.result, output, chosen)

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

    @_run_edge
    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        run = self._recorder.get(key_of(run_id)) if name == CONTEXTS_EVENT else None
        if run is None:
            return
        contexts = contexts_in(self._reader.whole(run, self._reader.copy(run, data)))
        if contexts is None:
            raise TypeError(type(data).__name__)
        self._reader.later(
            run, "on_custom_event", self._recorder.documents, contexts, Origin.STATED
        )


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
