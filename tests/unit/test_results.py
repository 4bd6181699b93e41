"""Laws of results: reading, means with intervals, comparisons, gates and diagnoses."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample, Score
from rag_eval_hooks.cli.arguments import time_of
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import (
    FailCondition,
    compare,
    diagnose,
    failed_conditions,
    regressed,
    select,
    summarise,
    worst,
)
from rag_eval_hooks.results.compare import Change
from rag_eval_hooks.results.diagnose import RULES
from rag_eval_hooks.results.estimate import LEAST_LABELS, Estimate, mean_of, predicted_mean
from rag_eval_hooks.results.summary import DATA
from rag_eval_hooks.score import UNIT, Cause
from tests.golden.measure import BY_ID
from tests.support.results import row

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
CLASS = "graphrag.answer_class"
FAITHFUL, RECALL = "ragas.faithfulness", "ragas.context_recall"
SHARES = st.floats(0, 1).map(lambda share: round(share, 6))
SCALED = st.sampled_from([FAITHFUL, "ragas.noise_sensitivity", CLASS, "whitepaper.faithfulness"])
"""Metrics of four scales; lower is better for the second."""


def native(metric: str, share: float) -> float:
    scale = BY_ID[metric].scale
    return min(scale.low + (scale.high - scale.low) * share, scale.high)


def scored(metric: str, share: float, probability: float | None = None) -> Score:
    return replace(BY_ID[metric].scale.score(native(metric, share)), probability=probability)


def holds(found: Estimate | None, truth: float) -> bool:
    return found is not None and (found.low or 0.0) <= truth <= (found.high or 1.0)


# Means.


@given(st.lists(st.tuples(SHARES, st.floats(0.01, 1)), min_size=1, max_size=30), SCALED)
def test_mean_weighs_by_inverse_probability_in_the_scale_of_its_metric(
    drawn: list[tuple[float, float]], metric: str
) -> None:
    scale = BY_ID[metric].scale
    outcomes: list[Outcome] = [scored(metric, *each) for each in drawn]
    outcomes += [scored(metric, 0.0), NotScored(Cause.TIMEOUT)]
    summary = summarise([row({metric: one}) for one in outcomes])[None].metrics[metric]
    found, weights = summary.estimate, [1 / chance for _, chance in drawn]
    assert found is not None
    values = [native(metric, share) for share, _ in drawn]
    mean = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    assert found.mean == pytest.approx(mean, abs=1e-6)
    assert found.effective_n <= found.n + 1e-6
    assert (summary.scored, summary.not_scored) == (len(drawn) + 1, {Cause.TIMEOUT: 1})
    ends = max([*values, scale.low]), min([*values, scale.low])
    assert (summary.best, summary.worst) == (ends if scale.higher_is_better else ends[::-1])
    if found.low is None or found.high is None:
        assert len(values) == 1
    else:
        assert scale.low - 1e-6 <= found.low <= found.mean + 1e-6
        assert found.mean - 1e-6 <= found.high <= scale.high + 1e-6


@given(st.lists(st.tuples(SHARES, st.sampled_from("abc")), min_size=1), st.randoms())
def test_groups_together_are_the_whole_in_any_order(
    drawn: list[tuple[float, str]], chance: random.Random
) -> None:
    rows = [replace(row({"m": UNIT.score(value)}, kind=kind), reason=kind) for value, kind in drawn]
    whole, groups = summarise(rows)[None], summarise(rows, "kind")
    assert list(groups) == list(dict.fromkeys(kind for _, kind in drawn))
    assert list(summarise(rows, "reason")) == list(groups)
    means = [(each.samples, each.metrics["m"].estimate) for each in groups.values()]
    total = sum(number * found.mean for number, found in means if found)
    chance.shuffle(rows)
    for one in (whole, summarise(rows)[None]):
        assert one.metrics["m"].estimate is not None
        assert one.metrics["m"].estimate.mean == pytest.approx(total / len(rows))


unit = cache(UNIT.score)


@cache
def drawn_row(value: float, probability: float | None = None, session: int = 0) -> Evaluation:
    sample = Sample(question="q", session_id=f"s{session}" if probability is None else None)
    return Evaluation(sample=sample, outcomes={"m": replace(unit(value), probability=probability)})


def drawn_stream(design: str, chance: random.Random) -> tuple[list[Evaluation], float]:
    rows: list[Evaluation] = []
    if design == "sessions":
        for session in range(15):
            level = 0.5 + 0.3 * chance.choice([-1, 1])
            values = [min(1.0, max(0.0, level + chance.gauss(0, 0.25))) for _ in range(20)]
            rows += [drawn_row(round(value, 3), session=session) for value in values]
        return rows, 0.5
    if design == "rare":
        classes = {(0.85, 0.01): 0.5, (0.95, 0.5): 0.5}
    else:
        classes = {(0.05, 1.0): 0.15, (0.8, 0.1): 0.85}
    number = 1000 if design == "rare" else 400
    for level, probability in chance.choices(list(classes), list(classes.values()), k=number):
        if chance.random() < probability:
            rows.append(drawn_row(float(chance.random() < level), probability))
    return rows, sum(level * share for (level, _), share in classes.items())


@pytest.mark.parametrize(
    ("design", "most_plain"), [("tail", 0.05), ("sessions", 0.85), ("rare", 1.0)]
)
def test_intervals_hold_the_truth_as_often_as_they_say(design: str, most_plain: float) -> None:
    chance, number = random.Random(f"{SEED} {design}"), 200
    hits = plain = 0
    for _ in range(number):
        rows, truth = drawn_stream(design, chance)
        hits += holds(summarise(rows)[None].metrics["m"].estimate, truth)
        plain += holds(mean_of([one.outcomes["m"].value or 0.0 for one in rows]), truth)
    assert 0.91 <= hits / number <= (1.0 if design == "rare" else 0.99)
    assert plain / number <= most_plain


def test_labels_of_a_random_part_correct_a_biased_judge() -> None:
    chance, weight = random.Random(f"{SEED} labels"), 4.0
    hits, ratio, truth = 0, 0.0, 0.3 * 0.9 + 0.7 * 0.3
    for _ in range(200):
        drawn: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
        for _ in range(900):
            often = chance.random() < 0.3
            own = 1.25 * (1.0 if often else weight)
            if chance.random() < 1 / own:
                label = float(chance.random() < (0.9 if often else 0.3))
                judged = float(chance.random() < (0.9 if label else 0.4))
                drawn[chance.random() < 0.3].append((label, judged, own))
        labels, _, weights = zip(*drawn[True], strict=True)
        found = predicted_mean(drawn[True], [(judged, own) for _, judged, own in drawn[False]])
        alone = mean_of(labels, weights)
        assert found is not None
        assert alone is not None
        hits += holds(found, truth)
        ratio += (found.high - found.low) / (alone.high - alone.low) / 200  # type: ignore[operator]
    assert 0.9 <= hits / 200 <= 0.99
    assert ratio < 0.97
    assert predicted_mean([(1.0, 0.5, 1.0)] * (LEAST_LABELS - 1), [(0.5, 1.0)]) is None


# Comparisons and gates.


def run(
    values: Iterable[float | Outcome], name: str = "q", metric: str = FAITHFUL
) -> list[Evaluation]:
    return [
        Evaluation(
            sample=Sample(question=f"{name} {at}", metadata={"kind": ("short", "long")[at % 2]}),
            outcomes={metric: UNIT.score(value) if isinstance(value, float) else value},
        )
        for at, value in enumerate(values)
    ]


def only(base: list[Evaluation], new: list[Evaluation]) -> Change:
    (change,) = compare(base, new).changes
    return change


PAIRS = st.lists(st.tuples(SHARES, SHARES, st.floats(0.01, 1)), min_size=5, max_size=30)


@given(PAIRS, SCALED, st.booleans())
def test_comparison_is_exact_and_turns_its_sign_with_its_runs(
    pairs: list[tuple[float, float, float]], metric: str, is_paired: bool
) -> None:
    scale = BY_ID[metric].scale
    base = run((scored(metric, old, p) for old, _, p in pairs), metric=metric)
    name = "q" if is_paired else "new"
    new = run((scored(metric, now, p) for _, now, p in pairs), name, metric)
    # Scores that feedback triggered have no probability and do not count.
    base, new = (rows + run([scored(metric, 0.0)], "feedback", metric) for rows in (base, new))
    found, back = only(base, new), only(new, base)
    assert found.pairs == len(pairs) * is_paired
    # A pair counts by both draws.
    weights = [p ** (-2 if is_paired else -1) for *_, p in pairs]
    gains = sum(w * (now - old) for w, (old, now, _) in zip(weights, pairs, strict=True))
    expected = gains / sum(weights) * (scale.high - scale.low)
    assert found.difference == pytest.approx(expected, abs=1e-6)
    assert found.difference == pytest.approx(-back.difference, abs=1e-6)
    if found.low is not None and found.high is not None:
        assert (found.low, found.high) == pytest.approx((-back.high, -back.low), abs=1e-6)  # type: ignore[operator]
    if found.trend != "unclear":
        is_better = (found.difference > 0) is scale.higher_is_better
        assert (found.trend, back.trend) == ("better", "worse")[:: 1 if is_better else -1]
    drops = [one.drop for one in compare(base, new).regressions]
    falls = (old - now if scale.higher_is_better else now - old for old, now, _ in pairs)
    least = sorted((by for by in falls if by >= 0.1), reverse=True)
    assume(all(abs(by - 0.1) > 1e-6 for by in [*drops, *least]))
    assert drops == pytest.approx(least if is_paired else [], abs=1e-6)


@pytest.mark.parametrize("pairs", [4, 5, 40])
def test_equal_gains_of_pairs_do_not_overrule_the_rest(pairs: int) -> None:
    base = run([0.2] * pairs, "hello") + run([1.0, 0.9] * 500, "before")
    new = run([0.9] * pairs, "hello") + run([0.5, 0.4] * 500, "after")
    change = only(base, new)
    assert (change.trend, change.pairs) == ("worse", pairs if pairs >= 5 else 0)


def test_small_unpaired_runs_differ_only_beyond_both_intervals() -> None:
    # A symmetric interval would find a difference in one of twelve pairs of equal runs.
    found = only(run([1.0] * 7 + [0.0] * 13, "old"), run([1.0] * 13 + [0.0] * 7, "new"))
    assert found.trend == "unclear"
    assert found.low == pytest.approx(-0.015, abs=1e-3)


def test_runs_of_other_judges_or_prompts_are_refused_unless_allowed() -> None:
    first = UNIT.score(0.5, annotator="judge", version="0.1.0+prompts.1")
    for other in ({"annotator": "other"}, {"version": "0.1.0+prompts.2"}):
        base, new = run([first] * 9), run([replace(first, **other)] * 9)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match=FAITHFUL):
            compare(base, new)
        assert compare(base, new, allow_different_judges=True).changes
    assert compare(run([first] * 9), run([replace(first, version="0.2.0+prompts.1")] * 9)).changes


def test_gates_over_many_values_rarely_fail_unchanged_runs() -> None:
    chance, metrics = random.Random(SEED), [f"m{k}" for k in range(8)]
    conditions = [FailCondition.of(f"{metric}<0.5") for metric in metrics]

    def build() -> list[Evaluation]:
        return [
            Evaluation(
                sample=Sample(question=f"q{n}", metadata={"kind": n % 4}),
                outcomes={name: unit(round(chance.random(), 3)) for name in metrics},
            )
            for n in range(32)
        ]

    by_fall = by_mean = 0
    for _ in range(30):
        base, new = build(), build()
        found = compare(base, new, by="kind")
        by_fall += bool(regressed(found, 0.0))
        for metrics_of in (summarise(base)[None].metrics, found.new):
            by_mean += bool(failed_conditions(conditions, metrics_of))
    # Each gate fails 5 % of unchanged runs. More failures than these have a chance of 0.1 %.
    assert by_fall <= 6
    assert by_mean <= 10


@given(st.lists(SHARES, min_size=2, max_size=40), st.floats(0.01, 0.99), SCALED)
def test_single_gate_fails_where_the_whole_interval_meets_it(
    values: list[float], limit: float, metric: str
) -> None:
    span, at = BY_ID[metric].scale.high - BY_ID[metric].scale.low, native(metric, limit)
    made = run([scored(metric, value) for value in values], metric=metric)
    metrics = summarise(made)[None].metrics
    estimate = metrics[metric].estimate
    assert estimate is not None
    for sign, end in (("<", estimate.high), (">", estimate.low)):
        assert end is not None
        assume(abs(end - at) > 0.01 * span)
        failed = failed_conditions([FailCondition("", metric, sign, float(f"{at:f}"))], metrics)
        assert bool(failed) is (end < at if sign == "<" else end > at)


# Diagnoses, order and choice.


def labelled(label: str) -> Score:
    return BY_ID[CLASS].scale.score(100.0 * (label == "CORRECT"), label=label)


def test_each_rule_is_shown_by_its_pattern_and_a_special_one_hides_the_rest() -> None:
    roles = DATA["roles"]
    for rule in RULES:
        levels = [(role, 1.0) for role in rule.high] + [(role, 0.0) for role in rule.low]
        outcomes: dict[str, Outcome] = {
            roles.get(role, [role])[0]: UNIT.score(value) for role, value in levels
        }
        if rule.label is not None:
            outcomes[CLASS] = labelled(rule.label)
        shown = row(outcomes or {FAITHFUL: UNIT.score(1.0)})
        middle = row({name: UNIT.score(0.65) for name in shown.outcomes})
        found = {one.rule.name: one for one in diagnose([shown, middle])}
        hit = found[rule.name]
        assert (list(hit.rows), hit.share.mean, hit.rule.blame) == ([shown], 0.5, rule.blame)
        hidden = {one.rule.name for one in found.values() if one.rule.rest} - {rule.name}
        assert not hidden, rule.name


def test_diagnosis_needs_decided_scores_of_a_calibrated_judge_and_the_callers_cuts() -> None:
    good = [row({FAITHFUL: UNIT.score(1.0)}) for _ in range(8)]
    assert [each.rule.blame for each in diagnose(good)] == ["none"]
    assert diagnose([*good, row({FAITHFUL: NotScored(Cause.UNDEFINED)})]) == []
    assert diagnose([row({FAITHFUL: UNIT.score(1.0, screening=True)})]) == []
    rows = [row({FAITHFUL: UNIT.score(0.7), RECALL: UNIT.score(0.55)})]
    assert diagnose(rows) == []
    cuts = {FAITHFUL: (0.5, 0.7), RECALL: (0.6, 0.8)}
    assert diagnose(rows, cuts=cuts)[0].rule.blame == "retriever"
    absent = row({FAITHFUL: UNIT.score(1.0), RECALL: NotScored(Cause.MISSING_INPUT)})
    assert [each.rule.name for each in diagnose([absent])] == ["high throughout"]


@given(st.permutations(range(5)))
def test_worst_ranks_by_faithfulness_then_risk_and_undecided_before_perfect(
    order: list[int],
) -> None:
    ranked = [
        row({FAITHFUL: UNIT.score(0.2), RECALL: UNIT.score(0.9)}),
        row({FAITHFUL: NotScored(Cause.UNDEFINED, risk=0.7, undecided=True)}),
        row({FAITHFUL: UNIT.score(0.5, risk=0.9)}),
        row({FAITHFUL: UNIT.score(0.5, risk=0.1)}),
        row({FAITHFUL: NotScored(Cause.UNDEFINED, risk=0.0, undecided=True)}),
        row({FAITHFUL: UNIT.score(1.0), RECALL: UNIT.score(0.1)}),
    ]
    drawn = [*(ranked[at] for at in order), ranked[5], row({FAITHFUL: NotScored(Cause.TIMEOUT)})]
    assert worst(drawn) == ranked
    assert worst(drawn, RECALL) == [ranked[5], ranked[0]]


def test_selected_rows_meet_every_condition() -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [
        Evaluation(
            sample=Sample(question=name, tags=tuple(tags), metadata={"kind": kind}),
            outcomes={metric: UNIT.score(1.0) for metric in metrics},
            start=ago and int((now - timedelta(hours=ago)).timestamp() * 1e9),
        )
        for name, tags, kind, metrics, ago in (
            ("a", "ä", "x", ["x.a", "x.b"], 1),
            ("b", "äb", "y", ["x.a", "y.a"], 4),
            ("c", "b", "x", ["y.a"], 9),
            ("d", "", "x", ["x.b"], 0),
        )
    ]

    def chosen(**conditions: Any) -> str:
        return "".join(one.sample.question for one in select(rows, **conditions))

    late, early = time_of("5h", now), time_of("2026-03-01T11:00:00+01:00")
    assert (chosen(since=late), chosen(since=late, until=early)) == ("ab", "b")
    assert chosen(where=[("tag", "ä"), ("kind", "x")]) == "a"
    assert (chosen(metrics=["x"]), chosen(metrics=["y.a"])) == ("abd", "bc")
    assert [list(one.outcomes) for one in select(rows, metrics=["y.a"])] == [["y.a"]] * 2
