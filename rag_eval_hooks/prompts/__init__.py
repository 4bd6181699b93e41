"""Prompts of an LLM judge, and the reading of its replies. Pure and versioned."""

from rag_eval_hooks.prompts.decompose import QUESTION_COUNT, DecomposeAsk
from rag_eval_hooks.prompts.grade import GradeAsk
from rag_eval_hooks.prompts.prompt import (
    PROMPTS_VERSION,
    Ask,
    Items,
    Prompt,
    Reading,
    ReplyError,
    Values,
)
from rag_eval_hooks.prompts.rate import RateAsk
from rag_eval_hooks.prompts.verify import VerifyAsk

__all__ = [
    "PROMPTS_VERSION",
    "QUESTION_COUNT",
    "Ask",
    "DecomposeAsk",
    "GradeAsk",
    "Items",
    "Prompt",
    "RateAsk",
    "Reading",
    "ReplyError",
    "Values",
    "VerifyAsk",
]
