"""Captures LangChain and LangGraph: pass `RagEvalCallbackHandler(evals)` as a callback.

`enable(evals)` captures every run of the process, until `disable()`. `record_contexts(documents)`
records documents inside a run. `LangChainJudge(model)` uses a LangChain chat model as the judge.
`LangChainDecisionJudge(model)` uses a model that returns probabilities instead of text.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rag_eval_hooks.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise missing_extra("rag_eval_hooks_langchain", "langchain") from error

from rag_eval_hooks_langchain.everywhere import disable, enable, record_contexts
from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler
from rag_eval_hooks_langchain.langchain_judge import LangChainJudge

if TYPE_CHECKING:
    from rag_eval_hooks_langchain.langchain_decision_judge import LangChainDecisionJudge

__all__ = [
    "LangChainDecisionJudge",
    "LangChainJudge",
    "RagEvalCallbackHandler",
    "disable",
    "enable",
    "record_contexts",
]


def __getattr__(name: str) -> Any:
    if name != "LangChainDecisionJudge":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.langchain_decision_judge"), name)
    except ModuleNotFoundError as error:
        needs = "langchain-core>=1.8"
        raise ImportError(f'{name} needs {needs}. Run: pip install "{needs}"') from error
