"""Tail rules: properties of the finished sample raise the rates of metrics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_eval_hooks.config.rules import TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Share
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.collect_findings import findings_read
from rag_eval_hooks.evaluation.finding_sources import Sources
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric
from rag_eval_hooks.metrics.example import FINDINGS, SAMPLE
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.sampling.sampler import MetricNames
from rag_eval_hooks.score import Outcomes, Score
from rag_eval_hooks.text.refusals import refusal

__all__ = ["Tail", "tail_of"]

_QUESTIONS = frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


@dataclass(frozen=True, slots=True)
class _TailRule:
    settings: TailSettings
    ids: tuple[str, ...]
    share: Share

    def meets(self, sample: Sample, outcomes: Outcomes) -> bool:
        """Return whether a sample meets the condition."""
        if self.settings.dont_know:
            return refusal(sample.answer or "") is not None
        outcome = outcomes.get(self.settings.metric or "")
        if not isinstance(outcome, Score):
            return False
        below, above = self.settings.below, self.settings.above
        return (below is None or outcome.value < below) and (above is None or outcome.value > above)


class Tail:
    """Tail rules on samples and on feedback.

    The embedded judge measures every sample, without network. The conditions are deterministic, so
    a metric that a rule names has the rule's rate as its inclusion probability for every sample
    that meets the condition, even if the sampler would have chosen it anyway.
    """

    def __init__(self, rules: Sequence[_TailRule], scorer: Scorer | None) -> None:
        self._feedback_rules = [rule for rule in rules if _is_on_feedback(rule.settings)]
        self._rules = [rule for rule in rules if not _is_on_feedback(rule.settings)]
        self._scorer = scorer

    @property
    def has_sample_rules(self) -> bool:
        """True if every sample has to be measured."""
        return bool(self._rules)

    @property
    def has_feedback_rules(self) -> bool:
        """True if a feedback can ask for an evaluation of a sample that was not chosen."""
        return bool(self._feedback_rules)

    async def apply(self, sample: Sample, decision: Decision) -> Decision:
        """Return the decision with the rates that rules on the sample raise."""
        if not self._rules:
            return decision
        outcomes = {} if self._scorer is None else await self._scorer.score(sample)
        for rule in self._rules:
            if rule.meets(sample, outcomes):
                decision = decision.raised(rule.ids, rule.share)
        return decision

    def asked_for(self, feedback: Feedback, position: int) -> dict[str, str]:
        """Return the metrics that a feedback asks for, with the reason."""
        return {
            name: rule.share.reason
            for rule in self._feedback_rules
            if _meets(rule.settings, feedback) and rule.share.includes(position)
            for name in rule.ids
        }


def tail_of(
    config: RagEvalConfig, names: MetricNames, known: Sequence[Metric], incidents: Incidents
) -> Tail:
    """Return the tail rules that the settings describe.

    Raises:
        ConfigError: A rule names an unknown metric, or compares one that needs a model.
    """
    rules = [_rule(number, settings, names) for number, settings in enumerate(config.tail)]
    looked_at = _looked_at(config.tail, [m for m in known if _is_cheap(m, incidents)])
    scorer = None
    if looked_at:
        from rag_eval_hooks.judges.heuristic import LocalJudge

        sources = Sources(judge=LocalJudge())
        scorer = Scorer(looked_at, sources, config.sample_timeout, incidents, only_fed=False)
    return Tail(rules, scorer)


def _rule(number: int, settings: TailSettings, names: MetricNames) -> _TailRule:
    kind = "feedback" if _is_on_feedback(settings) else "tail"
    what = settings.name or settings.metric or ("dont_know" if settings.dont_know else None)
    what = what or ("thumbs_down" if settings.thumbs_down else str(number + 1))
    ids = names.ids_of(f"tail[{number}].then", settings.then)
    return _TailRule(settings, ids, Share(settings.rate, f"{kind}:{what}"))


def _looked_at(rules: Sequence[TailSettings], known: Sequence[Metric]) -> list[Metric]:
    cheap = {metric.id: metric for metric in known}
    looked_at: dict[str, Metric] = {}
    for number, settings in enumerate(rules):
        if settings.metric is not None:
            if settings.metric not in cheap:
                raise ConfigError.unknown(f"tail[{number}].metric", settings.metric, cheap)
            looked_at[settings.metric] = cheap[settings.metric]
    return list(looked_at.values())


def _is_cheap(metric: Metric, incidents: Incidents) -> bool:
    """Return whether the local judge makes all findings that the metric reads."""
    if isinstance(metric, AskedMetric):
        # It may call any service, and would do so for every request.
        return False
    from rag_eval_hooks.judges.heuristic import LocalJudge

    lacking = findings_read(metric, SAMPLE, FINDINGS, incidents) - LocalJudge.makes
    # Without generated questions a metric may read another finding instead.
    return not (lacking if metric.reads is None else lacking - _QUESTIONS)


def _is_on_feedback(settings: TailSettings) -> bool:
    return settings.metric is None and settings.dont_know is None


def _meets(settings: TailSettings, feedback: Feedback) -> bool:
    if settings.thumbs_down:
        return feedback.is_thumbs_down
    if settings.feedback_below is not None:
        return feedback.score is not None and feedback.score < settings.feedback_below
    pattern = settings.feedback_label or ""
    return feedback.label is not None and re.search(pattern, feedback.label) is not None
