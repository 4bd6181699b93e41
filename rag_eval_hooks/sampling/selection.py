"""The selection of metrics for a request."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Share, Shares, Traits, highest, position
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.metrics.metric import missing_inputs
from rag_eval_hooks.request import Request
from rag_eval_hooks.sample import Field, Sample, Status
from rag_eval_hooks.sampling.rules import (
    MetricNames,
    default_rates,
    first_match,
    rules_of,
    tail_rules,
    tail_scorer,
)
from rag_eval_hooks.score import Outcome, Outcomes

_REFERENCE: Final = "reference"  # sampling reason if feedback adds the missing reference


class Selection:
    """Chooses the metrics of a request by rates, rules and feedback. Thread-safe."""

    def __init__(
        self,
        config: RagEvalConfig,
        chosen: Sequence[Metric],
        known: Sequence[Metric],
        incidents: Incidents,
    ) -> None:
        names = MetricNames(chosen, known)
        self._metrics = chosen
        self._incidents = incidents
        self._rates = default_rates(config, names)
        rules = rules_of(config, names, self._rates)
        self._rules = [(rule, own) for rule, own in rules if rule.error is None]
        self._error_rules = [(rule, own) for rule, own in rules if rule.error is not None]
        tail = tail_rules(config, names)
        self._feedback_rules = [rule for rule in tail if rule.is_on_feedback]
        self.has_feedback_rules = bool(self._feedback_rules)
        self._sample_rules = [rule for rule in tail if not rule.is_on_feedback]
        self._scorer = tail_scorer(config, (*known, *chosen), incidents)

    @property
    def leaves_out(self) -> Callable[[str, Sequence[str], Mapping[str, Any]], bool] | None:
        """Return a function that samples requests at their start, or None.

        The function accepts sampling key, tags and metadata, and returns True to sample out the
        request. If a rule needs metadata that the request still lacks, the function returns False.

        If all rates are 1, or if a rule needs the finished request, return None.
        """
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
                return False
            traits = Traits(tags=tuple(tags), metadata=metadata)
            rates = first_match(self._rules, traits) or rates
        return not highest(rates).includes(position(key))

    def decide(self, request: Request) -> Decision | None:
        """Sample a finished request. If no rates apply to the request's status, return None."""
        try:
            rates = self._rates_of(request, request.traits)
        except Exception as error:  # noqa: BLE001 - metadata may contain any object
            self._incidents.report("rules", error)
            rates = self._rates_of(request, Traits)
        key = request.sampling_key or request.key
        return None if rates is None else Decision(position(key), rates)

    def _rates_of(self, request: Request, traits: Callable[[], Traits]) -> Shares | None:
        if request.status is Status.OK:
            return (first_match(self._rules, traits()) if self._rules else None) or self._rates
        if request.status is Status.ERROR and self._error_rules:
            return first_match(self._error_rules, traits())
        return None

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
        """Return the evaluation that feedback triggers (sample, decision, metric ids), or None.

        The sample contains the feedback's reference. The ids omit metrics whose inputs the sample
        lacks. A metric that a feedback rule chose has no inclusion probability. A sampled metric
        keeps its probability if it had no score only because the reference was missing.
        """
        with_reference = sample
        if feedback.reference is not None and sample.reference is None:
            with_reference = replace(sample, reference=feedback.reference)
        by_rule = {
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
        fed = shares.keys() - missing_inputs(self._metrics, with_reference).keys()
        return (with_reference, Decision(-1, shares), fed) if fed else None


def by_rates(outcomes: Outcomes, decision: Decision) -> dict[str, Outcome]:
    """Add each metric's inclusion probability and sampling reason to its outcome."""
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
