"""Evaluation in a child process: the same scores, away from the application's interpreter lock."""

from rag_eval_hooks.evaluation.process.launch import Launch, obstacle
from rag_eval_hooks.evaluation.process.portable import NotPortable, packed
from rag_eval_hooks.evaluation.process.process_scorer import ProcessLimits, ProcessScorer

__all__ = ["Launch", "NotPortable", "ProcessLimits", "ProcessScorer", "obstacle", "packed"]
