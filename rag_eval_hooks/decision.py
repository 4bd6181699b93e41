"""Sampling decisions, and the request properties and rates behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rag_eval_hooks.sample import Sample

__all__ = ["RATE_LIMIT", "RATIO", "SAMPLED_OUT", "Decision", "Rates", "Share", "Traits"]

RATE_LIMIT: Final = "rate_limit"
RATIO: Final = "ratio"
"""Sampling reason if a plain rate decides, without a rule."""
SAMPLED_OUT: Final = "sampled_out"
_RANGE: Final = 1 << 64


def _no_answer() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    question: str = ""
    answer: Callable[[], str | None] = _no_answer
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error_type: str | None = None
    latency: float | None = None

    @classmethod
    def of(cls, sample: Sample) -> Traits:
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
    """Inclusion probability of one metric, 0 to 1, and the rule that set it."""

    rate: float
    reason: str = RATIO

    def includes(self, position: int) -> bool:
        """Return whether this rate samples the key. Every higher rate does, too."""
        return position < round(self.rate * _RANGE)


_NEVER: Final = Share(0.0)


class Rates:
    """Inclusion probability of each metric. The highest applies to the sample."""

    __slots__ = ("highest", "shares")

    def __init__(self, shares: Mapping[str, Share]) -> None:
        self.shares = dict(shares)
        # Among equal rates, a rule's reason is more specific than the plain ratio.
        self.highest = max(
            self.shares.values(),
            key=lambda share: (share.rate, share.reason != RATIO),
            default=_NEVER,
        )

    def set(self, ids: Iterable[str], share: Share) -> Rates:
        return Rates({**self.shares, **dict.fromkeys(ids, share)})

    def raised(self, ids: Iterable[str], share: Share) -> Rates:
        return self.set((name for name in ids if self.shares[name].rate < share.rate), share)


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    position: int
    """Hash of the key, from 0 to below 2**64, or -1 if feedback requested the metrics."""
    rates: Rates
    admission: float | None = None
    """Estimated fraction of recently sampled requests that rate limit and queue admitted.

    None if neither applied.
    """

    @classmethod
    def asked(cls, rates: Rates) -> Decision:
        return cls(-1, rates)

    @property
    def chosen(self) -> frozenset[str]:
        shares = self.rates.shares.items()
        return frozenset(name for name, share in shares if share.includes(self.position))

    @property
    def sampled(self) -> bool:
        return self.rates.highest.includes(self.position)

    @property
    def probability(self) -> float:
        """Inclusion probability of the sample: the highest probability of its metrics."""
        return self.rates.highest.rate * self._admitted

    @property
    def because(self) -> str:
        """Source of the deciding rate: `ratio`, a rule or a tail rule."""
        return self.rates.highest.reason

    @property
    def reason(self) -> str:
        """Reason of the decision, or `sampled_out:<rule>` if a rule excluded the sample."""
        if self.sampled:
            return self.because
        return SAMPLED_OUT if self.because == RATIO else f"{SAMPLED_OUT}:{self.because}"

    @property
    def _admitted(self) -> float:
        return 1.0 if self.admission is None else self.admission

    def probability_of(self, metric_id: str) -> float:
        return self.rates.shares[metric_id].rate * self._admitted

    def admitted(self, share: float) -> Decision:
        """Multiply the probabilities by the fraction of requests that the limits admit."""
        return replace(self, admission=share * self._admitted)

    def raised(self, ids: Iterable[str], share: Share) -> Decision:
        return replace(self, rates=self.rates.raised(ids, share))

    def limited_to(self, ids: Iterable[str], other: Share = _NEVER) -> Decision:
        """Keep only these metrics. Metrics without a rate get `other`."""
        shares = {name: self.rates.shares.get(name, other) for name in ids}
        return replace(self, rates=Rates(shares))

    def to_dict(self) -> dict[str, Any]:
        names: dict[Share, list[str]] = {}
        for name, share in self.rates.shares.items():
            names.setdefault(share, []).append(name)
        shares = [[share.rate, share.reason, ids] for share, ids in names.items()]
        return {"position": self.position, "shares": shares, "admission": self.admission}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        shares = {
            name: Share(float(rate), str(reason))
            for rate, reason, names in data["shares"]
            for name in names
        }
        admission = None if data["admission"] is None else float(data["admission"])
        if not all(0.0 <= share.rate <= 1.0 for share in shares.values()):
            raise ValueError("rate")
        return cls(int(data["position"]), Rates(shares), admission)
