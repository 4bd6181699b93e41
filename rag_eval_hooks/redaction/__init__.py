"""What must not leave, taken out of samples before judge, spool, sinks and spans see them."""

from rag_eval_hooks.redaction.choose import RedactSpec, choose_redactor
from rag_eval_hooks.redaction.divided import MARGIN
from rag_eval_hooks.redaction.matches import Match, Rule
from rag_eval_hooks.redaction.redactor import Redactor
from rag_eval_hooks.redaction.session import Session

__all__ = ["MARGIN", "Match", "RedactSpec", "Redactor", "Rule", "Session", "choose_redactor"]
