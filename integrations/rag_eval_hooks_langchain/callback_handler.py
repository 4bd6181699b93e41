"""Callback handler that users pass to LangChain, or enable for a whole process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Sequence
from types import FrameType
from typing import Any, Self

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureOptions, Choice, Origin, Run
from rag_eval_hooks.capture.scopes import enclosing_scopes
from rag_eval_hooks.evals import checked
from rag_eval_hooks.sample import Context
from rag_eval_hooks_langchain.graphs import with_graph_events
from rag_eval_hooks_langchain.run_events import FRAMEWORK, RunEvents, run_edge
from rag_eval_hooks_langchain.surroundings import SWITCH, current_handlers, current_run_id, key_of

__all__ = ["CONTEXTS_EVENT", "RagEvalCallbackHandler", "record_contexts"]

_logger = logging.getLogger("rag_eval_hooks")

CONTEXTS_EVENT = "rag_eval.contexts"
"""Name of a custom event whose data are documents that the model is given."""


_WITHHOLDING = "on_llm_start"
_COMPREHENSIONS = ("<listcomp>", "<genexpr>")


class _Ignored:
    """Value of a handler's `ignore_...`: False, and True for the class itself.

    LangChain asks it before each event. A class in `callbacks` would get events without an object.
    """

    def __init__(self) -> None:
        self._is_said = False

    def __get__(self, handler: object, owner: type | None = None) -> bool:
        """Return whether events are ignored; log once that the class was passed."""
        if handler is not None:
            return False
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        # Documentation tools and mocks look at the class, too.
        if caller.startswith("langchain_core.") and not self._is_said:
            self._is_said = True
            _logger.warning(
                "RagEvalCallbackHandler was passed as a class. "
                "Pass an instance: RagEvalCallbackHandler(evals)."
            )
        return True


class _Inline:
    """Value of a handler's `run_inline`: true but for the one function that it would mislead.

    Inline handlers spare async runs a worker thread for each event. But `on_llm_start` of
    langchain-core's asynchronous manager (up to 1.7) calls inline handlers *instead of* all others
    for plain models. If this one says that it is not inline, all are called, and each event is then
    handled inline after all. Where another handler is inline anyway, this one must be, too, to be
    called.
    """

    def __get__(self, handler: Any, owner: type | None = None) -> bool:
        """Return whether events are handled inline, as far as the caller is concerned."""
        asking: FrameType | None = sys._getframe(1)
        if asking is not None and asking.f_code.co_name in _COMPREHENSIONS:
            # Before Python 3.12 a comprehension has a frame of its own.
            asking = asking.f_back
        if asking is None or asking.f_code.co_name != _WITHHOLDING:
            return True
        manager = asking.f_locals.get("self")
        others = (one for one in getattr(manager, "handlers", ()) if not _is_ours(one))
        return any(one.run_inline for one in others)


def _is_ours(handler: object) -> bool:
    return any(isinstance(vars(kind).get("run_inline"), _Inline) for kind in type(handler).__mro__)


class RagEvalCallbackHandler(RunEvents):
    """Captures RAG interactions of LangChain runs. Pass it in `config={"callbacks": [...]}`.

    One handler serves any number of chains, threads and tasks at once. It does dictionary work
    only, changes nothing of the application's, and raises nothing into it.

    `question`, `contexts` and `answer` replace the automatic choice: the name of a key, or a
    function. A function that fails is counted, and the automatic choice serves.

    Args:
        evals: Where interactions go.
        question: In the outermost run's input.
        contexts: In any step's output, of which the last counts. What it gives are the contexts,
            whatever the model saw. A function that fits none is counted.
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

    ignore_chain = ignore_chat_model = ignore_llm = ignore_retriever = _Ignored()

    run_inline: Any = _Inline()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a handler to which LangGraph also reports interrupts, where it can."""
        kind: Any = cls
        made: Self = super().__new__(with_graph_events(kind))
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
        cls.disable()
        evals.recorder.by_hand.everywhere.add(FRAMEWORK)
        SWITCH.set(handler)
        return handler

    @staticmethod
    def disable() -> None:
        """Take `enable` back for runs that begin later."""
        handler = SWITCH.get()
        if isinstance(handler, RunEvents):
            handler._recorder.by_hand.everywhere.discard(FRAMEWORK)
        SWITCH.set(None)

    @run_edge
    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        """Record documents that the application dispatched as `CONTEXTS_EVENT`."""
        if name == CONTEXTS_EVENT:
            self._record(data, run_id)

    @run_edge
    def record(self, documents: Any, *, run_id: Any) -> None:
        """Record documents that the application states; see `record_contexts`."""
        self._record(documents, run_id)

    def _record(self, documents: Any, run_id: Any) -> None:
        run = self._recorder.get(key_of(run_id))
        if run is None:
            return
        copy = self._whole(run, self._copy(run, documents))
        contexts = self._readers(run).documents.typed(copy)
        if contexts is None:
            raise TypeError(type(documents).__name__)
        self._later("record", self._read_stated, run, contexts)

    def _read_stated(self, run: Run, contexts: Sequence[Context]) -> None:
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
            handler.record(documents, run_id=run_id)
        return True
    scopes = enclosing_scopes()
    for scope in scopes:
        scope.contexts(documents)
    return bool(scopes)
