"""Which interactions are evaluated, by which metrics, and how likely that was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from rag_eval_hooks.decision import Decision, Rates, Traits
from rag_eval_hooks.sampling.rules import Rule

__all__ = ["Sampler", "position"]


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
