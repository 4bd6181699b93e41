"""Redacts samples and span content before they reach a judge, spool, sink or exporter."""

from rag_eval_hooks.redaction.choose_redactor import RedactSpec, choose_redactor
from rag_eval_hooks.redaction.redactor import MARGIN, Match, Redactor, Rule, Session

__all__ = ["MARGIN", "Match", "RedactSpec", "Redactor", "Rule", "Session", "choose_redactor"]
