"""The command line `rag-eval-hooks`."""

from __future__ import annotations

from rag_eval_hooks.errors import RagEvalError

__all__ = ["UsageError"]


class UsageError(RagEvalError):
    """An argument or an input file is invalid. The message gives name and reason."""
