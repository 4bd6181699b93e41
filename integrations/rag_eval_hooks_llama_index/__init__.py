"""Captures LlamaIndex: `enable(evals)` captures every RAG request of the process.

`disable()` stops the capture. `LlamaIndexJudge(llm)` uses a LlamaIndex LLM as the judge.
"""

from __future__ import annotations

from typing import Unpack

from rag_eval_hooks import RagEval
from rag_eval_hooks.capture import CaptureKeywords, CaptureOptions
from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.evals import checked

try:
    from llama_index.core.instrumentation import get_dispatcher
except ImportError as error:
    raise missing_extra("rag_eval_hooks_llama_index", "llama-index") from error

from rag_eval_hooks_llama_index.evaluators import SuiteEvaluator, llama_index_metric
from rag_eval_hooks_llama_index.handler import Instrumentation
from rag_eval_hooks_llama_index.llama_index_judge import LlamaIndexJudge

__all__ = [
    "Instrumentation",
    "LlamaIndexJudge",
    "SuiteEvaluator",
    "disable",
    "enable",
    "llama_index_metric",
]


def enable(evals: RagEval, **options: Unpack[CaptureKeywords]) -> Instrumentation:
    """Capture every RAG request of LlamaIndex in this process.

    `enable` registers a handler with the root dispatcher of LlamaIndex's instrumentation. The
    handler never raises an exception. A second call with equal arguments changes nothing. A call
    with different arguments replaces the handler.

    Args:
        evals: The evaluator that receives the requests.
        **options: The fields of `CaptureOptions`, such as `contexts` and `answer`. The option
            `question` is the name of an argument of the outermost call. It may also be a function
            that receives the arguments and returns the question.

    Returns:
        The registered handler. Call its method `disable()` to stop the capture.

    Raises:
        ConfigError: An argument is invalid.
    """
    choices = CaptureOptions.of("enable()", options)
    checked(evals)
    before = None
    for registration in _registrations():
        if registration.evals is evals and registration.options == choices:
            return registration
        before = registration.evals.recorder.unmatched
        registration.disable()
    registration = Instrumentation(evals, choices)
    registration.enable(before)
    return registration


def disable() -> None:
    """Stop capturing new calls. Idempotent."""
    for registration in _registrations():
        registration.disable()


def _registrations() -> list[Instrumentation]:
    return [one for one in get_dispatcher().span_handlers if isinstance(one, Instrumentation)]
