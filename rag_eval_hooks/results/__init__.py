"""Results: read them, estimate from them, compare and report them."""

from rag_eval_hooks.results.comparison import Change, Comparison, compare
from rag_eval_hooks.results.diagnosis import Cuts, Diagnosis, ScoreRule, diagnose
from rag_eval_hooks.results.estimate import Estimate, mean_of, predicted_mean, share_of
from rag_eval_hooks.results.labels import LabelledMean, labelled_means, read_labels
from rag_eval_hooks.results.ranking import select, worst
from rag_eval_hooks.results.read import ResultRow, Results, read, to_frame
from rag_eval_hooks.results.summary import MetricSummary, ResultGroup, summarise

__all__ = [
    "Change",
    "Comparison",
    "Cuts",
    "Diagnosis",
    "Estimate",
    "LabelledMean",
    "MetricSummary",
    "ResultGroup",
    "ResultRow",
    "Results",
    "ScoreRule",
    "compare",
    "diagnose",
    "labelled_means",
    "mean_of",
    "predicted_mean",
    "read",
    "read_labels",
    "select",
    "share_of",
    "summarise",
    "to_frame",
    "worst",
]
