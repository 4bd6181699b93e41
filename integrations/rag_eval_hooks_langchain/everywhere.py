"""Captures retrieval that no callback reports: `enable` and `record_contexts`."""

from __future__ import annotations

import functools
import inspect
import re
import traceback
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Unpack

from langchain_core.vectorstores import VectorStore

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture.interaction import enclosing_interactions
from rag_eval_hooks.capture.options import CaptureKeywords
from rag_eval_hooks.incidents import place_of_caller, warn_once
from rag_eval_hooks_langchain.handler import FRAMEWORK, RagEvalCallbackHandler
from rag_eval_hooks_langchain.surroundings import (
    AMBIENT,
    ask_ambient,
    current_handlers,
    current_manager,
    current_run_id,
)

_SEARCH = re.compile(r"a?(search|(similarity|max_marginal_relevance)_search\w*)")
_RETRIEVERS = ("_get_relevant_documents", "_aget_relevant_documents")
# These LangChain methods search for examples or cached replies, not for contexts.
_OTHER_USES = ("select_examples", "aselect_examples", "lookup", "alookup")
_inside: ContextVar[bool] = ContextVar("rag_eval_search", default=False)
_replaced: list[tuple[type, str, Any]] = []


def enable(evals: RagEval, **options: Unpack[CaptureKeywords]) -> RagEvalCallbackHandler:
    """Capture every LangChain run of this process. No call needs a handler.

    A direct search of a vector store calls no LangChain callback. `enable` therefore also wraps the
    search methods of vector stores. `disable` restores these methods. If a run also has its own
    handler for `evals`, capture records the run only once. A second call of `enable` replaces the
    handler of the first call.

    Args:
        evals: The evaluator that receives the requests.
        **options: The options of `RagEvalCallbackHandler`.

    Returns:
        The handler.

    Raises:
        ConfigError: An argument is invalid.
    """
    handler, before = RagEvalCallbackHandler(evals, **options), AMBIENT.everywhere
    disable()
    # Never report this handler as unused, because the application does not pass it to calls.
    evals.recorder.unmatched.handlers.pop(handler.place, None)
    earlier = (
        before.evals.recorder.unmatched if isinstance(before, RagEvalCallbackHandler) else None
    )
    evals.recorder.unmatched.enable(FRAMEWORK, handler.place, earlier)
    ask_ambient()
    AMBIENT.everywhere = handler

    def defined(kind: type[VectorStore], /, **more: Any) -> None:
        super(VectorStore, kind).__init_subclass__(**more)
        _watch(kind, handler)

    for kind in _classes(VectorStore):
        _watch(kind, handler)
    VectorStore.__init_subclass__ = classmethod(defined)  # type: ignore[assignment]
    return handler


def disable() -> None:
    """Stop capturing new runs. Idempotent."""
    handler, AMBIENT.everywhere = AMBIENT.everywhere, None
    if not isinstance(handler, RagEvalCallbackHandler):
        return
    with suppress(AttributeError):
        del VectorStore.__init_subclass__
    while _replaced:
        kind, name, method = _replaced.pop()
        if getattr(vars(kind).get(name), "__wrapped__", None) is method:
            setattr(kind, name, method)


def record_contexts(documents: Any) -> bool:
    """Record documents that your code retrieves without a LangChain retriever.

    Examples are a search in a middleware, a call to a service, or a text from your code. Call this
    function in a node, tool, middleware or lambda. A document becomes a context only if the model's
    prompt contains the document.

    Outside LangChain runs, call this function inside `with evals.interaction(...)`. The interaction
    then records the documents.

    Args:
        documents: One document or a list of documents. A document is a text, a LangChain document,
            a mapping, or a pair (document, score).

    Returns:
        Whether a handler or an interaction recorded the documents.
    """
    run_id = current_run_id()
    ours = [one for one in current_handlers() if isinstance(one, RagEvalCallbackHandler)]
    if run_id is not None and ours:
        for handler in ours:
            handler.record(documents, run_id=run_id)
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
    reported = functools.partial(_reported, handler, method)

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
    handler: RagEvalCallbackHandler, method: Callable[..., Any], args: Any, kwargs: Any
) -> Iterator[list[Any]]:
    found: list[Any] = []
    asked: dict[str, Any] = {}
    # If the arguments are wrong, the method itself raises the error.
    with suppress(TypeError):
        bound = inspect.signature(method).bind(*args, **kwargs)
        bound.apply_defaults()
        asked = {**bound.arguments, **kwargs}
    if not asked or _inside.get():
        yield found
        return
    token = _inside.set(True)
    try:
        if _is_reported():
            yield found
            return
        name, run_id = type(args[0]).__name__, uuid.uuid4()
        parent_id = getattr(current_manager(), "parent_run_id", None)
        told: dict[str, Any] = {"name": name, "metadata": {"ls_vector_store_provider": name}}
        told |= {"run_id": run_id, "parent_run_id": parent_id, "top_k": asked.get("k")}
        handler.on_retriever_start(None, asked.get("query"), **told)
        try:
            yield found
        except BaseException as error:
            handler.on_retriever_error(error, run_id=run_id)
            raise
        handler.on_retriever_end(found[0], run_id=run_id)
    finally:
        _inside.reset(token)


def _is_reported() -> bool:
    for frame, _ in traceback.walk_stack(None):
        name = frame.f_code.co_name
        is_langchain = str(frame.f_globals.get("__name__")).startswith("langchain")
        if name in _RETRIEVERS or (name in _OTHER_USES and is_langchain):
            return True
    return False
