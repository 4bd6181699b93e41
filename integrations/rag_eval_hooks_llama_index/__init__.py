"""rag_eval_hooks for LlamaIndex: `enable(evals)` captures every RAG interaction.

`disable()` ends that.

`LlamaIndexJudge(llm)` lets an LLM of LlamaIndex be the judge.
"""

from __future__ import annotations

from rag_eval_hooks.errors import missing_extra

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise missing_extra("rag_eval_hooks_llama_index", "llama-index") from error

from rag_eval_hooks_llama_index.evaluators import SuiteEvaluator, llama_index_metric
from rag_eval_hooks_llama_index.handler import Instrumentation, disable, enable
from rag_eval_hooks_llama_index.llama_index_judge import LlamaIndexJudge

__all__ = [
    "Instrumentation",
    "LlamaIndexJudge",
    "SuiteEvaluator",
    "disable",
    "enable",
    "llama_index_metric",
]
