"""Classes for sampling decisions, and the rate limit."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
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
_SECONDS: Final = {"second": 1.0, "minute": 60.0}
_REMEMBERED: Final = 60.0  # seconds until a rejected request is forgotten
_PAID: Final = 0.1  # fraction of unrepresented rejections that an admitted request represents
_NOTHING: Final = 0.01


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


class RateLimit:
    """Limits the samples per second and per minute, with sliding windows. Thread-safe."""

    def __init__(
        self, limits: Mapping[str, int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._windows = [(_SECONDS[unit], deque[float](maxlen=n)) for unit, n in limits.items()]
        self.active = bool(limits)
        self._clock = clock
        self._lock = threading.Lock()
        self._share = AdmittedShare(clock)

    def admit(self) -> float | None:
        """Admit or reject a sample. Return None if the limit rejects the sample.

        For an admitted sample, return the estimated fraction of samples that the limit admits.
        """
        with self._lock:
            now = self._clock()
            admitted = all(
                len(times) != times.maxlen or times[0] <= now - span
                for span, times in self._windows
            )
            for _, times in self._windows if admitted else ():
                times.append(now)
        return self._share.count(admitted=admitted)


class AdmittedShare:
    """Estimates the fraction of requests that a limit admits. Thread-safe.

    An admitted request gets the weight 1 / fraction, to represent rejected requests, too.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._owed = self._since = 0.0

    def count(self, *, admitted: bool) -> float | None:
        with self._lock:
            now = self._clock()
            if self._owed < _NOTHING or now - self._since > _REMEMBERED:
                self._owed = 0.0
            if not admitted:
                self._owed, self._since = self._owed + 1.0, now
                return None
            paid = self._owed * _PAID
            self._owed -= paid
            return 1.0 / (1.0 + paid)
