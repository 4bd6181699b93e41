"""From settings to the rate of every metric, checked against the metrics that there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.decision import Rates, Share
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.metrics import Metric
from rag_eval_hooks.sampling.rules import Rule
from rag_eval_hooks.sampling.sampler import Sampler

__all__ = ["Names", "sampler_of"]


class Names:
    """Suites and metric ids as settings write them.

    Args:
        chosen: The metrics that are evaluated.
        known: All that there are: a name among these that is not chosen stands for nothing,
            so that one file of settings serves several choices.
    """

    def __init__(self, chosen: Sequence[Metric], known: Sequence[Metric]) -> None:
        self.ids = tuple(metric.id for metric in chosen)
        self._known = {name for m in (*chosen, *known) for name in (m.id, m.suite)} | {"all"}

    def ids_of(self, field: str, names: Iterable[str]) -> tuple[str, ...]:
        """Ids of the chosen metrics that names stand for.

        Args:
            field: The setting, for the error.
            names: Suites, metric ids or `all`.

        Raises:
            ConfigError: A name stands for no metric at all.
        """
        wanted = set(names)
        for name in wanted - self._known:
            raise ConfigError.unknown(field, name, self._known)
        return tuple(
            name
            for name in self.ids
            if not wanted.isdisjoint(("all", name, name.partition(".")[0]))
        )


def sampler_of(config: RagEvalConfig, names: Names) -> Sampler:
    """The sampler that the settings describe.

    Args:
        config: The settings.
        names: The metrics.

    Raises:
        ConfigError: A rate or rule names an unknown metric.
    """
    usual = _usual(config, names)
    rules = []
    for number, settings in enumerate(config.rules, start=1):
        ids = names.ids_of(f"rules[{number - 1}].metrics", settings.metrics or ("all",))
        share = Share(settings.rate, f"rule:{settings.name or number}")
        # An interaction that failed has no usual rate: only what the rule names is evaluated.
        others = Rates(dict.fromkeys(names.ids, Share(0.0))) if settings.error else usual
        rules.append((Rule(settings), others.set(ids, share)))
    return Sampler(usual, rules)


def _usual(config: RagEvalConfig, names: Names) -> Rates:
    rates = Rates(dict.fromkeys(names.ids, Share(config.sample_rate)))
    told = config.metric_rates.items()
    # A suite first, so that an id wins over it.
    for name, rate in sorted(told, key=lambda item: (item[0] != "all", "." in item[0])):
        rates = rates.set(names.ids_of("metric_rates", [name]), Share(rate))
    return rates
