"""Callback handler that users pass to LangChain, or enable for a whole process."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self
from uuid import UUID

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import Origin
from rag_eval_hooks.capture.scopes import enclosing_scopes
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.incidents import host_edge
from rag_eval_hooks_langchain.choices import (
    Choice,
    Choices,
    name_or_none,
    names,
)
from rag_eval_hooks_langchain.documents import DOCUMENT_KEYS, Documents
from rag_eval_hooks_langchain.graphs import (
    with_graph_events,
)
from rag_eval_hooks_langchain.run_events import RunEvents
from rag_eval_hooks_langchain.surroundings import SWITCH, current_handlers, current_run_id

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler", "record_contexts"]

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents that the model is given."""


class RagEvalCallbackHandler(RunEvents):
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
        self._documents = Documents(names("document_keys", document_keys))
        super().__init__(
            evals,
            Choices(question, contexts, answer),
            name_or_none("root", root),
            self._documents,
            None if retrieval_tools is None else names("retrieval_tools", retrieval_tools),
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
    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        if name == CONTEXTS_EVENT:
            self._record(data, run_id.int)

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
            handler.record(documents, run_id)
        return True
    scopes = enclosing_scopes()
    for scope in scopes:
        scope.contexts(documents)
    return bool(scopes)
