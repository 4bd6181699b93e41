"""Live quality evaluation for RAG pipelines.

Make one `RagEval` per process and give it to a framework's handler, such as
`rag_eval_hooks_langchain.RagEvalCallbackHandler`; scores appear on the RAG spans.
"""

from rag_eval_hooks._version import __version__
from rag_eval_hooks.config.rules import RuleSettings, TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery import JsonlSink, Sink
from rag_eval_hooks.errors import ConfigError, JudgeError, RagEvalError, RedactionError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.evaluation.evaluator_metric import evaluator_metric
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.ids import result_id, score_id
from rag_eval_hooks.metrics import AskedMetric, Field, Metric
from rag_eval_hooks.pipeline import Explanation, Stats
from rag_eval_hooks.sample import Context, Sample, Status
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Outcome, Outcomes, Score
from rag_eval_hooks.telemetry.tracing import setup_tracing

__all__ = [
    "AnnotatorKind",
    "AskedMetric",
    "Cause",
    "ConfigError",
    "Context",
    "Explanation",
    "Feedback",
    "Field",
    "JsonlSink",
    "JudgeError",
    "Metric",
    "NotScored",
    "Outcome",
    "Outcomes",
    "RagEval",
    "RagEvalConfig",
    "RagEvalError",
    "RedactionError",
    "RuleSettings",
    "Sample",
    "Score",
    "Sink",
    "Stats",
    "Status",
    "TailSettings",
    "__version__",
    "evaluator_metric",
    "result_id",
    "score_id",
    "setup_tracing",
]
