"""All that decides whether and by which metrics an interaction is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Rates, Share, Traits
from rag_eval_hooks.evaluation.plan import missing_inputs
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import Field, Metric
from rag_eval_hooks.sample import Sample, Status
from rag_eval_hooks.sampling.rates import Names, sampler_of
from rag_eval_hooks.sampling.tail import tail_of
from rag_eval_hooks.score import Outcome, Outcomes
from rag_eval_hooks.work import Work

__all__ = ["Asked", "Selection", "by_feedback", "by_rates"]


@dataclass(frozen=True, slots=True)
class Asked:
    """Metrics to evaluate because of a feedback.

    Attributes:
        sample: With the feedback's reference, where it brings the first.
        reasons: By metric id.
        probabilities: Inclusion probability by metric id; None where the sampler had no part.
    """

    sample: Sample
    reasons: Mapping[str, str]
    probabilities: Mapping[str, float | None]


class Selection:
    """Sampler, rules, tail rules and rate limit of one pipeline. Thread-safe.

    Args:
        config: The settings.
        chosen: The metrics that are evaluated.
        known: All metrics that there are.
        incidents: Where exceptions of metrics, and of what rules look at, are counted.

    Raises:
        ConfigError: A setting names an unknown metric.
    """

    def __init__(
        self,
        config: RagEvalConfig,
        chosen: Sequence[Metric],
        known: Sequence[Metric],
        incidents: Incidents,
    ) -> None:
        names = Names(chosen, known)
        self._metrics = chosen
        self._incidents = incidents
        self._limits = config.rate_limit
        self._sampler = sampler_of(config, names)
        every = {metric.id: metric for metric in (*known, *chosen)}
        self._tail = tail_of(config, names, list(every.values()), incidents)

    @property
    def keeps_all(self) -> bool:
        """Whether a feedback can ask for an evaluation of what was not chosen."""
        return self._tail.heeds_feedback

    def decide(self, work: Work) -> Decision | None:
        """The decision about an ended interaction, or None: its status is not evaluated."""
        try:
            return self._decided(work, work.traits)
        except Exception as error:  # noqa: BLE001 - the host's edge: metadata holds its objects
            self._incidents.report("rules", error)
            return self._decided(work, Traits)

    def decided_before(self, work: Work, probability: float, reason: str) -> Decision:
        """The decision about a sample that an earlier process chose.

        It is made anew, with the share of then where a rate limit had a part in it. Where rates
        are others now, the likeliest metrics are evaluated at the probability of then. What no
        rule of now is about is evaluated as it was chosen then, by all metrics.

        Args:
            work: The sample.
            probability: Its inclusion probability then.
            reason: Why it was chosen then.
        """
        decision = self.decide(work)
        if decision is not None and self.is_open(work):
            return decision
        if decision is None:
            ids = (metric.id for metric in self._metrics)
            return Decision(0, Rates(dict.fromkeys(ids, Share(probability, reason))))
        if self._limits and decision.sampled and probability < decision.probability:
            return decision.admitted(probability / decision.probability)
        return decision.chosen_before(probability, reason)

    def _decided(self, work: Work, traits: Callable[[], Traits]) -> Decision | None:
        if work.status is Status.OK:
            return self._sampler.decide(work.key, traits)
        if work.status is Status.ERROR:
            return self._sampler.decide_error(work.key, traits)
        return None

    def is_open(self, work: Work) -> bool:
        """Whether the sample itself has to be looked at before the decision stands."""
        return self._tail.looks and work.status is Status.OK

    async def looked_at(self, sample: Sample, decision: Decision) -> Decision:
        """The decision that stands, once the sample was looked at."""
        return await self._tail.raised(sample, decision)

    def asked_by(
        self, feedback: Feedback, sample: Sample, decision: Decision, evaluated: Container[str]
    ) -> Asked | None:
        """Return what a feedback adds to the evaluation of a sample, or None for nothing.

        Args:
            feedback: The feedback.
            sample: The sample as it was evaluated.
            decision: The sampler's decision about it.
            evaluated: Ids of the metrics that need no further evaluation.
        """
        told = sample
        if feedback.reference is not None and sample.reference is None:
            told = replace(sample, reference=feedback.reference)
        by_rule = self._tail.asked_for(feedback, decision.position)
        reasons: dict[str, str] = dict.fromkeys(
            self._newly_fed(sample, told, decision), "reference"
        )
        reasons = {**by_rule, **reasons}
        reasons = {
            metric.id: reasons[metric.id]
            for metric in self._metrics
            if metric.id in reasons and metric.id not in evaluated
        }
        probabilities = {
            name: decision.probability_of(name) if reason == "reference" else None
            for name, reason in reasons.items()
        }
        return Asked(told, reasons, probabilities) if reasons else None

    def fed(self, asked: Asked) -> frozenset[str]:
        """Ids of the metrics asked for that the sample can feed: the others stay open."""
        return frozenset(asked.reasons) - frozenset(missing_inputs(self._metrics, asked.sample))

    def _newly_fed(self, sample: Sample, told: Sample, decision: Decision) -> Iterable[str]:
        if told is sample:
            return ()
        chosen = decision.chosen
        return (
            metric.id
            for metric in self._metrics
            if metric.id in chosen
            and Field.REFERENCE in metric.missing(sample)
            and not metric.missing(told)
        )


def by_rates(outcomes: Outcomes, decision: Decision) -> dict[str, Outcome]:
    """The outcomes with the probability and reason by which the sampler chose their metrics."""
    estimated = decision.admission is not None
    return {
        name: replace(
            outcome,
            probability=decision.probability_of(name) or None,
            probability_estimated=estimated,
            reason=decision.rates[name].reason,
        )
        for name, outcome in outcomes.items()
    }


def by_feedback(outcomes: Outcomes, asked: Asked, admission: float | None) -> dict[str, Outcome]:
    """The outcomes with the probability and reason by which a feedback asked for them."""
    return {
        name: replace(
            outcome,
            probability=_times(asked.probabilities[name], admission),
            probability_estimated=admission is not None,
            reason=asked.reasons[name],
        )
        for name, outcome in outcomes.items()
    }


def _times(probability: float | None, admission: float | None) -> float | None:
    return probability if probability is None or admission is None else probability * admission
