"""Evaluates the quality of live RAG requests.

Create one `RagEval` per process. Pass it to a framework's handler, such as
`rag_eval_hooks_langchain.RagEvalCallbackHandler`. `RagEval` then scores each request in the
background, and writes the scores on the request's span.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.books import Stats
from rag_eval_hooks.config.rules import RuleSettings, TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, JudgeError, RagEvalError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.sample import Context, Field, Sample, Status
from rag_eval_hooks.score import Cause, NotScored, Outcome, Scale, Score
from rag_eval_hooks.telemetry.tracing import setup_tracing

if TYPE_CHECKING:
    from rag_eval_hooks.delivery.jsonl import JsonlSink
    from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink
    from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink
    from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
    from rag_eval_hooks.delivery.sink import Sink
    from rag_eval_hooks.evaluation.own_metrics import Criterion, evaluator_metric
    from rag_eval_hooks.findings import Findings
    from rag_eval_hooks.judges import Embedder, Judge
    from rag_eval_hooks.judges.cascade import Cascade
    from rag_eval_hooks.judges.decision_judge import DecisionJudge
    from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge
    from rag_eval_hooks.judges.hugging_face import BertScorer as BertScorer
    from rag_eval_hooks.judges.hugging_face import SentenceEmbedder as SentenceEmbedder
    from rag_eval_hooks.judges.llm import CallableJudge
    from rag_eval_hooks.judges.openai import OpenAIEmbedder as OpenAIEmbedder
    from rag_eval_hooks.judges.openai import OpenAIJudge as OpenAIJudge
    from rag_eval_hooks.metrics import AskedMetric, Metric
    from rag_eval_hooks.redaction.own_rules import Patterns as Patterns
    from rag_eval_hooks.redaction.own_rules import Presidio
    from rag_eval_hooks.span_processor import RagEvalSpanProcessor as RagEvalSpanProcessor
    from rag_eval_hooks.testing import MemorySink, ScriptedJudge

# This list omits names that need an extra, because `import *` must work without extras.
__all__ = [
    "AskedMetric",
    "CallableJudge",
    "Cascade",
    "Cause",
    "ConfigError",
    "Context",
    "Criterion",
    "DecisionJudge",
    "Embedder",
    "Evaluation",
    "Feedback",
    "Field",
    "Findings",
    "HeuristicJudge",
    "JsonlSink",
    "Judge",
    "JudgeError",
    "LangfuseSink",
    "MemorySink",
    "Metric",
    "MlflowSink",
    "NotScored",
    "Outcome",
    "PhoenixSink",
    "Presidio",
    "RagEval",
    "RagEvalConfig",
    "RagEvalError",
    "RuleSettings",
    "Sample",
    "Scale",
    "Score",
    "ScriptedJudge",
    "Sink",
    "Stats",
    "Status",
    "TailSettings",
    "__version__",
    "evaluator_metric",
    "setup_tracing",
]

# Import these names on first use, to keep the package's import fast.
_LAZY: Final = {
    "AskedMetric": "rag_eval_hooks.metrics",
    "BertScorer": "rag_eval_hooks.judges.hugging_face",
    "CallableJudge": "rag_eval_hooks.judges.llm",
    "Cascade": "rag_eval_hooks.judges.cascade",
    "Criterion": "rag_eval_hooks.evaluation.own_metrics",
    "DecisionJudge": "rag_eval_hooks.judges.decision_judge",
    "Embedder": "rag_eval_hooks.judges",
    "Findings": "rag_eval_hooks.findings",
    "LangfuseSink": "rag_eval_hooks.delivery.platforms.langfuse",
    "HeuristicJudge": "rag_eval_hooks.judges.heuristic.judge",
    "JsonlSink": "rag_eval_hooks.delivery.jsonl",
    "Judge": "rag_eval_hooks.judges",
    "MemorySink": "rag_eval_hooks.testing",
    "Metric": "rag_eval_hooks.metrics",
    "MlflowSink": "rag_eval_hooks.delivery.platforms.mlflow",
    "OpenAIEmbedder": "rag_eval_hooks.judges.openai",
    "OpenAIJudge": "rag_eval_hooks.judges.openai",
    "Patterns": "rag_eval_hooks.redaction.own_rules",
    "PhoenixSink": "rag_eval_hooks.delivery.platforms.phoenix",
    "Presidio": "rag_eval_hooks.redaction.own_rules",
    "RagEvalSpanProcessor": "rag_eval_hooks.span_processor",
    "ScriptedJudge": "rag_eval_hooks.testing",
    "SentenceEmbedder": "rag_eval_hooks.judges.hugging_face",
    "Sink": "rag_eval_hooks.delivery.sink",
    "evaluator_metric": "rag_eval_hooks.evaluation.own_metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})
