"""Capture retrieval that no callback reports: `enable` and `record_contexts`.

While capture is enabled, a search of a vector store reports to the handler like a retriever. Inside
a retriever, the search only adds `k` to the retriever's span.
"""

from __future__ import annotations

import functools
import inspect
import re
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Any, Unpack

from langchain_core.vectorstores import VectorStore

from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.capture.facts import facts_of
from rag_eval_hooks.capture.interaction import enclosing_interactions
from rag_eval_hooks.capture.options import HandlerKeywords
from rag_eval_hooks.incidents import place_of_caller, warn_once
from rag_eval_hooks_langchain.handler import CONTEXTS_EVENT, FRAMEWORK, RagEvalCallbackHandler
from rag_eval_hooks_langchain.surroundings import (
    AMBIENT,
    ask_ambient,
    current_handlers,
    current_manager,
    current_run_id,
    key_of,
)

_SEARCH = re.compile(r"a?(search|(similarity|max_marginal_relevance)_search\w*)")
_OTHER = (
    "No run of LangChain reached rag_eval_hooks_langchain.enable(). For LlamaIndex, write: "
    "from rag_eval_hooks_llama_index import enable"
)
_RETRIEVERS = ("_get_relevant_documents", "_aget_relevant_documents")
# These LangChain methods search for examples or cached replies, not for contexts.
_OTHER_USES = ("select_examples", "aselect_examples", "lookup", "alookup")
_inside: ContextVar[bool] = ContextVar("rag_eval_search", default=False)
_replaced: list[tuple[type, str, Any]] = []


def enable(evals: RagEval, **options: Unpack[HandlerKeywords]) -> RagEvalCallbackHandler:
    """Capture every run of the process without passing a handler.

    LangChain reports no callback for a direct search of a vector store. `enable` therefore also
    wraps the search methods of vector stores, until `disable`. If a run also has another handler of
    `evals`, the run is captured once. A second call of `enable` replaces the first handler.

    Args:
        evals: The evaluator that receives the requests.
        **options: The options of `RagEvalCallbackHandler`.

    Returns:
        The handler.
    """
    handler, before = RagEvalCallbackHandler(evals, **options), AMBIENT.everywhere
    if isinstance(before, RagEvalCallbackHandler) and before.evals is not evals:
        advice = "Pass one RagEval to all calls"
        evals.incidents.mistake("enable() replaces another RagEval", advice)
        before.evals.recorder.enabled.clear()
    disable()
    evals.recorder.by_hand.everywhere.add(FRAMEWORK)
    # The application never passes this handler to a call.
    evals.recorder.handlers.pop(handler.place, None)
    evals.recorder.enabled[handler.place] = ("llama_index.core", _OTHER)
    ask_ambient()
    AMBIENT.everywhere = handler

    def defined(kind: type[VectorStore], /, **more: Any) -> None:
        super(VectorStore, kind).__init_subclass__(**more)
        _watch(kind, handler)

    for kind in dict.fromkeys(_classes(VectorStore)):
        _watch(kind, handler)
    VectorStore.__init_subclass__ = classmethod(defined)  # type: ignore[assignment]
    return handler


def disable() -> None:
    """Stop capturing runs that start later. Idempotent."""
    handler, AMBIENT.everywhere = AMBIENT.everywhere, None
    if not isinstance(handler, RagEvalCallbackHandler):
        return
    handler.evals.recorder.by_hand.everywhere.discard(FRAMEWORK)
    with suppress(AttributeError):
        del VectorStore.__init_subclass__
    while _replaced:
        kind, name, method = _replaced.pop()
        if getattr(vars(kind).get(name), "__wrapped__", None) is method:
            setattr(kind, name, method)


