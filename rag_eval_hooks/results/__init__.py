"""Reads evaluation results, estimates means, compares runs and writes reports."""

from rag_eval_hooks.results.compare import Change, Comparison, compare
from rag_eval_hooks.results.diagnose import Cuts, Diagnosis, ScoreRule, diagnose, select, worst
from rag_eval_hooks.results.estimate import Estimate, mean_of, predicted_mean
from rag_eval_hooks.results.gates import AlertSink, FailCondition, failed_conditions, regressed
from rag_eval_hooks.results.read import Results, read, read_labels, to_frame
from rag_eval_hooks.results.report import as_json, comparison_as_json, make_report
from rag_eval_hooks.results.summary import (
    LabelledMean,
    MetricSummary,
    ResultGroup,
    labelled_means,
    summarise,
)

__all__ = [
    "AlertSink",
    "Change",
    "Comparison",
    "Cuts",
    "Diagnosis",
    "Estimate",
    "FailCondition",
    "LabelledMean",
    "MetricSummary",
    "ResultGroup",
    "Results",
    "ScoreRule",
    "as_json",
    "compare",
    "comparison_as_json",
    "diagnose",
    "failed_conditions",
    "labelled_means",
    "make_report",
    "mean_of",
    "predicted_mean",
    "read",
    "read_labels",
    "regressed",
    "select",
    "summarise",
    "to_frame",
    "worst",
]
