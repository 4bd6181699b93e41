"""When and how much is evaluated: sampling, queue, evaluation, delivery, accounting."""

from rag_eval_hooks.pipeline.ledger import Stats
from rag_eval_hooks.pipeline.pipeline import Offer, Pipeline

__all__ = ["Offer", "Pipeline", "Stats"]
