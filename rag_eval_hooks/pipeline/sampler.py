"""Which interactions are evaluated."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

__all__ = ["Decision", "RatioSampler"]

_RANGE = 1 << 64


@dataclass(frozen=True, slots=True)
class Decision:
    """A sampler's answer.

    Attributes:
        sampled: Whether to evaluate.
        probability: Inclusion probability of this sample, 0 to 1; weighs its scores.
        reason: Why, in a word.
    """

    sampled: bool
    probability: float
    reason: str


class RatioSampler:
    """Samples a share of all keys, consistently.

    The same key gets the same decision in every process, and the samples of a lower rate are a
    subset of those of a higher one. The key is hashed with a salt, so the choice is independent
    of any tracing sampler that compares trace ids with a threshold.

    Args:
        rate: Share to evaluate, 0 to 1.
        salt: Text that separates this choice from others by the same keys.
    """

    def __init__(self, rate: float, salt: str = "rag-eval") -> None:
        self._rate = rate
        self._bound = round(rate * _RANGE)
        self._salt = salt.encode()

    def decide(self, key: str) -> Decision:
        """The decision for a trace id, or for a sample id where no trace is recorded."""
        digest = hashlib.blake2b(key.encode(), digest_size=8, key=self._salt).digest()
        sampled = int.from_bytes(digest, "big") < self._bound
        return Decision(sampled, self._rate, "ratio" if sampled else "sampled_out")
