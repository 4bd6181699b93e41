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

__all__ = ["MetricNames", "RequestRule", "Sampler", "position", "sampler_of"]

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


class RequestRule:
    """Conditions of one rule."""

    def __init__(self, settings: RuleSettings) -> None:
        self._settings = settings
        self._tags = frozenset(settings.tags)
        self._question = _compiled(settings.question)
        self._answer = _compiled(settings.answer)
        error = settings.error
        self._error = _compiled("" if error is True else error)
        self._metadata = {
            key: frozenset(map(str, value if isinstance(value, list) else [value]))
            for key, value in settings.metadata.items()
        }

    @property
    def about_errors(self) -> bool:
        """True if it is about requests that ended with an exception."""
        return self._error is not None

    @property
    def needs_end(self) -> bool:
        """True if it compares what is not known when a request starts."""
        one = self._settings
        late = (one.question, one.answer, one.latency_above, one.latency_below)
        return self.about_errors or any(value is not None for value in late)

    @property
    def keys(self) -> frozenset[str]:
        """Keys of metadata that it compares."""
        return frozenset(self._metadata)

    def matches(self, traits: Traits) -> bool:
        """Return whether a request meets all conditions."""
        return (
            self._tags.issubset(traits.tags)
            and all(
                key in traits.metadata and str(traits.metadata[key]) in accepted
                for key, accepted in self._metadata.items()
            )
            and self._matches_latency(traits.latency)
            and _matches(self._question, traits.question)
            and _matches(self._error, traits.error_type or "")
            and (self._answer is None or _matches(self._answer, traits.answer()))
        )

    def _matches_latency(self, latency: float | None) -> bool:
        above, below = self._settings.latency_above, self._settings.latency_below
        if above is None and below is None:
            return True
        if latency is None:
            return False
        return (above is None or latency >= above) and (below is None or latency < below)


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern)


def _matches(pattern: re.Pattern[str] | None, text: str | None) -> bool:
    if pattern is None:
        return True
    return text is not None and pattern.search(text[:_SEARCHED]) is not None


class Sampler:
    """Decides by a hash of the key, by the rate of each metric, and by rules. Thread-safe.

    A key gets the same decision in every process with the same settings.

    Args:
        rates: Rates of requests that no rule matches.
        rules: Rules with their rates; the first that matches counts.
    """

    def __init__(self, rates: Rates, rules: Sequence[tuple[RequestRule, Rates]] = ()) -> None:
        self._rates = rates
        self._rules = [(rule, own) for rule, own in rules if not rule.about_errors]
        self._error_rules = [(rule, own) for rule, own in rules if rule.about_errors]

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
        return can_leave_out and not any(rule.needs_end for rule, _ in rules)

    def leaves_out(self, key: str, tags: Sequence[str], metadata: Mapping[str, Any]) -> bool:
        """Return whether a request that starts will not be sampled, whatever comes.

        False where a rule compares metadata that the request does not have yet.
        """
        if not all(rule.keys <= metadata.keys() for rule, _ in self._rules):
            return False
        traits = Traits(tags=tuple(tags), metadata=metadata)
        return not self.decide(key, lambda: traits).sampled


def _first(rules: Sequence[tuple[RequestRule, Rates]], traits: Traits) -> Rates | None:
    return next((rates for rule, rates in rules if rule.matches(traits)), None)


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
        rules.append((RequestRule(settings), others.set(ids, share)))
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
