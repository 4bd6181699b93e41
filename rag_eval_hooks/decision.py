"""Sampling decisions, with the rates and request properties that determine the decisions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from rag_eval_hooks.sample import Sample

RATE_LIMIT: Final = "rate_limit"
RATIO: Final = "ratio"
SAMPLED_OUT: Final = "sampled_out"
_RANGE: Final = 1 << 64
_SALT: Final = b"rag-eval"


def position(key: str) -> int:
    # Tracing samplers also decide by trace id. The salt makes our decisions independent.
    text = key.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=_SALT).digest(), "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    question: str = ""
    answer: Callable[[], str | None] = lambda: None
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


class Share(NamedTuple):
    rate: float  # inclusion probability of a metric, 0 to 1
    reason: str = RATIO  # rule that set the rate

    def includes(self, position: int) -> bool:
        return position < round(self.rate * _RANGE)


Shares: TypeAlias = Mapping[str, Share]
_NEVER: Final = Share(0.0)


def highest(shares: Shares) -> Share:
    # If two rates are equal, `rule:...` and `tail:...` take precedence over `ratio`.
    return max(shares.values(), default=_NEVER)


@dataclass(frozen=True, eq=False)
class Decision:
    position: int  # hash of the request's key, or -1 if feedback requested the metrics
    shares: Shares
    admission: float | None = None  # estimated fraction that rate limit and queue admitted

    @property
    def chosen(self) -> frozenset[str]:
        shares = self.shares.items()
        return frozenset([name for name, share in shares if share.includes(self.position)])

    @cached_property
    def top(self) -> Share:
        return highest(self.shares)

    @cached_property
    def sampled(self) -> bool:
        return self.top.includes(self.position)

    @property
    def probability(self) -> float:
        return self.top.rate * self.admitted_share

    @cached_property
    def reason(self) -> str:
        if self.sampled:
            return self.top.reason
        return SAMPLED_OUT if self.top.reason == RATIO else f"{SAMPLED_OUT}:{self.top.reason}"

    @property
    def admitted_share(self) -> float:
        return 1.0 if self.admission is None else self.admission

    def admitted(self, share: float) -> Decision:
        return replace(self, admission=share * self.admitted_share)

    def raised(self, ids: Iterable[str], share: Share) -> Decision:
        raised = {name: share for name in ids if self.shares[name].rate < share.rate}
        return replace(self, shares={**self.shares, **raised})

    def limited_to(self, ids: Iterable[str], other: Share = _NEVER) -> Decision:
        return replace(self, shares={name: self.shares.get(name, other) for name in ids})

    def to_dict(self) -> dict[str, Any]:
        shares = dict(self.shares)
        return {"position": self.position, "shares": shares, "admission": self.admission}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        rows = data["shares"].items()
        shares = {name: Share(float(rate), str(reason)) for name, (rate, reason) in rows}
        admission = None if data["admission"] is None else float(data["admission"])
        if not all(0.0 <= share.rate <= 1.0 for share in shares.values()):
            raise ValueError("A stored rate is outside 0 to 1.")
        return cls(int(data["position"]), shares, admission)
