"""All settings, from arguments, environment variables and a file."""

from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["RagEvalConfig"]
