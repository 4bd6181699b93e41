"""All settings, from arguments, environment and file."""

from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["RagEvalConfig"]
