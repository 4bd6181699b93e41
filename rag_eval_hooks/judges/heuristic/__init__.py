"""The heuristic judge. Its rules compare words, and need no key, network or model."""

from __future__ import annotations

from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge

__all__ = ["HeuristicJudge"]
