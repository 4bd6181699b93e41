"""When and how much is evaluated: sampling, queue, evaluation, delivery, accounting."""

from rag_eval_hooks.pipeline.explanations import ADVICE, Explanation
from rag_eval_hooks.pipeline.inquiry import Sources
from rag_eval_hooks.pipeline.ledger import Stats
from rag_eval_hooks.pipeline.makers import Makers
from rag_eval_hooks.pipeline.offer import Offer
from rag_eval_hooks.pipeline.pipeline import Pipeline
from rag_eval_hooks.pipeline.rules import Traits
from rag_eval_hooks.pipeline.scorer import Scorer

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
