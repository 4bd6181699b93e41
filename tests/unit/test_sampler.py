"""Laws of the sampler: nested choices, exact rates, one decision in every process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import ConfigError, RagEvalConfig
from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.decision import Decision, Rates, Share, Traits
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.request import Request
from rag_eval_hooks.sampling.rules import matches, position
from rag_eval_hooks.sampling.selection import Selection

keys = st.text(min_size=1)
rates = st.floats(0, 1)


def sampler(**settings: Any) -> Selection:
    return Selection(RagEvalConfig(**settings), ALL_METRICS, ALL_METRICS, Incidents())


def decided(by: Selection, key: str = "k", traits: Callable[[], Traits] = Traits) -> Decision:
    decision = by.decide(Request(key=key, build=None, traits=traits))
    assert decision is not None
    return decision


@given(keys, rates, rates)
def test_lower_rates_are_subsets(key: str, one: float, other: float) -> None:
    low, high = sorted((one, other))
    if Decision(position(key), Rates({"s.m": Share(low)})).sampled:
        assert Decision(position(key), Rates({"s.m": Share(high)})).sampled


def test_position_is_the_same_in_all_processes_and_versions() -> None:
    told = {
        "": 5762768028554677700,
        "request 7": 3895285006335787687,
        "ab" * 16: 15428982914262747081,
    }
    assert {key: position(key) for key in told} == told


def test_the_most_specific_rate_wins() -> None:
    told = {"ragas.faithfulness": 0.3, "ragas": 0.1, "all": 0.6}
    decision = decided(sampler(sample_rate=0.9, metric_rates=told))
    ids = ("ragas.faithfulness", "ragas.context_recall", "lexical.exact_match")
    assert [decision.probability_of(name) for name in ids] == [0.3, 0.1, 0.6]
    assert decision.probability == 0.6


@pytest.mark.parametrize(
    ("rule", "traits", "fits"),
    [
        ({}, Traits(), True),
        ({"tags": ["a", "b"]}, Traits(tags=("b", "c", "a")), True),
        ({"tags": ["a", "b"]}, Traits(tags=("a",)), False),
        ({"metadata": {"tenant": "gold"}}, Traits(metadata={"tenant": "gold"}), True),
        ({"metadata": {"tenant": ["gold", 7]}}, Traits(metadata={"tenant": 7}), True),
        ({"metadata": {"tenant": "gold"}}, Traits(), False),
        ({"question": "(?i)refund"}, Traits(question="A REFUND?"), True),
        ({"question": "refund"}, Traits(question="x" * 4000 + "refund"), False),
        ({"answer": "sorry"}, Traits(answer=lambda: "so sorry"), True),
        ({"answer": ""}, Traits(answer=lambda: None), False),
        ({"latency_above": 3}, Traits(latency=3.0), True),
        ({"latency_above": 3}, Traits(latency=2.9), False),
        ({"latency_above": 3}, Traits(latency=None), False),
        ({"latency_above": 1, "latency_below": 3}, Traits(latency=3.0), False),
        ({"error": True}, Traits(error_type="KeyError"), True),
        ({"error": "Timeout"}, Traits(error_type="ReadTimeoutError"), True),
        ({"error": "Timeout"}, Traits(error_type="KeyError"), False),
        ({"tags": ["a"], "question": "x"}, Traits(tags=("a",), question="y"), False),
    ],
)
def test_a_rule_fits_when_all_its_conditions_do(
    rule: dict[str, Any], traits: Traits, fits: bool
) -> None:
    assert matches(RuleSettings(rate=1.0, **rule), traits) is fits


def test_the_first_rule_that_fits_counts() -> None:
    rules = [
        {"question": "refund", "metrics": "ragas", "rate": 0.5, "name": "refunds"},
        {"tags": ["beta"], "rate": 1.0},
    ]
    chosen_by = sampler(sample_rate=0.2, rules=rules)
    both = decided(chosen_by, traits=lambda: Traits(question="refund?", tags=("beta",)))
    assert both.probability_of("ragas.faithfulness") == 0.5
    assert both.rates.shares["ragas.faithfulness"].reason == "rule:refunds"
    assert both.probability_of("lexical.exact_match") == 0.2
    beta = decided(chosen_by, traits=lambda: Traits(tags=("beta",)))
    assert (beta.probability, beta.reason) == (1.0, "rule:2")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"metric_rates": {"raggas": 0.5}}, "metric_rates"),
        ({"rules": [{"rate": 1, "metrics": ["raggas"]}]}, "rules[0].metrics"),
    ],
)
def test_rate_or_rule_of_an_unknown_metric_is_refused_at_start(
    settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        sampler(**settings)
    assert caught.value.field == field
    assert caught.value.advice


shares = st.builds(Share, rates, st.text())


@given(st.integers(-1, 2**64 - 1), st.dictionaries(st.text(), shares), st.none() | rates, st.data())
def test_decision_of_another_process_is_the_same_decision(
    position: int, told: dict[str, Share], admission: float | None, data: st.DataObject
) -> None:
    """Metrics that only this process has share the sample's own probability."""
    first = Decision(position, Rates(told), admission)
    again = Decision.from_dict(json.loads(json.dumps(first.to_dict())))
    assert (again.position, again.rates.shares, again.admission) == (position, told, admission)
    ids = data.draw(st.sets(st.sampled_from([*told, "new"])))
    limited = again.limited_to(ids, again.rates.highest)
    new = ids - told.keys() if first.sampled else set()
    assert limited.chosen == (ids & first.chosen) | new
    assert all(limited.probability_of(name) <= first.probability for name in ids)
