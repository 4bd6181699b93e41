"""Who makes the findings: judges and embedders. Each optional one is its own module."""

from rag_eval_hooks.judges.base import Embedder, Judge, TokenScorer
from rag_eval_hooks.judges.choose import choose_embedder, choose_judge, choose_token_scorer

__all__ = [
    "Embedder",
    "Judge",
    "TokenScorer",
    "choose_embedder",
    "choose_judge",
    "choose_token_scorer",
]