def record_contexts(documents: Any) -> bool:
    """Record documents that the running step gives to the model.

    Use this function if LangChain reports no retrieval: for a search in a middleware, a call to a
    service, or text from your code. Call this function in a node, tool, middleware or lambda. A
    document becomes a context only if the model's prompt contains the document.

    Inside `with evals.interaction(...) as it:` but outside any run, this function calls
    `it.contexts`.

    Args:
        documents: One document or a list: texts, LangChain documents, mappings, or pairs
            (document, score).

    Returns:
        Whether a handler or a block recorded the documents.
    """
    run_id = current_run_id()
    ours = [one for one in current_handlers() if isinstance(one, RagEvalCallbackHandler)]
    if run_id is not None and ours:
        for handler in ours:
            handler.on_custom_event(CONTEXTS_EVENT, documents, run_id=run_id)
        return True
    scopes = enclosing_interactions()
    for scope in scopes:
        scope.contexts(documents)
    if run_id is None and not scopes:
        problem = f"record_contexts() recorded nothing at {place_of_caller()}. No run was open."
        advice = "Call record_contexts() in a step of a chain, or in evals.interaction(question)."
        warn_once(f"{problem} {advice}")
    return bool(scopes)


def _classes(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _classes(below)


def _watch(kind: type, handler: RagEvalCallbackHandler) -> None:
    for name, method in list(vars(kind).items()):
        is_concrete = inspect.isfunction(method) and not hasattr(method, "__isabstractmethod__")
        if is_concrete and _SEARCH.fullmatch(name):
            _replaced.append((kind, name, method))
            setattr(kind, name, _reporting(method, handler))


def _reporting(method: Callable[..., Any], handler: RagEvalCallbackHandler) -> Callable[..., Any]:
    reported = functools.partial(_reported, handler, inspect.signature(method))

    @functools.wraps(method)
    def search(*args: Any, **kwargs: Any) -> Any:
        with reported(args, kwargs) as found:
            found.append(method(*args, **kwargs))
        return found[0]

    @functools.wraps(method)
    async def asearch(*args: Any, **kwargs: Any) -> Any:
        with reported(args, kwargs) as found:
            found.append(await method(*args, **kwargs))
        return found[0]

    return asearch if inspect.iscoroutinefunction(method) else search


@contextmanager
def _reported(
    handler: RagEvalCallbackHandler,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Iterator[list[Any]]:
    found: list[Any] = []
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        bound = None
    if bound is None or _inside.get():
        yield found
        return
    bound.apply_defaults()
    asked, name = {**bound.arguments, **bound.kwargs}, type(args[0]).__name__
    token = _inside.set(True)
    try:
        if (caller := _searching_frame()) is not None:
            _note_top_k(handler, caller, asked.get("k"))
            yield found
            return
        run_id, metadata = uuid.uuid4(), {"ls_vector_store_provider": name}
        parent_id = getattr(current_manager(), "parent_run_id", None)
        told = {"name": name, "metadata": metadata, "top_k": asked.get("k")}
        handler.on_retriever_start(
            None, asked.get("query"), run_id=run_id, parent_run_id=parent_id, **told
        )
        try:
            yield found
        except BaseException as error:
            handler.on_retriever_error(error, run_id=run_id)
            raise
        handler.on_retriever_end(found[0], run_id=run_id)
    finally:
        _inside.reset(token)


def _note_top_k(handler: RagEvalCallbackHandler, retriever: FrameType, top_k: Any) -> None:
    manager = retriever.f_locals.get("run_manager")
    run = handler.evals.recorder.get(key_of(getattr(manager, "run_id", None)))
    if run is not None:
        run.facts = {**run.facts, **facts_of({semconv.GEN_AI_RETRIEVAL_TOP_K: top_k})}


def _searching_frame() -> FrameType | None:
    for frame, _ in traceback.walk_stack(None):
        name = frame.f_code.co_name
        is_langchain = str(frame.f_globals.get("__name__")).startswith("langchain")
        if name in _RETRIEVERS or (name in _OTHER_USES and is_langchain):
            return frame
    return None
