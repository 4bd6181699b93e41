"""`RagEvalCallbackHandler`, the callback handler for LangChain.

Each method copies the event's values. Another thread reads the copy.
"""

from __future__ import annotations

import threading
from typing import Any, Self

from langchain_core.outputs import LLMResult

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import Origin, Run, RunKind
from rag_eval_hooks.capture.documents import contexts_in
from rag_eval_hooks.capture.interaction import enclosing_interactions
from rag_eval_hooks.context import refusal, way_to_documents
from rag_eval_hooks.incidents import host_edge, place_of_caller, warn_once
from rag_eval_hooks_langchain import graphs
from rag_eval_hooks_langchain.graphs import ChainState, state_of
from rag_eval_hooks_langchain.runs import RunHandler, end_edge, run_edge
from rag_eval_hooks_langchain.surroundings import (
    InlineUnlessWithheld,
    current_handlers,
    current_run_id,
    key_of,
)

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler", "record_contexts"]

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents for the model."""


class RagEvalCallbackHandler(RunHandler):
    """Captures RAG requests from LangChain runs. Pass it in `config={"callbacks": [...]}`.

    One handler serves any number of chains, threads and tasks concurrently. The handler never
    raises, and changes no object of the application.

    `question`, `contexts` and `answer` replace automatic detection by a key or a function. If a
    function raises, the handler counts the failure and detects the value automatically.

    Args:
        evals: The evaluator that receives the requests.
        question: Where the question is: a key or a function of the outermost run's input.
        contexts: Where the contexts are: a key or a function of a step's output. The last output
            with a match becomes the contexts, whether or not a prompt shows them.
        answer: Where the answer is: a key or a function of the outermost run's output.
        root: Name of the run that is a request, instead of the outermost run. Runs outside it are
            ignored.
        document_keys: State keys whose list is a retrieval, even an empty list or a list of texts
            or mappings. A list of LangChain documents is a retrieval under any key. None means the
            default keys, under which an empty list before any retrieval is ignored.
        retrieval_tools: Names of the tools whose text may be a context if they return no documents.
            None means every tool, if nothing else was retrieved.
        as_context: Function that converts an application's object to its text or a `Context`. The
            function returns None for other objects and is not called for dicts.

    Raises:
        ConfigError: An argument is invalid.
    """

    run_inline: Any = InlineUnlessWithheld()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a handler. If LangGraph is installed, the handler also receives interrupts."""
        kind: Any = cls
        made: Self = super().__new__(graphs.with_graph_events(kind))
        return made

    @run_edge
    def on_chain_start(self, serialized: dict[str, Any] | None, inputs: Any, **event: Any) -> None:
        run = self._start(RunKind.CHAIN, serialized, event)
        if run is None:
            return
        run.state = state = ChainState()
        read = self._reader.input_of_chain
        if run.outermost or run.parent is None:
            read = self._reader.input_of_root
            state.is_resuming = state.is_continuing = graphs.resumes(inputs)
            if not state.is_resuming:
                self._choose_question(run, inputs)
        else:
            graphs.begin_step(self._recorder, run, event)
            if state.shows_state and state.is_pulled and state.is_earlier is not None:
                self._reader.choose(run.parent, "question", inputs)
        self._reader.defer(run, "on_chain_start", read, inputs)

    def _choose_question(self, run: Run, inputs: Any) -> None:
        is_command = type(inputs).__name__ == "Command"
        self._reader.choose(run, "question", inputs.update if is_command else inputs)

    @end_edge
    def on_chain_end(self, run: Run, outputs: Any, **event: Any) -> None:
        state = state_of(run)
        # A stream reports its input only at its end.
        streamed = [event["inputs"]] if "inputs" in event else []
        if run.outermost:
            if streamed and not state.is_resuming:
                self._choose_question(run, *streamed)
            if state.is_graph:
                self._reader.choose(run, "question", outputs)
            self._reader.choose(run, "answer", outputs)
        self._reader.choose(run, "contexts", outputs)
        read = self._reader.output_of_chain
        self._reader.defer(run, "on_chain_end", read, outputs, *streamed)

    @run_edge
    def on_chain_error(self, error: BaseException, *, run_id: Any, **extra: Any) -> None:
        only_steers = graphs.only_steers(error)
        run = self._ended(run_id, extra, None if only_steers else error)
        if run is None:
            return
        self._recorder.stop(run, run.checkpoint)
        if run.outermost and "inputs" in extra and not state_of(run).is_resuming:
            self._choose_question(run, extra["inputs"])
            self._reader.defer(run, "on_chain_error", self._reader.whole_input, extra["inputs"])
        if graphs.is_interrupt(error):
            self._recorder.interrupt(run)
        if only_steers:
            self._recorder.end(run)
        else:
            self._recorder.fail(run, error)

    on_retriever_error = on_llm_error = on_tool_error = on_chain_error

    @run_edge
    def on_retriever_start(
        self, serialized: dict[str, Any] | None, query: Any, **event: Any
    ) -> None:
        run = self._start(RunKind.RETRIEVER, serialized, event)
        if run is not None:
            self._reader.defer(run, "on_retriever_start", self._reader.query, query)

    @end_edge
    def on_retriever_end(self, run: Run, documents: Any, **_extra: Any) -> None:
        """Finish a retrieval with its documents.

        An iterator of documents is not read, because reading would consume the application's
        documents.
        """
        if isinstance(documents, list | tuple):
            self._reader.defer(run, "on_retriever_end", self._reader.found, documents)

    @run_edge
    def on_chat_model_start(
        self, serialized: dict[str, Any] | None, messages: list[Any], **event: Any
    ) -> None:
        run = self._start(RunKind.MODEL, serialized, event)
        if run is not None:
            self._reader.defer(run, "on_llm_start", self._reader.prompt, messages)

    def on_llm_start(
        self, serialized: dict[str, Any] | None, prompts: list[str], **event: Any
    ) -> None:
        self.on_chat_model_start(serialized, prompts, **event)

    @end_edge
    def on_llm_end(self, run: Run, response: LLMResult, **_extra: Any) -> None:
        replies = [one for batch in response.generations for one in batch]
        self._reader.later(run, "on_llm_end", self._reader.reply, replies)

    @host_edge
    def on_llm_new_token(self, *_: Any, run_id: Any, **__: Any) -> None:
        """Record, at the first token, that a model streams."""
        run = self._recorder.get(key_of(run_id))
        if run is not None and semconv.GEN_AI_REQUEST_STREAM not in run.facts:
            run.facts = {**run.facts, semconv.GEN_AI_REQUEST_STREAM: True}

    on_stream_event = on_llm_new_token

    @run_edge
    def on_tool_start(
        self, serialized: dict[str, Any] | None, input_str: Any, **event: Any
    ) -> None:
        run = self._start(RunKind.TOOL, serialized, event)
        if run is None:
            return
        run.description = str((serialized or {}).get("description") or "")
        self._recorder.question(run, input_str if isinstance(input_str, str) else None)
        if self._recorder.span_content:
            given = event.get("inputs")
            self._reader.defer(run, "on_tool_start", self._reader.arguments, given, input_str)

    @end_edge
    def on_tool_end(self, run: Run, output: Any, **_extra: Any) -> None:
        """Finish a tool call. Its output or artifact may contain documents, or else a text."""
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

    @run_edge
    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        run = self._recorder.get(key_of(run_id)) if name == CONTEXTS_EVENT else None
        if run is None:
            return
        contexts = contexts_in(self._reader.whole(run, self._reader.copy(run, data)))
        if contexts is None or way_to_documents(data):
            raise refusal(data[0] if isinstance(data, list | tuple) and data else data)
        self._reader.later(
            run, "on_custom_event", self._recorder.documents, contexts, Origin.STATED
        )


def record_contexts(documents: Any) -> bool:
    """Record documents that the running step gives to the model.

    Use this for retrieval that no event shows: a search in a middleware, a call to a service, or
    text from your code. Call it in a node, tool, middleware or lambda. A document becomes a context
    only if the model's prompt shows the document.

    In an `evals.interaction(...)` block outside any run, it is the same as `it.contexts`.

    Args:
        documents: One or several texts, LangChain documents, (document, score) pairs, or mappings.

    Returns:
        Whether a handler or a block recorded the documents.
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
    if run_id is None and not scopes:
        told = f"record_contexts() recorded nothing outside of a run, at {place_of_caller()}. "
        told += "Call it in a step of a chain, or inside evals.interaction(question)."
        if threading.current_thread() is not threading.main_thread():
            told += " In another thread, call the function by contextvars.copy_context().run."
        warn_once(told)
    return bool(scopes)
