"""Sampling decisions as values: traits of a request, shares of metrics, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rag_eval_hooks.sample import Sample

__all__ = ["RATE_LIMIT", "RATIO", "SAMPLED_OUT", "Decision", "Rates", "Share", "Traits"]

SAMPLED_OUT: Final = "sampled_out"
"""Reason of a sample that its rate left out."""
RATIO: Final = "ratio"
"""Reason of a share that a plain rate sets, rather than a rule."""
RATE_LIMIT: Final = "rate_limit"
"""Reason of a sample that was chosen while the rate limit was exhausted."""
_RANGE: Final = 1 << 64


def _no_answer() -> None:
    """Stand in for the answer of a request that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Properties of an ended request that rules compare; cheap to read but for the answer.

    Attributes:
        question: The user's question.
        answer: Returns the answer or None; called only if a rule is about it.
        tags: Labels of the request.
        metadata: Free keys, with the user, session and question ids.
        error_type: Class name of the exception that ended the request, or None.
        latency: Duration in seconds, or None if it is unknown.
    """

    question: str = ""
    answer: Callable[[], str | None] = _no_answer
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error_type: str | None = None
    latency: float | None = None

    @classmethod
    def of(cls, sample: Sample) -> Traits:
        """Return the traits of a sample that exists already."""
        ids = {name: getattr(sample, name) for name in ("user_id", "session_id", "question_id")}
        return cls(
            question=sample.question,
            answer=lambda: sample.answer,
            tags=sample.tags,
            metadata={**sample.metadata, **{k: v for k, v in ids.items() if v is not None}},
            error_type=sample.error_type,
            latency=sample.latency,
        )


@dataclass(frozen=True, slots=True)
class Share:
    """Inclusion probability of a metric, with its reason.

    Attributes:
        rate: Probability, 0 to 1.
        reason: `ratio`, or the rule that set the rate, such as `rule:errors`.
    """

    rate: float
    reason: str = RATIO

    def includes(self, position: int) -> bool:
        """Return whether a key at this position is chosen.

        Choices are nested: a position that a lower rate includes is included by every higher one.
        """
        return position < round(self.rate * _RANGE)


class Rates:
    """Shares of all metrics.

    Args:
        shares: Share by metric id.
    """

    def __init__(self, shares: Mapping[str, Share]) -> None:
        self._shares = dict(shares)
        # Among equal rates a rule's reason is more specific than the plain ratio.
        self._falling = sorted(
            self._shares.values(), key=lambda share: (-share.rate, share.reason == RATIO)
        )

    def __getitem__(self, metric_id: str) -> Share:
        """Return the share of a metric."""
        return self._shares[metric_id]

    @property
    def shares(self) -> Mapping[str, Share]:
        """Share by metric id."""
        return self._shares

    @property
    def highest(self) -> Share:
        """Share that decides whether a sample is evaluated at all."""
        return self._falling[0] if self._falling else Share(0.0)

    def chosen(self, position: int) -> frozenset[str]:
        """Return the metrics that are evaluated for a key at this position."""
        return frozenset(name for name, share in self._shares.items() if share.includes(position))

    def set(self, ids: Iterable[str], share: Share) -> Rates:
        """Return the rates with another share for some metrics."""
        return Rates({**self._shares, **dict.fromkeys(ids, share)})

    def bounded(self, share: Share) -> Rates:
        """Return the rates with the likeliest metrics at this share, no other above its rate."""
        highest = self.highest.rate
        return Rates(
            {
                name: share if own.rate == highest else replace(own, rate=min(own.rate, share.rate))
                for name, own in self._shares.items()
            }
        )

    def raised(self, ids: Iterable[str], share: Share) -> Rates:
        """Return the rates with those of the metrics that lie below a share raised to it."""
        return self.set((name for name in ids if self._shares[name].rate < share.rate), share)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """Decision of the sampler about one key.

    Attributes:
        position: Hash of the key: a whole number in [0, 2**64).
        rates: Inclusion probability of each metric, given the traits of the request.
        admission: Share of chosen samples that passed rate limit and queue of late, an estimate;
            None without a limit or a full queue.
    """

    position: int
    rates: Rates
    admission: float | None = None

    @property
    def chosen(self) -> frozenset[str]:
        """Ids of the metrics to evaluate."""
        return self.rates.chosen(self.position)

    @property
    def sampled(self) -> bool:
        """True if any metric is evaluated."""
        return self.rates.highest.includes(self.position)

    @property
    def probability(self) -> float:
        """Inclusion probability of the sample: that of its likeliest metric."""
        return self.rates.highest.rate * self._admitted

    @property
    def because(self) -> str:
        """Origin of the deciding rate: `ratio`, a rule, or a tail rule."""
        return self.rates.highest.reason

    @property
    def reason(self) -> str:
        """Reason in a word; `sampled_out:<rule>` for a sample that a rule left out."""
        if self.sampled:
            return self.because
        return SAMPLED_OUT if self.because == RATIO else f"{SAMPLED_OUT}:{self.because}"

    def probability_of(self, metric_id: str) -> float:
        """Return the inclusion probability of one metric."""
        return self.rates[metric_id].rate * self._admitted

    def admitted(self, share: float) -> Decision:
        """Return the decision after the rate limit or the queue was passed.

        Args:
            share: Share of samples that pass it of late.
        """
        return replace(self, admission=share * self._admitted)

    def raised(self, ids: Iterable[str], share: Share) -> Decision:
        """Return the decision with higher rates for some metrics."""
        return replace(self, rates=self.rates.raised(ids, share))

    def limited_to(self, ids: Iterable[str]) -> Decision:
        """Return the decision about these metrics; those that it does not name are left out."""
        shares = {name: self.rates.shares.get(name, Share(0.0)) for name in ids}
        return replace(self, rates=Rates(shares))

    def chosen_before(self, probability: float, reason: str) -> Decision:
        """Return the decision about a key that was chosen earlier, possibly under other rates.

        The likeliest metrics are evaluated at the earlier probability. The others follow today's
        rates, within the set that was chosen earlier, because rates are nested.

        Args:
            probability: Inclusion probability of the sample when it was chosen.
            reason: Reason of that choice.
        """
        if probability == self.rates.highest.rate:
            return self
        position = max(0, min(self.position, round(probability * _RANGE) - 1))
        return replace(
            self, position=position, rates=self.rates.bounded(Share(probability, reason))
        )

    @property
    def _admitted(self) -> float:
        return 1.0 if self.admission is None else self.admission
