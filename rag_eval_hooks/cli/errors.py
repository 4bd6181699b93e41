"""Errors of the command line."""

from __future__ import annotations

from rag_eval_hooks.errors import RagEvalError

__all__ = ["UsageError"]


class UsageError(RagEvalError):
    """The user gave something that cannot be used; the message says what and where."""
