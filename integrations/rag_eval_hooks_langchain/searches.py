"""Searches of vector stores that an application calls itself: no callback reports them.

While capture is enabled for the process, the search methods of all classes of vector stores report
to the handler as a retriever does. A search inside a retriever tells that its `k`.
"""

from __future__ import annotations

import functools
import inspect
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from langchain_core.vectorstores import VectorStore

from rag_eval_hooks import semconv
from rag_eval_hooks.capture import Recorder
from rag_eval_hooks.capture.facts import facts_of
from rag_eval_hooks_langchain.surroundings import current_manager, key_of

if TYPE_CHECKING:
    from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler

__all__ = ["report_searches"]

_SYNC = (
    "search",
    "similarity_search",
    "similarity_search_by_vector",
    "similarity_search_with_relevance_scores",
    "similarity_search_with_score",
    "max_marginal_relevance_search",
    "max_marginal_relevance_search_by_vector",
)
_SEARCHES = (*_SYNC, *(f"a{name}" for name in _SYNC))
_RETRIEVERS = ("_get_relevant_documents", "_aget_relevant_documents")
_OTHER_USES = ("select_examples", "aselect_examples", "lookup", "alookup")
"""Methods of LangChain that search for other things than contexts: examples, cached replies."""
_inside: ContextVar[bool] = ContextVar("rag_eval_search", default=False)


def report_searches(handler: RagEvalCallbackHandler, recorder: Recorder) -> Callable[[], None]:
    """Let the search methods of vector stores report, also of classes that are defined later.

    Args:
        handler: Receives a search as the run of a retriever.
        recorder: Of the handler.

    Returns:
        A function that restores the methods.
    """
    replaced: list[tuple[type, str, Any]] = []

    def watch(kind: type) -> None:
        for name, method in _own_searches(kind):
            replaced.append((kind, name, method))
            setattr(kind, name, _reporting(method, handler, recorder))

    def defined(kind: type[VectorStore], /, **options: Any) -> None:
        super(VectorStore, kind).__init_subclass__(**options)
        watch(kind)

    for kind in dict.fromkeys(_classes(VectorStore)):
        watch(kind)
    VectorStore.__init_subclass__ = classmethod(defined)  # type: ignore[assignment]

    def restore() -> None:
        del VectorStore.__init_subclass__
        for kind, name, method in replaced:
            if getattr(vars(kind).get(name), "__wrapped__", None) is method:
                setattr(kind, name, method)

    return restore


def _own_searches(kind: type) -> list[tuple[str, Any]]:
    methods = [(name, vars(kind).get(name)) for name in _SEARCHES]
    return [
        (name, method)
        for name, method in methods
        if inspect.isfunction(method) and not hasattr(method, "__isabstractmethod__")
    ]


def _classes(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _classes(below)


def _reporting(
    method: Callable[..., Any], handler: RagEvalCallbackHandler, recorder: Recorder
) -> Callable[..., Any]:
    reported = functools.partial(_reported, handler, recorder, inspect.signature(method))

    @functools.wraps(method)
    def search(store: VectorStore, *args: Any, **kwargs: Any) -> Any:
        with reported(store, args, kwargs) as found:
            found.append(method(store, *args, **kwargs))
        return found[0]

    @functools.wraps(method)
    async def asearch(store: VectorStore, *args: Any, **kwargs: Any) -> Any:
        with reported(store, args, kwargs) as found:
            found.append(await method(store, *args, **kwargs))
        return found[0]

    return asearch if inspect.iscoroutinefunction(method) else search


@contextmanager
def _reported(
    handler: RagEvalCallbackHandler,
    recorder: Recorder,
    signature: inspect.Signature,
    store: VectorStore,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Iterator[list[Any]]:
    """Report a search and its documents, unless another search contains it."""
    found: list[Any] = []
    asked = None if _inside.get() else _arguments(signature, store, args, kwargs)
    if asked is None:
        yield found
        return
    token = _inside.set(True)
    try:
        if (caller := _caller()) is not None:
            _note_top_k(recorder, caller, asked)
            yield found
            return
        run_id = uuid.uuid4()
        handler.on_retriever_start(None, asked.get("query"), **_start(store, asked, run_id))
        try:
            yield found
        except BaseException as error:
            handler.on_retriever_error(error, run_id=run_id)
            raise
        handler.on_retriever_end(found[0], run_id=run_id)
    finally:
        _inside.reset(token)


def _arguments(
    signature: inspect.Signature, store: VectorStore, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Return the arguments of a search by name; None for a call that raises for them."""
    try:
        bound = signature.bind(store, *args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    return {**bound.arguments, **bound.kwargs}


def _start(store: VectorStore, asked: Mapping[str, Any], run_id: uuid.UUID) -> dict[str, Any]:
    name = type(store).__name__
    return {
        "run_id": run_id,
        "parent_run_id": getattr(current_manager(), "parent_run_id", None),
        "name": name,
        "metadata": {"ls_vector_store_provider": name},
        "top_k": asked.get("k"),
    }


def _note_top_k(recorder: Recorder, retriever: FrameType, asked: Mapping[str, Any]) -> None:
    manager = retriever.f_locals.get("run_manager")
    run = recorder.get(key_of(getattr(manager, "run_id", None)))
    if run is not None:
        run.facts = {**run.facts, **facts_of({semconv.GEN_AI_RETRIEVAL_TOP_K: asked.get("k")})}


def _caller() -> FrameType | None:
    """Return the frame of a retriever, an example selector or a cache that searches, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_name
        if name in _RETRIEVERS:
            return frame
        if name in _OTHER_USES and str(frame.f_globals.get("__name__")).startswith("langchain"):
            return frame
        frame = frame.f_back
    return None
