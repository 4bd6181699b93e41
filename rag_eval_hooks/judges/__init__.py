"""Who makes the findings: judges and embedders. Each optional one is its own module."""

from rag_eval_hooks.judges.base import Embedder, Judge
from rag_eval_hooks.judges.choose import choose_embedder, choose_judge

__all__ = ["Embedder", "Judge", "choose_embedder", "choose_judge"]
