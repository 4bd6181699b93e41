"""rag_eval_hooks for LangChain: `RagEvalCallbackHandler(evals)` as a callback.

`enable(evals)` gives every run of the process one, `disable()` ends that.
`record_contexts(documents)` says from inside a run what no event shows.
`LangChainJudge(model)` lets a chat model of LangChain be the judge.
"""

from __future__ import annotations

from rag_eval_hooks.errors import missing_extra

try:
    import langchain_core  # noqa: F401
except ImportError as error:
    raise missing_extra("rag_eval_hooks_langchain", "langchain") from error

from rag_eval_hooks_langchain.handler import RagEvalCallbackHandler, record_contexts
from rag_eval_hooks_langchain.langchain_judge import LangChainJudge

__all__ = ["LangChainJudge", "RagEvalCallbackHandler", "disable", "enable", "record_contexts"]

enable = RagEvalCallbackHandler.enable
disable = RagEvalCallbackHandler.disable
