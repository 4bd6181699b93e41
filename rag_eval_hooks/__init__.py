"""Live quality evaluation for RAG pipelines.

Make one `RagEval` per process and give it to a framework's handler, such as
`rag_eval_hooks_langchain.RagEvalCallbackHandler`; scores appear on the RAG spans.
"""

from rag_eval_hooks._version import __version__
from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.errors import ConfigError, JudgeError, RagEvalError, RedactionError
from rag_eval_hooks.evals import RagEval
from rag_eval_hooks.metrics import Field, Metric
from rag_eval_hooks.pipeline import Explanation, Stats
from rag_eval_hooks.sample import Context, Sample, Status
from rag_eval_hooks.score import AnnotatorKind, Cause, NotScored, Outcome, Outcomes, Score
from rag_eval_hooks.sinks import JsonlSink, Sink
from rag_eval_hooks.tracing import setup_tracing

__all__ = [
    "AnnotatorKind",
    "Cause",
    "ConfigError",
    "Context",
    "Explanation",
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
    "Sample",
    "Score",
    "Sink",
    "Stats",
    "Status",
    "__version__",
    "setup_tracing",
]
