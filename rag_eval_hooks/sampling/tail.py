"""Tail rules: properties of the finished sample, or a feedback, raise the rates of metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_eval_hooks.config.rules import TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Share
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.collect import Sources, findings_read
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.metrics.example import example
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.rules import MetricNames
from rag_eval_hooks.score import Outcomes, Score
from rag_eval_hooks.text.refusals import refusal

__all__ = ["TailRule", "cheap_metrics", "tail_rules", "tail_scorer"]

_QUESTIONS = frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


@dataclass(frozen=True, slots=True)
class TailRule:
    """One rule.

    The conditions are deterministic, so a metric that a rule names has the rule's rate as its
    inclusion probability for every sample that meets the condition, even if the sampler would
    have chosen it anyway.
    """

    settings: TailSettings
    ids: tuple[str, ...]
    share: Share

    @property
    def is_on_feedback(self) -> bool:
        """True if its condition is about a feedback, false if about a sample."""
        return self.settings.metric is None and self.settings.dont_know is None

    def meets(self, sample: Sample, outcomes: Outcomes) -> bool:
        """Return whether a sample meets the condition, given the outcomes of cheap metrics."""
        if self.settings.dont_know:
            return refusal(sample.answer or "") is not None
        outcome = outcomes.get(self.settings.metric or "")
        if not isinstance(outcome, Score):
            return False
        below, above = self.settings.below, self.settings.above
        return (below is None or outcome.value < below) and (above is None or outcome.value > above)

    def meets_feedback(self, feedback: Feedback) -> bool:
        """Return whether a feedback meets the condition."""
        if self.settings.thumbs_down:
            return feedback.is_thumbs_down
        if self.settings.feedback_below is not None:
            return feedback.score is not None and feedback.score < self.settings.feedback_below
        pattern = self.settings.feedback_label or ""
        return feedback.label is not None and re.search(pattern, feedback.label) is not None


def tail_rules(config: RagEvalConfig, names: MetricNames) -> list[TailRule]:
    """Return the tail rules that the settings describe."""
    rules = []
    for number, one in enumerate(config.tail):
        ids = names.ids_of(f"tail[{number}].then", one.then)
        kind = "tail" if one.metric or one.dont_know else "feedback"
        what = one.name or one.metric or ("dont_know" if one.dont_know else None)
        what = what or ("thumbs_down" if one.thumbs_down else str(number + 1))
        rules.append(TailRule(one, ids, Share(one.rate, f"{kind}:{what}")))
    return rules


def tail_scorer(
    config: RagEvalConfig, known: Mapping[str, Metric], incidents: Incidents
) -> Scorer | None:
    """Return the heuristic judge's scorer of the metrics in conditions, or None without any.

    Raises:
        ConfigError: A rule compares an unknown metric, or a metric that needs a model.
    """
    asked = {one.metric: number for number, one in enumerate(config.tail) if one.metric}
    if not asked:
        return None
    from rag_eval_hooks.judges.heuristic import HeuristicJudge

    cheap = cheap_metrics(list(known.values()), incidents)
    for metric, number in asked.items():
        if metric not in cheap:
            raise ConfigError.unknown(f"tail[{number}].metric", metric, cheap)
    measured = [cheap[metric] for metric in asked]
    sources = Sources(judge=HeuristicJudge())
    return Scorer(measured, sources, config.sample_timeout, incidents, only_fed=False)


def cheap_metrics(metrics: Sequence[Metric], incidents: Incidents) -> dict[str, Metric]:
    """Return the metrics whose findings the local judge makes, by id."""
    from rag_eval_hooks.judges.heuristic import HeuristicJudge

    cheap = {}
    for metric in metrics:
        if isinstance(metric, AskedMetric):
            # It may call any service, and would do so for every request.
            continue
        lacking = findings_read(metric, *example(), incidents) - HeuristicJudge.makes
        # Without generated questions a metric may read another finding instead.
        if not (lacking if metric.reads is None else lacking - _QUESTIONS):
            cheap[metric.id] = metric
    return cheap
