"""The selection of metrics for a request, by sampling rates, rules and feedback."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from rag_eval_hooks.config.rules import RuleSettings, TailSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Share, Shares, Traits, highest, position
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.evaluation.collect import Sources, findings_read
from rag_eval_hooks.evaluation.scorer import Scorer
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.findings import Finding
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import AskedMetric, Metric, example
from rag_eval_hooks.metrics.metric import missing_inputs
from rag_eval_hooks.request import Request
from rag_eval_hooks.sample import Field, Sample, Status
from rag_eval_hooks.score import Outcome, Outcomes, Score
from rag_eval_hooks.text.refusals import refusal

_REFERENCE: Final = "reference"  # sampling reason if feedback adds the missing reference
_SEARCHED: Final = 4000  # maximum number of characters of a text that a pattern searches
_QUESTIONS: Final = frozenset({Finding.QUESTIONS, Finding.QUESTION_SIMILARITY})


class Selection:
    """Chooses the metrics to compute for a request. Thread-safe."""

    def __init__(
        self,
        config: RagEvalConfig,
        chosen: Sequence[Metric],
        known: Sequence[Metric],
        incidents: Incidents,
    ) -> None:
        self._metrics = chosen
        # A setting may name a known metric that the application did not choose, without effect.
        self._known = {name for m in (*chosen, *known) for name in (m.id, m.suite)} | {"all"}
        self._incidents = incidents
        self._rates = self._default_rates(config)
        rules = [self._rule(number, rule) for number, rule in enumerate(config.rules, start=1)]
        self._rules = [(rule, own) for rule, own in rules if rule.error is None]
        self._error_rules = [(rule, own) for rule, own in rules if rule.error is not None]
        tail = [self._tail_rule(number, rule) for number, rule in enumerate(config.tail)]
        self._feedback_rules = [rule for rule in tail if rule.is_on_feedback]
        self.has_feedback_rules = bool(self._feedback_rules)
        self._sample_rules = [rule for rule in tail if not rule.is_on_feedback]
        self._scorer = tail_scorer(config, (*known, *chosen), incidents)

    def _ids(self, field: str, names: Iterable[str]) -> list[str]:
        wanted, ids = set(names), [metric.id for metric in self._metrics]
        for name in wanted - self._known:
            raise ConfigError.unknown(field, name, self._known)
        return [id for id in ids if wanted & {"all", id, id.partition(".")[0]}]

    def _default_rates(self, config: RagEvalConfig) -> Shares:
        shares = {metric.id: Share(config.sample_rate) for metric in self._metrics}
        # Apply suites first, so that a metric's rate overrides its suite's rate.
        for name in sorted(config.metric_rates, key=lambda name: (name != "all", "." in name)):
            ids = self._ids("metric_rates", [name])
            shares |= dict.fromkeys(ids, Share(config.metric_rates[name]))
        return shares

    def _rule(self, number: int, rule: RuleSettings) -> tuple[RuleSettings, Shares]:
        ids = self._ids(f"rules[{number - 1}].metrics", rule.metrics or ("all",))
        share = Share(rule.rate, f"rule:{rule.name or number}")
        # The default rates do not apply to failed requests.
        others = dict.fromkeys(self._rates, Share(0.0)) if rule.error else self._rates
        return rule, {**others, **dict.fromkeys(ids, share)}

    def _tail_rule(self, number: int, one: TailSettings) -> TailRule:
        subjects = {"dont_know": one.dont_know, "thumbs_down": one.thumbs_down}
        named = [one.name, one.metric, *(name for name, given in subjects.items() if given)]
        what = next(filter(None, named), str(number + 1))
        kind = "tail" if one.metric or one.dont_know else "feedback"
        ids = self._ids(f"tail[{number}].then", one.then)
        return TailRule(one, ids, Share(one.rate, f"{kind}:{what}"))

    @property
    def leaves_out(self) -> Callable[[str, Sequence[str], Mapping[str, Any]], bool] | None:
        # Decide at a request's start only if no rule needs data that arrive later.
        rules = [*self._rules, *self._error_rules]
        late = ("question", "answer", "latency_above", "latency_below", "error")
        if self._sample_rules or self._feedback_rules:
            return None
        if any(getattr(rule, name) is not None for rule, _ in rules for name in late):
            return None
        rates = (self._rates, *(own for _, own in rules))
        # If no metrics are chosen, count all requests and sample none.
        if all(not one or highest(one).rate == 1.0 for one in rates):
            return None
        return self._leaves_out

    def _leaves_out(self, key: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
        rates = self._rates
        if self._rules:
            if not all(rule.metadata.keys() <= metadata.keys() for rule, _ in self._rules):
                # The request may get this metadata later.
                return False
            traits = Traits(tags=tuple(tags), metadata=metadata)
            rates = _first_match(self._rules, traits) or rates
        return not highest(rates).includes(position(key))

    def decide(self, request: Request) -> Decision | None:
        is_ok = request.status is Status.OK
        rules = self._rules if is_ok else self._error_rules
        rates = self._rates if is_ok else None
        if rules and request.status in (Status.OK, Status.ERROR):
            try:
                rates = _first_match(rules, request.traits()) or rates
            except Exception as error:  # noqa: BLE001 - metadata may contain any object
                self._incidents.report("rules", error)
                rates = _first_match(rules, Traits()) or rates
        key = request.sampling_key or request.key
        return None if rates is None else Decision(position(key), rates)

    def is_open(self, request: Request) -> bool:
        return bool(self._sample_rules) and request.status is Status.OK

    async def decide_after_sample(self, sample: Sample, decision: Decision) -> Decision:
        outcomes = {} if self._scorer is None else await self._scorer.score(sample)
        for rule in self._sample_rules:
            if rule.meets(sample, outcomes):
                decision = decision.raised(rule.ids, rule.share)
        return decision

    def asked_by(
        self, feedback: Feedback, sample: Sample, decision: Decision, evaluated: Container[str]
    ) -> tuple[Sample, Decision, Set[str]] | None:
        with_reference = sample
        if feedback.reference is not None and sample.reference is None:
            with_reference = replace(sample, reference=feedback.reference)
        by_rule = {
            # Rate 0, because the metric has no inclusion probability.
            name: Share(0.0, rule.share.reason)
            for rule in self._feedback_rules
            if rule.meets_feedback(feedback) and rule.share.includes(decision.position)
            for name in rule.ids
        }
        chosen = decision.chosen if with_reference is not sample else ()
        by_reference = {
            metric.id: Share(decision.shares[metric.id].rate * decision.admitted_share, _REFERENCE)
            for metric in self._metrics
            if metric.id in chosen
            and Field.REFERENCE in metric.missing(sample)
            and not metric.missing(with_reference)
        }
        shares = {k: v for k, v in (by_rule | by_reference).items() if k not in evaluated}
        # ids of the metrics whose required fields are present
        fed = shares.keys() - missing_inputs(self._metrics, with_reference).keys()
        return (with_reference, Decision(-1, shares), fed) if fed else None


def with_sampling(outcomes: Outcomes, decision: Decision) -> dict[str, Outcome]:
    estimated = decision.admission is not None
    admitted, shares = decision.admitted_share, decision.shares
    return {
        name: replace(
            outcome,
            probability=shares[name].rate * admitted or None,
            probability_estimated=estimated,
            reason=shares[name].reason,
        )
        for name, outcome in outcomes.items()
        if name in shares
    }


def _first_match(rules: Sequence[tuple[RuleSettings, Shares]], traits: Traits) -> Shares | None:
    return next((shares for rule, shares in rules if matches(rule, traits)), None)


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


@dataclass(frozen=True, slots=True)
class TailRule:
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


def tail_scorer(
    config: RagEvalConfig, known: Iterable[Metric], incidents: Incidents
) -> Scorer | None:
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
