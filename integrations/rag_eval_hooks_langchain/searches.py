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
    begin = functools.partial(_begin, handler, recorder)
    replaced: list[tuple[type, str, Any]] = []

    def watch(kind: type) -> None:
        for name, method in _own_searches(kind):
            replaced.append((kind, name, method))
            setattr(kind, name, _reporting(method, begin))

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


def _reporting(method: Callable[..., Any], begin: Callable[..., _Search | None]) -> Any:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def search(store: Any, *args: Any, **kwargs: Any) -> Any:
        told = begin(signature, store, args, kwargs)
        if told is None:
            return method(store, *args, **kwargs)
        with told:
            return told.found(method(store, *args, **kwargs))

    @functools.wraps(method)
    async def asearch(store: Any, *args: Any, **kwargs: Any) -> Any:
        told = begin(signature, store, args, kwargs)
        if told is None:
            return await method(store, *args, **kwargs)
        with told:
            return told.found(await method(store, *args, **kwargs))

    return asearch if inspect.iscoroutinefunction(method) else search


class _Search:
    """One search, from its call to its end; searches that it makes itself are parts of it."""

    def __init__(self, handler: RagEvalCallbackHandler | None) -> None:
        # None within a retriever, which reports itself.
        self._handler = handler
        self.id = uuid.uuid4()
        self._documents: Any = []

    def found(self, result: Any) -> Any:
        """Note what was found, and return it."""
        self._documents = result
        return result

    def __enter__(self) -> None:
        self._token = _inside.set(True)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        _inside.reset(self._token)
        if self._handler is None:
            return
        if error is None:
            self._handler.on_retriever_end(self._documents, run_id=self.id)
        else:
            self._handler.on_retriever_error(error, run_id=self.id)


def _begin(
    handler: RagEvalCallbackHandler,
    recorder: Recorder,
    signature: inspect.Signature,
    store: VectorStore,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> _Search | None:
    """Report that a search begins; None for one that is part of another."""
    if _inside.get():
        return None
    try:
        bound = signature.bind(store, *args, **kwargs)
    except TypeError:
        # The call itself raises it.
        return None
    bound.apply_defaults()
    given = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    if (caller := _caller()) is not None:
        manager = caller.f_locals.get("run_manager")
        run = recorder.get(key_of(getattr(manager, "run_id", None)))
        if run is not None:
            asked = facts_of({semconv.GEN_AI_RETRIEVAL_TOP_K: given.get("k")})
            run.facts = {**run.facts, **asked}
        return _Search(None)
    search, name = _Search(handler), type(store).__name__
    handler.on_retriever_start(
        None,
        given.get("query"),
        run_id=search.id,
        parent_run_id=getattr(current_manager(), "parent_run_id", None),
        name=name,
        metadata={"ls_vector_store_provider": name},
        top_k=given.get("k"),
    )
    return search


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
