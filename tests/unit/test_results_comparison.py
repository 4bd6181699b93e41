"""Two runs side by side: differences that are there are found, others are not."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Outcome, Sample
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.results import (
    Change,
    FailCondition,
    compare,
    failed_conditions,
    regressed,
    summarise,
)
from rag_eval_hooks.results.compare import Trend
from rag_eval_hooks.score import UNIT, Cause, Scale, Score
from tests.support.command_line import run_command
from tests.support.optional import require
from tests.support.results import evaluation, write_results

require("rich", "jinja2")

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
FAITHFUL = "ragas.faithfulness"


def rows(
    values: Iterable[float | Outcome], name: str = "q", metric: str = FAITHFUL
) -> list[Evaluation]:
    """Return a row of a question for each value; odd ones are of the kind `long`."""
    return [
        Evaluation(
            sample=Sample(
                question=f"{name} {at}",
                answer=f"{value}",
                metadata={"kind": ("short", "long")[at % 2]},
            ),
            outcomes={metric: UNIT.score(value) if isinstance(value, float) else value},
        )
        for at, value in enumerate(values)
    ]


def levels(number: int, level: float = 0.6, spread: float = 0.2, seed: object = 0) -> list[float]:
    chance = random.Random(f"{SEED} {seed}")
    return [min(1.0, max(0.0, chance.gauss(level, spread))) for _ in range(number)]


def fallen(values: Sequence[float], drop: float, noise: object = 1) -> list[float]:
    """Return the values of a second run, in which every other one is lower."""
    chance = random.Random(f"{SEED} {noise}")
    moved = (v + chance.uniform(-0.03, 0.03) - drop * (at % 2) for at, v in enumerate(values))
    return [min(1.0, max(0.0, value)) for value in moved]


def only(base: list[Evaluation], new: list[Evaluation]) -> Change:
    (change,) = compare(base, new).changes
    return change


def test_small_fall_in_one_group_is_found_there_alone() -> None:
    before = levels(400)
    found = compare(rows(before), rows(fallen(before, 0.03)), by="kind")
    trends = {one.group: one.trend for one in found.changes}
    assert trends["long"] is Trend.WORSE
    assert trends["short"] in (Trend.UNCLEAR, Trend.SAME)
    (long,) = [one for one in found.changes if one.group == "long"]
    assert (long.low or 0) < -0.03 < (long.high or 0) < 0
    assert long.pairs == 200
    assert [one.group for one in regressed(found, 0.02)] == ["long"]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_regressions_name_each_sample_that_fell_by_a_tenth(
    pairs: list[tuple[float, float]],
) -> None:
    base, new = (rows(column) for column in zip(*pairs, strict=True))
    found = compare(base, new)
    assert sorted(one.drop for one in found.regressions) == sorted(
        old - now for old, now in pairs if old - now >= 0.1
    )
    drops = [one.drop for one in found.regressions]
    assert drops == sorted(drops, reverse=True)


@given(st.integers(0, 4), st.floats(0.3, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_few_repeated_questions_overrule_no_traffic(pairs: int, fall: float, gain: float) -> None:
    """A fall over many samples is found whatever a handful of repeated questions does."""
    base = rows([0.0] * pairs, "hello") + rows(levels(300, 0.95, 0.1), "before")
    new = rows([gain] * pairs, "hello") + rows(levels(300, 0.95 - fall, 0.1, 2), "after")
    found = compare(base, new)
    assert found.pairs == pairs
    (change,) = found.changes
    assert (change.trend, change.pairs) == (Trend.WORSE, 0)
    assert regressed(found, 0.1) == [change]


@pytest.mark.parametrize("pairs", [4, 5, 40])
def test_equal_gains_of_pairs_do_not_overrule_the_rest(pairs: int) -> None:
    """Pairs that all say the same have no variance, and are yet no proof; four are no pairs."""
    base = rows([0.2] * pairs, "hello") + rows([1.0, 0.9] * 500, "before")
    new = rows([0.9] * pairs, "hello") + rows([0.5, 0.4] * 500, "after")
    change = only(base, new)
    assert (change.trend, change.pairs) == (Trend.WORSE, pairs if pairs >= 5 else 0)


def test_pairs_and_the_rest_together_tell_more_than_either() -> None:
    before = levels(400)
    after = fallen(before, 0.05)
    same, other = rows(after), rows(after, "n")

    def width(old: list[Evaluation], now: list[Evaluation]) -> float:
        change = only(old, now)
        return (change.high or 0.0) - (change.low or 0.0)

    both = width(rows(before), [*same[:200], *other[200:]])
    parts = width(rows(before)[200:], other[200:]), width(rows(before)[:200], same[:200])
    assert both < min(parts)


def test_pairs_count_by_inverse_probability() -> None:
    """The difference of paired runs is that of the traffic, not of the sample."""

    def drawn(value: float, probability: float) -> Score:
        return replace(UNIT.score(value), probability=probability)

    base = rows([drawn(1.0, 1.0)] * 10 + [drawn(1.0, 0.1)] * 10)
    new = rows([drawn(1.0, 1.0)] * 10 + [drawn(0.5, 1.0)] * 10)
    assert only(base, new).gain == pytest.approx(-0.5 * 100 / 110)


def test_gates_over_many_differences_rarely_fail_unchanged_runs() -> None:
    """Of builds in which nothing changed, about one in twenty fails, over metrics and groups."""
    chance, metrics = random.Random(SEED), 7

    def build() -> list[Evaluation]:
        return [
            Evaluation(
                sample=Sample(question=f"q{n}", metadata={"kind": n % 4}),
                outcomes={f"m{k}": UNIT.score(chance.choice([0, 0.5, 1])) for k in range(metrics)},
            )
            for n in range(60)
        ]

    failed = sum(bool(regressed(compare(build(), build(), by="kind"), 0.0)) for _ in range(100))
    assert failed <= 11


def test_gates_over_many_means_rarely_fail_where_all_hold() -> None:
    """Of builds whose true means are at their limits, about one in twenty fails."""
    chance, metrics = random.Random(SEED), [f"m{k}" for k in range(8)]
    conditions = [FailCondition.of(f"{metric}<0.5") for metric in metrics]
    failed = 0
    for _ in range(200):
        built = [
            Evaluation(
                sample=Sample(question=f"q{n}"),
                outcomes={metric: UNIT.score(chance.random()) for metric in metrics},
            )
            for n in range(40)
        ]
        failed += bool(failed_conditions(conditions, summarise(built)[None].metrics))
    assert failed <= 20


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.floats(0.01, 0.99), st.booleans())
def test_single_gate_fails_where_the_whole_interval_meets_it(
    values: list[float], limit: float, higher_is_better: bool
) -> None:
    """In the scale of the metric, whichever side of it is best."""
    scale = Scale(0, 100, higher_is_better=higher_is_better)
    made = rows([scale.score(100 * value) for value in values], metric="m")
    metrics = summarise(made)[None].metrics
    estimate = metrics["m"].estimate
    assert estimate is not None
    for sign, end in (("<", estimate.high), (">", estimate.low)):
        assert end is not None
        assume(abs(end - 100 * limit) > 0.01)
        failed = failed_conditions([FailCondition.of(f"m{sign}{100 * limit:f}")], metrics)
        assert bool(failed) is (end < 100 * limit if sign == "<" else end > 100 * limit)


def test_groups_are_made_in_one_pass() -> None:
    """However many groups there are, each sample is asked once for its group."""
    asked: list[str] = []

    def key(row: Evaluation) -> str:
        asked.append(row.sample.question)
        return f"g{int(row.sample.question.split()[1]) % 7}"

    found = compare(rows([0.5] * 60), rows([0.5] * 60), by=key)
    assert (len(asked), len(found.changes)) == (60, 8)
    assert {(one.difference, one.trend) for one in found.changes} == {(0.0, Trend.SAME)}


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_means_stand_in_the_scale_of_the_metric(higher_is_better: bool) -> None:
    """A rise of an error rate is shown as a rise, and is worse."""
    scale = Scale(0, 100, higher_is_better=higher_is_better)
    base, new = (rows((scale.score(n + m % 9) for m in range(30)), metric="m") for n in (20, 40))
    change = only(base, new)
    assert change.difference == pytest.approx(20)
    assert change.base.mean == pytest.approx(20 + sum(n % 9 for n in range(30)) / 30)
    assert change.trend is (Trend.BETTER if higher_is_better else Trend.WORSE)


@pytest.mark.parametrize(
    ("other", "is_refused"),
    [
        ({"annotator": "other"}, True),
        ({"version": "0.1.0+prompts.2"}, True),
        # The package alone may be another: its formulas have versions of their own.
        ({"version": "0.2.0+prompts.1"}, False),
    ],
)
def test_other_judges_are_refused_unless_allowed(other: dict[str, str], is_refused: bool) -> None:
    first = UNIT.score(0.5, annotator="judge", version="0.1.0+prompts.1")
    base, new = rows([first] * 9), rows([replace(first, **other)] * 9)  # type: ignore[arg-type]
    if is_refused:
        with pytest.raises(ConfigError, match=FAITHFUL):
            compare(base, new)
    assert compare(base, new, allow_different_judges=is_refused).changes


def test_samples_pair_by_id_then_by_question() -> None:
    """A question that was asked twice pairs in order; samples of one run alone are counted."""

    def row(question: str, value: float, identity: str | None = None) -> Evaluation:
        sample = Sample(question=question, question_id=identity)
        return Evaluation(sample=sample, outcomes={"m": UNIT.score(value)})

    base = [row("a", 0.1), row("a", 0.2), row("b", 0.3, "7"), row("gone", 0.4)]
    new = [row("reworded", 0.4, "7"), row("a", 0.2), row("a", 0.3), row("a", 0.9)]
    found = compare(base, new)
    assert (found.pairs, found.only_base, found.only_new) == (3, 1, 1)
    assert found.changes[0].difference == pytest.approx(1.8 / 4 - 1.0 / 4)


def written(path: Path, made: list[Evaluation]) -> str:
    write_results(path, [evaluation(row.sample, row.outcomes) for row in made])
    return path.name


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", f"{FAITHFUL}<0.99"), 1),
        (("--fail-on", f"{FAITHFUL}<0.6"), 0),
        (("--fail-on-point", f"{FAITHFUL}<0.6"), 1),
        (("--fail-on", f" {FAITHFUL} >= 0.1 "), 1),
        (("--fail-on-regression", "0.02", "--by", "kind"), 1),
        (("--fail-on-regression", "0.05", "--by", "kind"), 0),
        (("--fail-on", "faithfulness below 1"), 2),
        (("--fail-on", "ragas.recall<0.5"), 2),
    ],
)
def test_gates_set_the_exit_code(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """0 where all hold, 1 where one fails, 2 where one cannot be read."""
    before = levels(300)
    base = written(tmp_path / "base.jsonl", rows(before))
    new = written(tmp_path / "new.jsonl", rows(fallen(before, 0.03)))
    done = run_command(tmp_path, "compare", base, new, *arguments, variables={})
    assert done.code == code, done.err + done.out
    assert ("FAILED" in done.out) is (code == 1)


def test_tables_of_a_comparison_keep_texts_in_their_cells(tmp_path: Path) -> None:
    hostile = '</failure>\x00<&"| pipe |\n# heading'
    screening = [UNIT.score(value, screening=True) for value in levels(30)]
    base = written(tmp_path / "a.jsonl", rows(screening, hostile))
    new = written(tmp_path / "b.jsonl", rows([0.0] * 30, hostile))
    shown = {
        kind: run_command(tmp_path, "compare", new, base, "--format", kind, variables={}).out
        for kind in ("md", "json", "text")
    }
    assert json.loads(shown["json"])["pairs"] == 30
    assert all("30 samples in both runs" in shown[kind] for kind in ("md", "text"))
    assert "Screening scores: good for finding" in shown["text"]
    for table in re.findall(r"(?:^\|.*\n)+", shown["md"], re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_metric_without_a_score_is_no_success(tmp_path: Path) -> None:
    name = written(tmp_path / "a.jsonl", rows([NotScored(Cause.JUDGE_FAILED)] * 5, metric="m"))
    done = run_command(tmp_path, "compare", name, name, "--fail-on", "m<0.1", variables={})
    assert (done.code, "no sample has a score" in done.out) == (1, True)
    done = run_command(tmp_path, "compare", name, name, variables={})
    assert (done.code, "Without a score in one of the runs: m" in done.out) == (3, True)
