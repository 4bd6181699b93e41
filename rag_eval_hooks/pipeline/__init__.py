"""When and how much is evaluated: sampling, queue, evaluation, delivery, accounting."""

from rag_eval_hooks.books.explanations import ADVICE, Explanation
from rag_eval_hooks.books.stats import Stats
from rag_eval_hooks.decision import Traits
from rag_eval_hooks.evaluation.collect_findings import Sources
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.pipeline.makers import Makers
from rag_eval_hooks.pipeline.offer import Offer
from rag_eval_hooks.pipeline.pipeline import Pipeline

__all__ = [
    "ADVICE",
    "Explanation",
    "Makers",
    "Offer",
    "Pipeline",
    "Scorer",
    "Sources",
    "Stats",
    "Traits",
]
