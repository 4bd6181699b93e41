"""Reads evaluation results, estimates mean scores, compares runs and writes reports."""

from rag_eval_hooks.results.compare import compare
from rag_eval_hooks.results.diagnose import diagnose, select, worst
from rag_eval_hooks.results.gates import AlertSink, FailCondition, failed_conditions, regressed
from rag_eval_hooks.results.read import read, read_labels, to_frame
from rag_eval_hooks.results.report import ResultReport, as_json
from rag_eval_hooks.results.summary import summarise

__all__ = [
    "AlertSink",
    "FailCondition",
    "ResultReport",
    "as_json",
    "compare",
    "diagnose",
    "failed_conditions",
    "read",
    "read_labels",
    "regressed",
    "select",
    "summarise",
    "to_frame",
    "worst",
]
