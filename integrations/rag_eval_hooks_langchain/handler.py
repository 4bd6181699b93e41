"""`RagEvalCallbackHandler`, the callback handler for LangChain."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Mapping, Sequence
from inspect import getattr_static
from typing import Any, Self, TypeAlias, Unpack
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Origin, Run, RunKind
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.options import CaptureKeywords
from rag_eval_hooks.capture.records import whole
from rag_eval_hooks.context import refusal
from rag_eval_hooks.errors import OnePerProcess
from rag_eval_hooks.evals import checked
from rag_eval_hooks.incidents import host_edge, place_of_caller
from rag_eval_hooks.own_requests import is_suppressed
from rag_eval_hooks_langchain import graphs
from rag_eval_hooks_langchain.graphs import ChainState, is_step, state_of
from rag_eval_hooks_langchain.reader import Reader
from rag_eval_hooks_langchain.surroundings import (
    AMBIENT,
    InlineUnlessWithheld,
    NotIgnored,
    current_handlers,
    current_run_id,
    end_edge,
    key_of,
    note_belonging,
    start_edge,
    vendor_span,
)
from rag_eval_hooks_langchain.vocabulary import TOLD, class_name, users_tags

FRAMEWORK = "langchain"
_IGNORES = ("ignore_chain", "ignore_llm", "ignore_chat_model", "ignore_retriever")
_HOLDERS = ("invoke", "retrieve", "source_nodes")
_NOTHING: Mapping[str, Any] = {}
_Values: TypeAlias = Mapping[str, Any]


class RagEvalCallbackHandler(OnePerProcess, BaseCallbackHandler):
    """Captures RAG requests of LangChain. Pass the handler in `config={"callbacks": [handler]}`.

    One handler serves any number of chains, threads and tasks concurrently. The handler never
    raises an exception and never changes an object of the application.

    Args:
        evals: The evaluator that receives the requests.
        **options: The fields of `CaptureOptions`, such as `contexts` and `retrieval_tools`. With
            `root="answer"`, each run with the name `answer` is a request. Without `root`, each
            outermost run is a request.

    Raises:
        ConfigError: An argument is invalid.
    """

    ignore_chain = ignore_llm = ignore_chat_model = ignore_retriever = NotIgnored()
    # key of the model run whose token arrived last
    _streaming: Hashable = None
    run_inline: Any = InlineUnlessWithheld()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # If LangGraph is installed, the handler also receives interrupts.
        kind: Any = cls
        made: Self = super().__new__(graphs.with_graph_events(kind))
        return made

    def __init__(self, evals: RagEval, **options: Unpack[CaptureKeywords]) -> None:
        # Keep a reference, because a garbage-collected evaluator is closed.
        self.evals = checked(evals)
        self._recorder = recorder = evals.recorder
        self._incidents = evals.incidents
        chosen = CaptureOptions.of(type(self).__name__, options)
        self._reader = Reader(recorder, evals.incidents, chosen)
        # LangChain reads these attributes for each event, and the object's own are the fastest.
        vars(self).update(dict.fromkeys(_IGNORES, False))
        recorder.locators.add(current_run_id)
        self.place = place_of_caller()
        recorder.unmatched.handlers.setdefault(self.place, False)

    def _lose(self, name: str, error: Exception, event: _Values) -> None:
        self._incidents.report(f"capture {name}", error)
        ids = event.get("run_id"), event.get("parent_run_id")
        self._recorder.lost(*map(key_of, ids))

    def _start(
        self, kind: RunKind, run_id: Any, parent_id: Any, serialized: _Values | None, event: _Values
    ) -> Run | None:
        recorder = self._recorder
        name = event.get("name") or class_name(serialized) or kind.value
        if (parent := recorder.get(parent_id)) is not None:
            run = recorder.start_child(run_id, kind, name, parent)
        else:
            run = self._start_outer(run_id, parent_id, kind, name, event)
        if run is None:
            return None
        if run.outermost:
            self._describe_outermost(run, event)
        if run.parent is not None:
            if (metadata := event.get("metadata")) or not run.interaction.configured:
                note_belonging(run, metadata or _NOTHING)
            if kind is RunKind.RETRIEVER or run.interaction.others is None:
                self.evals.instrumentors.note(run, vendor_span)
        if run.outermost or kind is not RunKind.CHAIN:
            told = {key: event.get(key) for key in TOLD}
            self._recorder.defer(run, "start", self._reader.started, run, serialized, told)
        return run

    def _start_outer(
        self, run_id: Hashable, parent_id: Hashable, kind: RunKind, name: str, event: _Values
    ) -> Run | None:
        recorder, tags = self._recorder, event.get("tags") or ()
        outer = recorder.around(None)
        # If `root` is set, ignore runs outside a run with this name.
        root = self._reader.options.root if outer is None else None
        if root is not None:
            if not self._reader.is_root(root, name):
                return None
        elif self._has_lost(parent_id, tags):
            recorder.lost(run_id, parent_id)
            return None
        own_tags = users_tags(tags) if outer is None else ()
        return recorder.start(run_id, parent_id, kind, name, event.get("metadata"), own_tags)

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str]) -> bool:
        if not is_step(tags):
            if parent_id is None or current_run_id() != parent_id:
                return False
            ours = (one for one in current_handlers() if isinstance(one, RagEvalCallbackHandler))
            if not any(one._recorder is self._recorder for one in ours):
                return False
        return self._recorder.is_unknown(parent_id) and not is_suppressed()

    def _describe_outermost(self, run: Run, event: _Values) -> None:
        interaction = run.interaction
        interaction.passed = self is not AMBIENT.everywhere
        if run.parent is not None:
            tags = (*interaction.tags, *users_tags(event.get("tags") or ()))
            interaction.tags = tuple(dict.fromkeys(tags))
        elif isinstance(event["run_id"], UUID):
            # Only LangChain's run manager holds the id. A cancelled batch drops the manager.
            interaction.id = weakref.ref(event["run_id"])

    def _ended(self, event: _Values, error: BaseException | None = None) -> Run | None:
        recorder = self._recorder
        key = key_of(event["run_id"])
        if recorder.left_out and recorder.leave(key, error):
            return None
        if (run := recorder.get(key)) is None:
            parent = recorder.get(key_of(event.get("parent_run_id")))
            if parent is not None and not recorder.knows(key):
                recorder.lost(key, parent.id)
        return run

    @start_edge(RunKind.CHAIN)
    def on_chain_start(self, run: Run, _: Any, inputs: Any, event: _Values) -> None:
        run.state = state = ChainState()
        read = self._reader.input_of_step
        if run.outermost:
            read, state.is_resuming = self._reader.input_of_root, graphs.resumes(inputs)
            self._choose_question(run, inputs)
        elif run.parent is not None:
            graphs.begin_step(self._recorder, run, run.parent, event)
            if state.shows_state and state.is_pulled and state.is_earlier is not None:
                self._reader.choose(run.parent, "question", inputs)
        self._reader.defer(run, "on_chain_start", read, inputs)

    def _choose_question(self, run: Run, inputs: Any) -> None:
        if not state_of(run).is_resuming:
            is_command = type(inputs).__name__ == "Command"
            self._reader.choose(run, "question", inputs.update if is_command else inputs)

    @end_edge
    def on_chain_end(self, run: Run, outputs: Any, event: _Values) -> None:
        # A stream reports its input only at its end.
        streamed = [event["inputs"]] if "inputs" in event else []
        if run.outermost:
            for inputs in streamed:
                self._choose_question(run, inputs)
            if state_of(run).is_graph:
                self._reader.choose(run, "question", outputs)
            self._reader.choose(run, "answer", outputs)
        self._reader.choose(run, "contexts", outputs)
        read = self._reader.output_of_chain
        self._reader.defer(run, "on_chain_end", read, outputs, *streamed)

    def on_chain_error(self, error: BaseException, **event: Any) -> None:
        try:
            # A `GraphBubbleUp` is an interrupt, or a command to the parent graph.
            only_steers = graphs.is_raised_as(error, "GraphBubbleUp")
            if (run := self._ended(event, None if only_steers else error)) is None:
                return
            self._recorder.stop(run, run.checkpoint)
            if run.outermost and "inputs" in event and not state_of(run).is_resuming:
                self._choose_question(run, event["inputs"])
                self._reader.defer(run, "on_chain_error", self._reader.whole_input, event["inputs"])
            if graphs.is_raised_as(error, "GraphInterrupt"):
                self._recorder.interrupt(run)
            if only_steers:
                self._recorder.end(run)
            else:
                self._recorder.fail(run, error)
        except Exception as failure:  # noqa: BLE001 - the host's edge
            self._lose("on_chain_error", failure, event)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    @start_edge(RunKind.RETRIEVER)
    def on_retriever_start(self, run: Run, _: Any, query: Any, __: _Values) -> None:
        self._reader.defer(run, "on_retriever_start", self._reader.query, query)

    @end_edge
    def on_retriever_end(self, run: Run, documents: Any, _: _Values) -> None:
        # Reading an iterator would consume the application's documents.
        if isinstance(documents, list | tuple):
            self._reader.defer(run, "on_retriever_end", self._reader.found, documents)

    @start_edge(RunKind.MODEL)
    def on_chat_model_start(self, run: Run, _: Any, messages: list[Any], __: _Values) -> None:
        self._reader.defer(run, "on_llm_start", self._reader.prompt, messages)

    on_llm_start: Any = on_chat_model_start

    @end_edge
    def on_llm_end(self, run: Run, response: LLMResult, _: _Values) -> None:
        replies = [one for batch in response.generations for one in batch]
        self._recorder.defer(run, "on_llm_end", self._reader.reply, run, replies)

    def on_llm_new_token(self, *_: Any, run_id: Any, **__: Any) -> None:
        if (key := key_of(run_id)) != self._streaming:
            self._note_stream(key)

    on_stream_event = on_llm_new_token

    @host_edge
    def _note_stream(self, key: Hashable) -> None:
        # Later tokens of the same stream then cost one comparison.
        self._streaming = key
        if (run := self._recorder.get(key)) is not None:
            run.facts = {**run.facts, semconv.GEN_AI_REQUEST_STREAM: True}

    @start_edge(RunKind.TOOL)
    def on_tool_start(self, run: Run, serialized: Any, input_str: Any, event: _Values) -> None:
        run.description = str((serialized or {}).get("description") or "")
        self._recorder.question(run, input_str if isinstance(input_str, str) else None)
        if self._recorder.span_content:
            given = event.get("inputs")
            self._reader.defer(run, "on_tool_start", self._reader.arguments, given, input_str)

    @end_edge
    def on_tool_end(self, run: Run, output: Any, _: _Values) -> None:
        self._reader.choose(run, "contexts", output)
        self._reader.defer(run, "on_tool_end", self._reader.result, output)

    @host_edge
    def on_interrupt(self, event: Any) -> None:
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            self._recorder.interrupt(run, event.checkpoint_id)

    @host_edge
    def on_resume(self, event: Any) -> None:
        run = self._recorder.get(key_of(event.run_id))
        if run is not None:
            graphs.resume_at(self._recorder, run, event.checkpoint_id)

    def record(self, documents: Any, *, run_id: Any) -> None:
        try:
            if (run := self._recorder.get(run_id)) is not None:
                self._record(run, documents)
        except Exception as error:  # noqa: BLE001 - the host's edge
            self._lose("record", error, {"run_id": run_id})

    def _record(self, run: Run, documents: Any) -> None:
        contexts = contexts_in(whole(self._reader.copy(run, documents)))
        # A retriever or a response also contains other texts.
        is_holder = any(getattr_static(documents, one, None) is not None for one in _HOLDERS)
        if contexts is None or is_holder:
            several = isinstance(documents, list | tuple) and documents
            raise refusal(documents[0] if several else documents)
        self._recorder.defer(run, "record", self._recorder.documents, run, contexts, Origin.STATED)
