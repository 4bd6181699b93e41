"""Which interactions are evaluated, by which metrics, and how likely that was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rag_eval_hooks.sampling.rules import Rule, Traits

__all__ = ["RATIO", "SAMPLED_OUT", "Decision", "Rates", "Sampler", "Share", "position"]

SAMPLED_OUT: Final = "sampled_out"
RATIO: Final = "ratio"
_RANGE: Final = 1 << 64


def position(key: str, salt: str = "rag-eval") -> int:
    """Where a key stands among all keys: a whole number in [0, 2**64), uniformly spread.

    The same in every process. The key is hashed with a salt, so the place is independent of any
    tracing sampler that compares trace ids with a threshold.

    Args:
        key: A trace id, or a sample id where no trace is recorded.
        salt: Text that separates this place from others by the same keys.
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=salt.encode()).digest()
    return int.from_bytes(digest, "big")


@dataclass(frozen=True, slots=True)
class Share:
    """How likely a metric is evaluated, and why.

    Attributes:
        rate: Inclusion probability, 0 to 1.
        reason: Why, in a word.
    """

    rate: float
    reason: str = RATIO

    def holds(self, place: int) -> bool:
        """Whether a key at this place is chosen; whatever a lower rate chooses, this one does."""
        return place < round(self.rate * _RANGE)


class Rates:
    """The share of every metric.

    Args:
        shares: By metric id.
    """

    def __init__(self, shares: Mapping[str, Share]) -> None:
        self._shares = dict(shares)
        # Of equal rates the one that says more than the ratio.
        self._falling = sorted(
            self._shares.values(), key=lambda share: (-share.rate, share.reason == RATIO)
        )

    def __getitem__(self, metric_id: str) -> Share:
        """The share of a metric."""
        return self._shares[metric_id]

    @property
    def highest(self) -> Share:
        """The share that decides whether a sample is evaluated at all."""
        return self._falling[0] if self._falling else Share(0.0)

    def chosen(self, place: int) -> frozenset[str]:
        """The metrics that are evaluated for a key at this place."""
        return frozenset(name for name, share in self._shares.items() if share.holds(place))

    def set(self, ids: Iterable[str], share: Share) -> Rates:
        """The rates with another share for some metrics."""
        return Rates({**self._shares, **dict.fromkeys(ids, share)})

    def bounded(self, share: Share) -> Rates:
        """The likeliest metrics at exactly this share, the others at most at its rate."""
        highest = self.highest.rate
        told = {
            name: share if own.rate == highest else replace(own, rate=min(own.rate, share.rate))
            for name, own in self._shares.items()
        }
        return Rates(told)

    def raised(self, ids: Iterable[str], share: Share) -> Rates:
        """The rates, raised to a share for those of the metrics that are below it."""
        return self.set((name for name in ids if self._shares[name].rate < share.rate), share)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A sampler's answer.

    Attributes:
        place: Where the sample's key stands among all keys.
        rates: Inclusion probability of each metric, given the sample's features.
        admission: Share of chosen samples that the rate limit let through of late, an estimate;
            None without a rate limit.
    """

    place: int
    rates: Rates
    admission: float | None = None

    @property
    def chosen(self) -> frozenset[str]:
        """Ids of the metrics to evaluate."""
        return self.rates.chosen(self.place)

    @property
    def sampled(self) -> bool:
        """Whether to evaluate any metric."""
        return self.rates.highest.holds(self.place)

    @property
    def probability(self) -> float:
        """Inclusion probability of the sample: that of its likeliest metric."""
        return self.rates.highest.rate * self._admitted

    @property
    def because(self) -> str:
        """What set the rate by which it was chosen or not: `ratio`, a rule, a tail rule."""
        return self.rates.highest.reason

    @property
    def reason(self) -> str:
        """Why it was chosen or not, in a word; `sampled_out:<rule>` where a rule left it out."""
        if self.sampled:
            return self.because
        return SAMPLED_OUT if self.because == RATIO else f"{SAMPLED_OUT}:{self.because}"

    def probability_of(self, metric_id: str) -> float:
        """Inclusion probability of one metric."""
        return self.rates[metric_id].rate * self._admitted

    def admitted(self, share: float | None) -> Decision:
        """The decision after a rate limit let it through.

        Args:
            share: What the limit lets through at present, or None without a limit.
        """
        return replace(self, admission=share)

    def raised(self, ids: Iterable[str], share: Share) -> Decision:
        """The decision with higher rates for some metrics."""
        return replace(self, rates=self.rates.raised(ids, share))

    def chosen_before(self, probability: float, reason: str) -> Decision:
        """The decision, about a key that was chosen when rates may have been others.

        It was chosen for the likeliest metrics, so these are evaluated, at the probability of
        then. The others are by their rates of now: of those that were chosen then, as rates nest.

        Args:
            probability: Of the sample, then.
            reason: The same.
        """
        if probability == self.rates.highest.rate:
            return self
        place = max(0, min(self.place, round(probability * _RANGE) - 1))
        return replace(self, place=place, rates=self.rates.bounded(Share(probability, reason)))

    @property
    def _admitted(self) -> float:
        return 1.0 if self.admission is None else self.admission


class Sampler:
    """Decides by a hash of the key, by rates for each metric, and by rules. Thread-safe.

    The same key gets the same decision in every process with the same settings, and what a lower
    rate chooses, every higher rate chooses too: metrics with different rates are nested.

    Args:
        rates: Where no rule fits.
        rules: With their rates; the first that fits counts.
        salt: Text that separates this choice from others by the same keys.
    """

    def __init__(
        self, rates: Rates, rules: Sequence[tuple[Rule, Rates]] = (), salt: str = "rag-eval"
    ) -> None:
        self._rates = rates
        self._rules = [(rule, own) for rule, own in rules if not rule.about_errors]
        self._error_rules = [(rule, own) for rule, own in rules if rule.about_errors]
        self._salt = salt

    def decide(self, key: str, traits: Callable[[], Traits]) -> Decision:
        """The decision about an interaction that ended well.

        Args:
            key: A trace id, or a sample id where no trace is recorded.
            traits: Tells what rules go by; called only if there are rules.
        """
        fitting = self._first(self._rules, traits)
        return Decision(position(key, self._salt), self._rates if fitting is None else fitting)

    def decide_error(self, key: str, traits: Callable[[], Traits]) -> Decision | None:
        """The decision about one that ended with an exception, or None: no rule is about it."""
        fitting = self._first(self._error_rules, traits)
        return None if fitting is None else Decision(position(key, self._salt), fitting)

    def _first(
        self, rules: Sequence[tuple[Rule, Rates]], traits: Callable[[], Traits]
    ) -> Rates | None:
        if not rules:
            return None
        told = traits()
        return next((rates for rule, rates in rules if rule.fits(told)), None)
