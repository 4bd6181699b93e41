"""`RagEvalCallbackHandler`, the callback handler for LangChain.

Each method copies the event's values. A background thread reads the copies.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Self, TypeAlias, TypeVar, Unpack, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.outputs import LLMResult

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture import CaptureOptions, Origin, Run, RunKind
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.options import CaptureKeywords
from rag_eval_hooks.capture.records import whole
from rag_eval_hooks.context import refusal, way_to_documents
from rag_eval_hooks.errors import Misplaced, OnePerProcess, usage
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
    key_of,
    note_belonging,
    vendor_span,
)
from rag_eval_hooks_langchain.vocabulary import class_name, start_facts, users_tags

FRAMEWORK = "langchain"
F = TypeVar("F", bound=Callable[..., None])
_Values: TypeAlias = Mapping[str, Any]


def _run_edge(method: F) -> F:
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
    @_run_edge
    @functools.wraps(method)
    def ending(self: Any, output: Any, *, run_id: Any, **event: Any) -> None:
        if (run := self._ended(run_id, event)) is not None:
            try:
                method(self, run, output, **event)
            except Exception:
                self._recorder.lost(run.id)
                raise
            finally:
                self._recorder.end(run)

    return ending


class RagEvalCallbackHandler(OnePerProcess, BaseCallbackHandler):
    """Captures RAG requests of LangChain. Pass the handler in `config={"callbacks": [handler]}`.

    One handler serves any number of chains, threads and tasks concurrently. The handler never
    raises an exception and never changes an object of the application.

    Args:
        evals: The evaluator that receives the requests.
        **options: The fields of `CaptureOptions`, such as `contexts` and `retrieval_tools`.
            If `root` names a run, each run of that name is a request. Otherwise, each outermost run
            is a request.

    Raises:
        ConfigError: An argument is invalid.
    """

    start_trace = event_starts_to_ignore = Misplaced(
        "is for LangChain. For LlamaIndex, write: rag_eval_hooks_llama_index.enable(evals)"
    )
    copy = Misplaced('is not a list. Write: config={"callbacks": [handler]}')
    ignore_chain = ignore_llm = ignore_chat_model = ignore_retriever = NotIgnored()
    run_inline: Any = InlineUnlessWithheld()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # If LangGraph is installed, the handler also receives interrupts.
        kind: Any = cls
        made: Self = super().__new__(graphs.with_graph_events(kind))
        return made

    @usage("RagEvalCallbackHandler(evals), with metrics, judge and sinks in RagEval(...)")
    def __init__(self, evals: RagEval, **options: Unpack[CaptureKeywords]) -> None:
        # Keep a reference, because a garbage-collected evaluator is closed.
        self.evals = checked(evals)
        self._recorder = recorder = evals.recorder
        self._incidents = evals.incidents
        chosen = CaptureOptions.of(type(self).__name__, options)
        self._reader = Reader(recorder, evals.incidents, chosen)
        recorder.locators.add(current_run_id)
        self.place = place_of_caller()
        recorder.unmatched.handlers.setdefault(self.place, False)

    def _start(self, kind: RunKind, serialized: _Values | None, event: _Values) -> Run | None:
        recorder = self._recorder
        recorder.unmatched.handlers[self.place] = True
        run_id, parent_id = key_of(event["run_id"]), key_of(event.get("parent_run_id"))
        if recorder.left_out and recorder.skips(run_id, parent_id, kind):
            return None
        name = event.get("name") or class_name(serialized) or kind.value
        outer, tags = recorder.around(parent_id), event.get("tags") or ()
        # If `root` is set, ignore runs outside a run with this name.
        root = self._reader.options.root if outer is None else None
        if root is not None:
            if not self._reader.is_root(root, name):
                return None
        elif self._has_lost(parent_id, tags):
            recorder.lost(run_id, parent_id)
            return None
        own_tags = users_tags(tags) if outer is None else ()
        run = recorder.start(run_id, parent_id, kind, name, event.get("metadata"), own_tags)
        if run is not None:
            self._describe(run, serialized, event)
        return run

    def _has_lost(self, parent_id: Hashable | None, tags: Sequence[str]) -> bool:
        if not self._recorder.is_unknown(parent_id) or is_suppressed():
            return False
        if is_step(tags):
            return True
        if parent_id is None or current_run_id() != parent_id:
            return False
        ours = (one for one in current_handlers() if isinstance(one, RagEvalCallbackHandler))
        return any(one._recorder is self._recorder for one in ours)

    def _describe(self, run: Run, serialized: _Values | None, event: _Values) -> None:
        interaction = run.interaction
        if run.kind is not RunKind.CHAIN or run.outermost:
            run.facts = start_facts(run.kind, run.name, serialized, event)
        if run.outermost:
            interaction.passed = self is not AMBIENT.everywhere
            interaction.add_tags(users_tags(event.get("tags") or ()))
            if run.parent is None and isinstance(event["run_id"], UUID):
                # Only LangChain's run manager holds the id. A cancelled batch drops the manager.
                interaction.id = weakref.ref(event["run_id"])
        if run.parent is not None:
            note_belonging(run, event.get("metadata") or {})
            if run.kind is RunKind.RETRIEVER or interaction.others is None:
                self.evals.instrumentors.note(run, vendor_span)

    def _ended(self, run_id: Any, event: _Values, error: BaseException | None = None) -> Run | None:
        key, recorder = key_of(run_id), self._recorder
        if recorder.left_out and recorder.leave(key, error):
            return None
        run, parent = recorder.get(key), recorder.get(key_of(event.get("parent_run_id")))
        if run is None and parent is not None and not recorder.knows(key):
            recorder.lost(key, parent.id)
        return run

    @_run_edge
    def on_chain_start(self, serialized: Any, inputs: Any, **event: Any) -> None:
        run = self._start(RunKind.CHAIN, serialized, event)
        if run is None:
            return
        run.state = state = ChainState()
        read = self._reader.input_of_step
        if run.outermost:
            read, state.is_resuming = self._reader.input_of_root, graphs.resumes(inputs)
            self._choose_question(run, inputs)
        elif run.parent is not None:
            graphs.begin_step(self._recorder, run, event)
            if state.shows_state and state.is_pulled and state.is_earlier is not None:
                self._reader.choose(run.parent, "question", inputs)
        self._reader.defer(run, "on_chain_start", read, inputs)

    def _choose_question(self, run: Run, inputs: Any) -> None:
        if not state_of(run).is_resuming:
            is_command = type(inputs).__name__ == "Command"
            self._reader.choose(run, "question", inputs.update if is_command else inputs)

    @_end_edge
    def on_chain_end(self, run: Run, outputs: Any, **event: Any) -> None:
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

    @_run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        # A `GraphBubbleUp` is an interrupt, or a command to the parent graph.
        only_steers = graphs.is_raised_as(error, "GraphBubbleUp")
        run = self._ended(run_id, extra, None if only_steers else error)
        if run is None:
            return
        self._recorder.stop(run, run.checkpoint)
        if run.outermost and "inputs" in extra and not state_of(run).is_resuming:
            self._choose_question(run, extra["inputs"])
            self._reader.defer(run, "on_chain_error", self._reader.whole_input, extra["inputs"])
        if graphs.is_raised_as(error, "GraphInterrupt"):
            self._recorder.interrupt(run)
        if only_steers:
            self._recorder.end(run)
        else:
            self._recorder.fail(run, error)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    @_run_edge
    def on_retriever_start(self, serialized: Any, query: Any, **event: Any) -> None:
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._reader.defer(run, "on_retriever_start", self._reader.query, query)

    @_end_edge
    def on_retriever_end(self, run: Run, documents: Any, **_extra: Any) -> None:
        # Reading an iterator would consume the application's documents.
        if isinstance(documents, list | tuple):
            self._reader.defer(run, "on_retriever_end", self._reader.found, documents)

    @_run_edge
    def on_chat_model_start(self, serialized: Any, messages: list[Any], **event: Any) -> None:
        run = self._start(RunKind.MODEL, serialized, event)
        if run is not None:
            self._reader.defer(run, "on_llm_start", self._reader.prompt, messages)

    on_llm_start: Any = on_chat_model_start

    @_end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        replies = [one for batch in response.generations for one in batch]
        self._recorder.defer(run, "on_llm_end", self._reader.reply, run, replies)

    @host_edge
    def on_llm_new_token(self, *_: Any, run_id: Any, **__: Any) -> None:
        run = self._recorder.get(key_of(run_id))
        if run is not None and semconv.GEN_AI_REQUEST_STREAM not in run.facts:
            run.facts = {**run.facts, semconv.GEN_AI_REQUEST_STREAM: True}

    on_stream_event = on_llm_new_token

    @_run_edge
    def on_tool_start(self, serialized: Any, input_str: Any, **event: Any) -> None:
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

    @_run_edge
    def record(self, documents: Any, *, run_id: Any) -> None:
        if (run := self._recorder.get(run_id)) is None:
            return
        contexts = contexts_in(whole(self._reader.copy(run, documents)))
        if contexts is None or way_to_documents(documents):
            several = isinstance(documents, list | tuple) and documents
            raise refusal(documents[0] if several else documents)
        self._recorder.defer(run, "record", self._recorder.documents, run, contexts, Origin.STATED)
