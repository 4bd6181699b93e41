"""Redaction of samples and span content before a judge, spool, sink or exporter gets them."""

from rag_eval_hooks.redaction.choose_redactor import RedactSpec, choose_redactor
from rag_eval_hooks.redaction.redactor import MARGIN, Redactor, Session
from rag_eval_hooks.redaction.rule import Match, Rule

__all__ = ["MARGIN", "Match", "RedactSpec", "Redactor", "Rule", "Session", "choose_redactor"]
