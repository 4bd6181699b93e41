"""Judges, embedders and token scorers. They make the findings from which metrics are computed."""

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
