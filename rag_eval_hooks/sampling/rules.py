"""Sampling rates, sampling rules and tail rules from the settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from rag_eval_hooks.config.rules import RuleSettings, TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Share, Shares, Traits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.collect import Sources, findings_read
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric, example
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Outcomes, Score
from rag_eval_hooks.text.refusals import refusal

Rules: TypeAlias = Sequence[tuple[RuleSettings, Shares]]

_SEARCHED: Final = 4000  # maximum number of characters of a text that a pattern searches
_QUESTIONS: Final = frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


class MetricNames:
    """Names of metrics and suites that settings may use.

    A setting may name a metric that the application did not choose. Such a name has no effect.
    """

    def __init__(self, chosen: Sequence[Metric], known: Sequence[Metric]) -> None:
        self.ids = tuple(metric.id for metric in chosen)
        self._known = {name for m in (*chosen, *known) for name in (m.id, m.suite)} | {"all"}

    def ids_of(self, field: str, names: Iterable[str]) -> list[str]:
        wanted = set(names)
        for name in wanted - self._known:
            raise ConfigError.unknown(field, name, self._known)
        return [id for id in self.ids if wanted & {"all", id, id.partition(".")[0]}]


def matches(rule: RuleSettings, traits: Traits) -> bool:
    return (
        all(tag in traits.tags for tag in rule.tags)
        and all(_has(traits.metadata, key, value) for key, value in rule.metadata.items())
        and _is_within(traits.latency, rule.latency_above, rule.latency_below)
        and _finds(rule.question, traits.question)
        and _finds("" if rule.error is True else rule.error, traits.error_type or "")
        and (rule.answer is None or _finds(rule.answer, traits.answer()))
    )


def _has(metadata: Mapping[str, Any], key: str, value: Any) -> bool:
    accepted = value if isinstance(value, list) else [value]
    return key in metadata and str(metadata[key]) in map(str, accepted)


def _is_within(latency: float | None, above: float | None, below: float | None) -> bool:
    if latency is None:
        return above is None and below is None
    return (above is None or latency >= above) and (below is None or latency < below)


def _finds(pattern: str | None, text: str | None) -> bool:
    if pattern is None:
        return True
    return text is not None and re.search(pattern, text[:_SEARCHED]) is not None


def first_match(rules: Rules, traits: Traits) -> Shares | None:
    return next((shares for rule, shares in rules if matches(rule, traits)), None)


def rules_of(config: RagEvalConfig, names: MetricNames, default: Shares) -> Rules:
    rules = []
    for number, settings in enumerate(config.rules, start=1):
        ids = names.ids_of(f"rules[{number - 1}].metrics", settings.metrics or ("all",))
        share = Share(settings.rate, f"rule:{settings.name or number}")
        # The default rates do not apply to failed requests.
        others = dict.fromkeys(names.ids, Share(0.0)) if settings.error else default
        rules.append((settings, {**others, **dict.fromkeys(ids, share)}))
    return rules


def default_rates(config: RagEvalConfig, names: MetricNames) -> Shares:
    shares = dict.fromkeys(names.ids, Share(config.sample_rate))
    # Apply suites first, so that a metric's rate overrides its suite's rate.
    for name in sorted(config.metric_rates, key=lambda name: (name != "all", "." in name)):
        share = Share(config.metric_rates[name])
        shares |= dict.fromkeys(names.ids_of("metric_rates", [name]), share)
    return shares


@dataclass(frozen=True, slots=True)
class TailRule:
    """Raises the rates of the metrics `ids` to `share.rate` if a sample meets the condition."""

    settings: TailSettings
    ids: Sequence[str]
    share: Share

    @property
    def is_on_feedback(self) -> bool:
        return self.settings.metric is None and self.settings.dont_know is None

    def meets(self, sample: Sample, outcomes: Outcomes) -> bool:
        if self.settings.dont_know:
            return refusal(sample.answer or "") is not None
        outcome = outcomes.get(self.settings.metric or "")
        if not isinstance(outcome, Score):
            return False
        below, above = self.settings.below, self.settings.above
        return (below is None or outcome.value < below) and (above is None or outcome.value > above)

    def meets_feedback(self, feedback: Feedback) -> bool:
        if self.settings.thumbs_down:
            return feedback.is_thumbs_down
        if self.settings.feedback_below is not None:
            return feedback.score is not None and feedback.score < self.settings.feedback_below
        pattern = self.settings.feedback_label or ""
        return feedback.label is not None and re.search(pattern, feedback.label) is not None


def tail_rules(config: RagEvalConfig, names: MetricNames) -> list[TailRule]:
    rules = []
    for number, one in enumerate(config.tail):
        subjects = {"dont_know": one.dont_know, "thumbs_down": one.thumbs_down}
        named = [one.name, one.metric, *(name for name, given in subjects.items() if given)]
        what = next(filter(None, named), str(number + 1))
        kind = "tail" if one.metric or one.dont_know else "feedback"
        ids = names.ids_of(f"tail[{number}].then", one.then)
        rules.append(TailRule(one, ids, Share(one.rate, f"{kind}:{what}")))
    return rules


def tail_scorer(
    config: RagEvalConfig, known: Iterable[Metric], incidents: Incidents
) -> Scorer | None:
    """Return a heuristic scorer for metrics in tail rules. If no rule has a metric, return None."""
    asked = {one.metric: number for number, one in enumerate(config.tail) if one.metric}
    if not asked:
        return None
    from rag_eval_hooks.judges.heuristic.judge import HeuristicJudge

    cheap = {one.id: one for one in known if _needs_only(HeuristicJudge.makes, one, incidents)}
    for metric, number in asked.items():
        if metric not in cheap:
            raise ConfigError.unknown(f"tail[{number}].metric", metric, cheap)
    measured, sources = [cheap[metric] for metric in asked], Sources(judge=HeuristicJudge())
    return Scorer(measured, sources, config.sample_timeout, incidents, only_fed=False)


def _needs_only(made: frozenset[Finding], metric: Metric, incidents: Incidents) -> bool:
    if isinstance(metric, AskedMetric):
        # The metric may call an expensive service.
        return False
    lacking = findings_read(metric, *example(), incidents) - made
    # Without generated questions, a metric may read a different finding instead.
    return not (lacking if metric.reads is None else lacking - _QUESTIONS)
