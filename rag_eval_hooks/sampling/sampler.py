"""Sampler: rates and rules from the settings, decisions by a hash of the key."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Decision, Rates, Share, Traits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric

__all__ = ["MetricNames", "Sampler", "matches", "position", "sampler_of"]

_SALT: Final = b"rag-eval"
_SEARCHED: Final = 4000
"""Characters in which patterns are searched: a long text must not delay its request."""


def position(key: str) -> int:
    """Return the position of a key: a whole number in [0, 2**64), uniformly distributed.

    Every process computes the same position. The hash is salted, so it is independent of tracing
    samplers that compare trace ids with a threshold.
    """
    text = key.encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=_SALT).digest(), "big")


class MetricNames:
    """Names of metrics and suites in settings.

    A known metric that is not chosen is a valid name for no metric, so that one file of settings
    serves several choices.
    """

    def __init__(self, chosen: Sequence[Metric], known: Sequence[Metric]) -> None:
        self.ids = tuple(metric.id for metric in chosen)
        self._known = {name for m in (*chosen, *known) for name in (m.id, m.suite)} | {"all"}

    def ids_of(self, field: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return the ids of the chosen metrics that names stand for.

        Raises:
            ConfigError: A name is unknown.
        """
        wanted = set(names)
        for name in wanted - self._known:
            raise ConfigError.unknown(field, name, self._known)
        return tuple(
            name
            for name in self.ids
            if not wanted.isdisjoint(("all", name, name.partition(".")[0]))
        )


def matches(rule: RuleSettings, traits: Traits) -> bool:
    """Return whether a request meets all conditions of a rule."""
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


def _needs_end(rule: RuleSettings) -> bool:
    """Return whether a rule compares something unknown at the start of a request."""
    late = (rule.question, rule.answer, rule.latency_above, rule.latency_below, rule.error)
    return any(value is not None for value in late)


class Sampler:
    """Decides by a hash of the key, by the rate of each metric, and by rules. Thread-safe.

    A key gets the same decision in every process with the same settings.

    Args:
        rates: Rates of requests that no rule matches.
        rules: Rules with their rates; the first that matches counts.
    """

    def __init__(self, rates: Rates, rules: Sequence[tuple[RuleSettings, Rates]] = ()) -> None:
        self._rates = rates
        self._rules = [(rule, own) for rule, own in rules if rule.error is None]
        self._error_rules = [(rule, own) for rule, own in rules if rule.error is not None]

    def decide(self, key: str, traits: Callable[[], Traits]) -> Decision:
        """Decide about a request without an exception; `traits` is called only for rules."""
        rates = self._rates
        if self._rules:
            rates = _first(self._rules, traits()) or rates
        return Decision(position(key), rates)

    def decide_error(self, key: str, traits: Callable[[], Traits]) -> Decision | None:
        """Decide about a request that ended with an exception; None if no rule is about it."""
        rates = _first(self._error_rules, traits()) if self._error_rules else None
        return None if rates is None else Decision(position(key), rates)

    @property
    def decides_at_start(self) -> bool:
        """True if nothing after a request's start changes a decision that may leave it out."""
        rules = [*self._rules, *self._error_rules]
        rates = [self._rates, *(own for _, own in rules)]
        can_leave_out = any(
            max((share.rate for share in one.shares.values()), default=1.0) < 1.0 for one in rates
        )
        return can_leave_out and not any(_needs_end(rule) for rule, _ in rules)

    def leaves_out(self, key: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
        """Return whether a request that starts will not be sampled, whatever comes.

        False where a rule compares metadata that the request does not have yet.
        """
        if not all(rule.metadata.keys() <= metadata.keys() for rule, _ in self._rules):
            return False
        traits = Traits(tags=tuple(tags), metadata=metadata)
        return not self.decide(key, lambda: traits).sampled


def _first(rules: Sequence[tuple[RuleSettings, Rates]], traits: Traits) -> Rates | None:
    return next((rates for rule, rates in rules if matches(rule, traits)), None)


def sampler_of(config: RagEvalConfig, names: MetricNames) -> Sampler:
    """Return the sampler that the settings describe.

    Raises:
        ConfigError: A rate or rule names an unknown metric.
    """
    default = _default_rates(config, names)
    rules = []
    for number, settings in enumerate(config.rules, start=1):
        ids = names.ids_of(f"rules[{number - 1}].metrics", settings.metrics or ("all",))
        share = Share(settings.rate, f"rule:{settings.name or number}")
        # A failed request has no default rate: only metrics that the rule names are evaluated.
        others = Rates(dict.fromkeys(names.ids, Share(0.0))) if settings.error else default
        rules.append((settings, others.set(ids, share)))
    return Sampler(default, rules)


def _default_rates(config: RagEvalConfig, names: MetricNames) -> Rates:
    rates = Rates(dict.fromkeys(names.ids, Share(config.sample_rate)))
    # Suites first, so that the rate of a single metric overrides its suite's.
    by_name = sorted(
        config.metric_rates.items(), key=lambda item: (item[0] != "all", "." in item[0])
    )
    for name, rate in by_name:
        rates = rates.set(names.ids_of("metric_rates", [name]), Share(rate))
    return rates
