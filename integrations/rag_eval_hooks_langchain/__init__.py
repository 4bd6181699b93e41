"""rag_eval_hooks for LangChain: `RagEvalCallbackHandler(evals)` as a callback.

`enable(evals)` gives every run of the process one, `disable()` ends that.
`record_contexts(documents)` says from inside a run what no event shows.
`RagEvalMiddleware(evals)` captures the agents that have it as a middleware; it needs `langchain`.
`LangChainJudge(model)` lets a chat model of LangChain be the judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_eval_hooks.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise missing_extra("rag_eval_hooks_langchain", "langchain") from error

from rag_eval_hooks_langchain.everywhere import disable, enable
from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler, record_contexts
from rag_eval_hooks_langchain.langchain_judge import LangChainJudge

if TYPE_CHECKING:
    from rag_eval_hooks_langchain.middleware import RagEvalMiddleware

__all__ = [
    "LangChainJudge",
    "RagEvalCallbackHandler",
    "RagEvalMiddleware",
    "disable",
    "enable",
    "record_contexts",
]


def __getattr__(name: str) -> Any:
    """Import the middleware on first use: only agents of `langchain` have any."""
    if name != "RagEvalMiddleware":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from rag_eval_hooks_langchain.middleware import RagEvalMiddleware
    except ModuleNotFoundError as error:
        raise ImportError(
            'RagEvalMiddleware needs langchain 1.0 or newer: pip install "langchain>=1"'
        ) from error
    return RagEvalMiddleware
