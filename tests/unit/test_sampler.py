"""Laws of the sampler: nested choices, exact rates, one decision in every process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.config.rules import RuleSettings
from rag_eval_hooks.decision import Decision, RateLimit, Share, Traits, highest, position
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.request import Request
from rag_eval_hooks.sampling.selection import Selection, matches

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
    if Decision(position(key), {"s.m": Share(low)}).sampled:
        assert Decision(position(key), {"s.m": Share(high)}).sampled


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
    assert [decision.shares[name].rate for name in ids] == [0.3, 0.1, 0.6]
    assert decision.probability == 0.6


def test_a_rule_fits_when_all_its_conditions_do() -> None:
    cases: list[tuple[dict[str, Any], Traits, bool]] = [
        ({"tags": ["a", "b"]}, Traits(tags=("b", "c", "a")), True),
        ({"tags": ["a", "b"]}, Traits(tags=("a",)), False),
        ({"metadata": {"tenant": ["gold", 7]}}, Traits(metadata={"tenant": 7}), True),
        ({"question": "(?i)refund"}, Traits(question="A REFUND?"), True),
        ({"question": "refund"}, Traits(question="x" * 4000 + "refund"), False),
        ({"answer": "sorry"}, Traits(answer=lambda: "so sorry"), True),
        ({"latency_above": 1, "latency_below": 3}, Traits(latency=3.0), False),
        ({"error": "Timeout"}, Traits(error_type="ReadTimeoutError"), True),
    ]
    for rule, traits, fits in cases:
        assert matches(RuleSettings(rate=1.0, **rule), traits) is fits, (rule, traits)


shares = st.builds(Share, rates, st.text())


@given(st.integers(-1, 2**64 - 1), st.dictionaries(st.text(), shares), st.none() | rates, st.data())
def test_decision_of_another_process_is_the_same_decision(
    position: int, told: dict[str, Share], admission: float | None, data: st.DataObject
) -> None:
    first = Decision(position, told, admission)
    again = Decision.from_dict(json.loads(json.dumps(first.to_dict())))
    assert (again.position, again.shares, again.admission) == (position, told, admission)
    ids = data.draw(st.sets(st.sampled_from([*told, "new"])))
    limited = again.limited_to(ids, highest(again.shares))
    new = ids - told.keys() if first.sampled else set()
    assert limited.chosen == (ids & first.chosen) | new
    assert all(limited.shares[name].rate <= highest(first.shares).rate for name in ids)


GAPS = st.lists(st.floats(0, 3, allow_nan=False), max_size=80)


@given(st.integers(1, 5), st.integers(1, 20), GAPS)
def test_limit_refuses_exactly_what_a_full_window_leaves_no_room_for(
    second: int, minute: int, gaps: list[float]
) -> None:
    now = [0.0]
    limit = RateLimit({"second": second, "minute": minute}, lambda: now[0])
    let_in: list[float] = []
    for number in range(len(gaps)):
        now[0] = sum(gaps[: number + 1])
        windows = ((1.0, second), (60.0, minute))
        is_full = any(sum(now[0] - span < at for at in let_in) == most for span, most in windows)
        assert (limit.admit() is None) is is_full
        if not is_full:
            let_in.append(now[0])


@given(st.integers(1, 8), st.lists(st.floats(0, 0.5), max_size=120))
def test_those_admitted_stand_for_those_refused(second: int, gaps: list[float]) -> None:
    now = [1e6]
    limit = RateLimit({"second": second}, lambda: now[0])
    weights, asked = [], 0
    for gap in [*gaps, *[1.5] * 35]:
        now[0] += gap
        asked += 1
        share = limit.admit()
        if share is not None:
            assert 0.0 < share <= 1.0
            weights.append(1.0 / share)
        assert sum(weights) <= asked + 1e-6
    refused = asked - len(weights)
    assert sum(weights) >= asked - 0.05 * refused - 0.01
