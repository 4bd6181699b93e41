"""`rag-eval-hooks doctor`: checks everything that evaluation needs, and explains traces."""

from rag_eval_hooks.cli.doctor.command import register

__all__ = ["register"]
