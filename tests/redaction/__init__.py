"""Redaction: values that the rules must find, and texts that they must leave."""

from __future__ import annotations

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.redaction import Redactor, choose_redactor
from rag_eval_hooks.redaction.redactor import merge_matches

__all__ = ["RULES", "found"]

RULES = choose_redactor(RagEvalConfig(), ["all", "ip"])


def found(redactor: Redactor, text: str) -> list[str]:
    matches = merge_matches([tuple(rule(text)) for rule in redactor.rules])
    return [text[match.start : match.end] for match in matches]
