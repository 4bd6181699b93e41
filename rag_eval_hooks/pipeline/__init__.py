"""Pipeline of a request: decide, queue, evaluate, deliver, count."""

from rag_eval_hooks.books.explanations import ADVICE, Explanation
from rag_eval_hooks.books.stats import Stats
from rag_eval_hooks.evaluation.collect_findings import Sources
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.pipeline.pipeline import Pipeline

__all__ = ["ADVICE", "Explanation", "Pipeline", "Scorer", "Sources", "Stats"]
