"""Settings from arguments, environment variables and a TOML file."""

from rag_eval_hooks.config.settings import RagEvalConfig

__all__ = ["RagEvalConfig"]
