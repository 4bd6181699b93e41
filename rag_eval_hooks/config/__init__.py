"""All settings, from arguments, variables and a file."""

from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["RagEvalConfig"]
