"""Rates and rules of the settings, and the hash of a key that they are compared with."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Rates, Share, Traits
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric

__all__ = [
    *("MetricNames", "Rules", "default_rates", "first_match", "matches", "position", "rules_of"),
]

Rules: TypeAlias = Sequence[tuple[RuleSettings, Rates]]

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


def first_match(rules: Rules, traits: Traits) -> Rates | None:
    """Return the rates of the first rule that a request meets."""
    return next((rates for rule, rates in rules if matches(rule, traits)), None)


def rules_of(config: RagEvalConfig, names: MetricNames, default: Rates) -> Rules:
    """Return the rules of the settings with the rates that each sets."""
    rules = []
    for number, settings in enumerate(config.rules, start=1):
        ids = names.ids_of(f"rules[{number - 1}].metrics", settings.metrics or ("all",))
        share = Share(settings.rate, f"rule:{settings.name or number}")
        # A failed request has no default rate: only metrics that the rule names are evaluated.
        others = Rates(dict.fromkeys(names.ids, Share(0.0))) if settings.error else default
        rules.append((settings, others.set(ids, share)))
    return rules


def default_rates(config: RagEvalConfig, names: MetricNames) -> Rates:
    """Return the rates of requests that no rule matches."""
    rates = Rates(dict.fromkeys(names.ids, Share(config.sample_rate)))
    # Suites first, so that the rate of a single metric overrides its suite's.
    by_name = sorted(
        config.metric_rates.items(), key=lambda item: (item[0] != "all", "." in item[0])
    )
    for name, rate in by_name:
        rates = rates.set(names.ids_of("metric_rates", [name]), Share(rate))
    return rates
