"""Captures LangChain and LangGraph: pass `RagEvalCallbackHandler(evals)` as a callback.

`enable(evals)` captures every LangChain run of the process, until `disable()`.
`record_contexts(documents)` records documents inside a run. `RagEvalMiddleware(evals)` captures an
agent, and needs the package `langchain`. `LangChainJudge(model)` uses a LangChain chat model as the
judge. `LangChainDecisionJudge(model)` uses a model that returns probabilities instead of text.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise missing_extra("rag_eval_hooks_langchain", "langchain") from error

from rag_eval_hooks_langchain.everywhere import disable, enable, record_contexts
from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler

if TYPE_CHECKING:
    from rag_eval_hooks_langchain.langchain_decision_judge import LangChainDecisionJudge
    from rag_eval_hooks_langchain.langchain_judge import LangChainJudge
    from rag_eval_hooks_langchain.middleware import RagEvalMiddleware

__all__ = [
    "LangChainDecisionJudge",
    "LangChainJudge",
    "RagEvalCallbackHandler",
    "RagEvalMiddleware",
    "disable",
    "enable",
    "record_contexts",
]


_LAZY: Final = {
    "LangChainDecisionJudge": ("langchain_decision_judge", "langchain-core>=1.8"),
    "LangChainJudge": ("langchain_judge", "langchain-core"),
    "RagEvalMiddleware": ("middleware", "langchain>=1"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, needs = _LAZY[name]
    try:
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ImportError(f'{name} needs {needs}. Run: pip install "{needs}"') from error
