"""Prompts of LLM judges, and parsers of the replies. All functions are pure."""

from rag_eval_hooks.prompts.ask import TEMPLATES, WITH_CONTEXTS, Ask, Reading
from rag_eval_hooks.prompts.prompt import Prompt, ReplyError
from rag_eval_hooks.prompts.specs import ABOUT, PROMPTS_VERSION, SPECS, PromptKind, Unit, with_bases

__all__ = [
    "ABOUT",
    "PROMPTS_VERSION",
    "SPECS",
    "TEMPLATES",
    "WITH_CONTEXTS",
    "Ask",
    "Prompt",
    "PromptKind",
    "Reading",
    "ReplyError",
    "Unit",
    "with_bases",
]
