"""Two runs side by side: differences that are there are found, others are not."""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results import FailCondition, ResultRow, compare, regressed
from rag_eval_hooks.results.compare import Trend
from rag_eval_hooks.score import UNIT, Cause, Scale
from tests.support.command_line import Finished, run_command
from tests.support.optional import require
from tests.support.results import evaluation, write_results

require("rich", "jinja2")

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))
FAITHFUL = "ragas.faithfulness"


def run(
    number: int, seed: int, drop: float = 0.0, paired: bool = True, version: str = "0.1.0+prompts.1"
) -> list[ResultRow]:
    """Return a run over two groups; in one of them, scores fall by `drop`."""
    chance, noise = random.Random(seed), random.Random(f"{seed} {drop}")
    rows = []
    for i in range(number):
        level = chance.uniform(0.3, 0.95)
        group = "long" if i % 2 else "short"
        value = level + noise.uniform(-0.03, 0.03) - (drop if group == "long" else 0.0)
        score = Score(
            value=min(1.0, max(0.0, value)),
            normalised=min(1.0, max(0.0, value)),
            annotator="judge",
            version=version,
        )
        question = f"question {i}" if paired else f"question {seed} {drop} {i}"
        rows.append(
            ResultRow(
                sample=Sample(question=question, answer=f"answer {drop}", metadata={"kind": group}),
                outcomes={FAITHFUL: score},
            )
        )
    return rows


def score_of(row: ResultRow) -> Score:
    score = row.score(FAITHFUL)
    assert score is not None
    return score


def rescored(row: ResultRow, value: float, **fields: str) -> ResultRow:
    """Return the row with another score."""
    score = replace(score_of(row), value=value, normalised=value, **fields)  # type: ignore[arg-type]
    return replace(row, outcomes={FAITHFUL: score})


def test_a_small_fall_in_one_group_is_found() -> None:
    """Three points less in one of two groups is found there, and not elsewhere."""
    found = compare(run(400, SEED), run(400, SEED, drop=0.03), by="kind")
    trends = {one.group: one.trend for one in found.changes}
    assert trends["long"] is Trend.WORSE
    assert trends["short"] in (Trend.UNCLEAR, Trend.SAME)
    (long,) = [one for one in found.changes if one.group == "long"]
    assert long.low is not None
    assert long.high is not None
    assert long.low < -0.03 < long.high
    assert long.pairs == 200
    assert [one.group for one in regressed(found, 0.02)] == ["long"]


def test_regressions_name_the_samples_that_fell() -> None:
    """Each sample that fell by a tenth or more is named, the largest fall first."""
    base = run(50, SEED)
    fallen = {7: 0.5, 20: 0.2, 31: 0.05}
    new = [
        rescored(row, max(0.0, score_of(row).value - fallen.get(number, 0.0)))
        for number, row in enumerate(base)
    ]
    found = compare(base, new)
    assert {one.new.sample.question for one in found.regressions} <= {"question 7", "question 20"}
    drops = [one.drop for one in found.regressions]
    assert drops == sorted(drops, reverse=True)
    assert drops


@pytest.mark.parametrize("paired", [True, False])
def test_runs_without_a_difference_are_rarely_told_apart(paired: bool) -> None:
    """Of 200 pairs of equal runs, at most one in ten is said to differ."""
    said = 0
    for seed in range(200):
        one, other = run(40, seed, paired=paired), run(40, seed + 1000, paired=paired)
        if paired:
            # The same questions, judged twice with noise.
            noise = random.Random(f"{SEED} {seed}")
            one, other = ([rescored(row, noise.random()) for row in one] for _ in range(2))
        (change,) = compare(one, other).changes
        assert bool(change.pairs) is paired
        said += change.trend in (Trend.BETTER, Trend.WORSE)
    assert said <= 20


def values(metric: str, values: list[float], name: str, **fields: object) -> list[ResultRow]:
    return [
        ResultRow(
            sample=Sample(question=f"{name} {number}", metadata=fields),
            outcomes={metric: UNIT.score(value)},
        )
        for number, value in enumerate(values)
    ]


@given(st.integers(0, 4), st.floats(0.3, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None)
def test_few_repeated_questions_overrule_no_traffic(pairs: int, fall: float, gain: float) -> None:
    """A fall over many samples is found whatever a handful of repeated questions does."""
    chance = random.Random(SEED)

    def noise(number: int, level: float) -> list[float]:
        return [min(1.0, max(0.0, chance.gauss(level, 0.1))) for _ in range(number)]

    base = values("m", [0.0] * pairs, "hello") + values("m", noise(300, 0.95), "before")
    new = values("m", [gain] * pairs, "hello") + values("m", noise(300, 0.95 - fall), "after")
    found = compare(base, new)
    assert found.pairs == pairs
    (change,) = found.changes
    assert (change.trend, change.pairs) == (Trend.WORSE, 0)
    assert regressed(found, 0.1) == [change]


@pytest.mark.parametrize("pairs", [5, 40])
def test_equal_gains_of_pairs_do_not_overrule_the_rest(pairs: int) -> None:
    """Pairs that all say the same have no variance, and are yet no proof."""
    base = values("m", [0.2] * pairs, "hello") + values("m", [1.0, 0.9] * 500, "before")
    new = values("m", [0.9] * pairs, "hello") + values("m", [0.5, 0.4] * 500, "after")
    (change,) = compare(base, new).changes
    assert (change.trend, change.pairs) == (Trend.WORSE, pairs)


def test_pairs_and_the_rest_together_tell_more_than_either() -> None:
    """Where half of the questions repeat, the interval is narrower than that of each half."""
    base, new = run(400, SEED), run(400, SEED, drop=0.05)
    other = [
        replace(row, sample=replace(row.sample, question=f"{n} n")) for n, row in enumerate(new)
    ]

    def width(old: list[ResultRow], now: list[ResultRow]) -> float:
        (change,) = compare(old, now).changes
        assert change.low is not None
        assert change.high is not None
        return change.high - change.low

    half = width(base, [*new[:200], *other[200:]])
    assert half < min(width(base[200:], other[200:]), width(base[:200], new[:200]))


def test_fewer_than_five_pairs_are_no_pairs() -> None:
    base, new = values("m", [0.5] * 4, "q"), values("m", [0.4] * 4, "q")
    assert [one.pairs for one in compare(base, new).changes] == [0]
    five = values("m", [0.5] * 5, "q"), values("m", [0.4] * 5, "q")
    assert [one.pairs for one in compare(*five).changes] == [5]


def test_pairs_count_by_inverse_probability() -> None:
    """The difference of paired runs is that of the traffic, not of the sample."""

    def weighted(levels: list[tuple[float, float]]) -> list[ResultRow]:
        return [
            ResultRow(
                sample=Sample(question=f"q{n}"),
                outcomes={"m": replace(UNIT.score(value), probability=p)},
            )
            for n, (value, p) in enumerate(levels)
        ]

    base = weighted([(1.0, 1.0)] * 10 + [(1.0, 0.1)] * 10)
    new = weighted([(1.0, 1.0)] * 10 + [(0.5, 1.0)] * 10)
    (change,) = compare(base, new).changes
    assert change.gain == pytest.approx(-0.5 * 100 / 110)


@pytest.mark.parametrize("metrics", [1, 7])
def test_gates_over_many_differences_rarely_fail_unchanged_runs(metrics: int) -> None:
    """Of builds in which nothing changed, about one in twenty fails, over metrics and groups."""
    chance = random.Random(SEED + metrics)

    def build() -> list[ResultRow]:
        return [
            ResultRow(
                sample=Sample(question=f"q{n}", metadata={"kind": n % 4}),
                outcomes={f"m{k}": UNIT.score(chance.choice([0, 0.5, 1])) for k in range(metrics)},
            )
            for n in range(60)
        ]

    failed = sum(bool(regressed(compare(build(), build(), by="kind"), 0.0)) for _ in range(100))
    assert failed <= 11


@given(st.integers(1, 60), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_groups_are_made_in_one_pass(number: int, groups: int) -> None:
    """However many groups there are, each sample is asked once for its group."""
    asked: list[str] = []

    def key(row: ResultRow) -> str:
        asked.append(row.sample.question)
        return f"g{int(row.sample.question.split()[1]) % groups}"

    rows = values("m", [0.5] * number, "q")
    found = compare(rows, rows, by=key)
    assert len(asked) == number
    assert len(found.changes) == 1 + min(groups, number)


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_means_stand_in_the_scale_of_the_metric(higher_is_better: bool) -> None:
    """A rise of an error rate is shown as a rise, and is worse."""
    scale = Scale(0, 100, higher_is_better=higher_is_better)

    def rows(level: float) -> list[ResultRow]:
        return [
            ResultRow(sample=Sample(question=f"q{n}"), outcomes={"m": scale.score(level + n % 9)})
            for n in range(30)
        ]

    (change,) = compare(rows(20), rows(40)).changes
    assert change.difference == pytest.approx(20)
    assert change.base.mean == pytest.approx(20 + sum(n % 9 for n in range(30)) / 30)
    assert change.trend is (Trend.BETTER if higher_is_better else Trend.WORSE)


def test_equal_runs_are_the_same() -> None:
    """A run compared with itself has a difference of 0 and no regression."""
    rows = run(30, SEED)
    found = compare(rows, rows)
    assert [(one.difference, one.trend) for one in found.changes] == [(0.0, Trend.SAME)]
    assert not found.regressions


@pytest.mark.parametrize("field", ["annotator", "version"])
def test_other_judges_are_refused_unless_allowed(field: str) -> None:
    """Scores of another judge or another version of its prompts are no comparison."""
    other = {"annotator": "other", "version": "0.1.0+prompts.2"}[field]
    changed = [rescored(row, 0.5, **{field: other}) for row in run(10, SEED)]
    with pytest.raises(ConfigError, match=FAITHFUL):
        compare(run(10, SEED), changed)
    assert compare(run(10, SEED), changed, allow_different_judges=True).changes
    # The package alone may be another: its formulas have versions of their own.
    assert compare(run(10, SEED), run(10, SEED, version="0.2.0+prompts.1")).changes


def test_samples_pair_by_id_then_by_question() -> None:
    """A question that was asked twice pairs in order; what only one run has is counted."""

    def row(question: str, value: float, identity: str | None = None) -> ResultRow:
        return ResultRow(
            sample=Sample(question=question, question_id=identity),
            outcomes={"m": UNIT.score(value)},
        )

    base = [row("a", 0.1), row("a", 0.2), row("b", 0.3, "7"), row("gone", 0.4)]
    new = [row("reworded", 0.4, "7"), row("a", 0.2), row("a", 0.3), row("a", 0.9)]
    found = compare(base, new)
    assert (found.pairs, found.only_base, found.only_new) == (3, 1, 1)
    assert [round(one.drop, 3) for one in found.regressions] == []
    assert found.changes[0].difference == pytest.approx(1.8 / 4 - 1.0 / 4)


def written(path: Path, rows: list[ResultRow]) -> str:
    write_results(path, [evaluation(row.sample, row.outcomes) for row in rows])
    return path.name


def command(folder: Path, *arguments: str) -> Finished:
    return run_command(folder, *arguments, variables={})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", f"{FAITHFUL}<0.3"), 0),
        (("--fail-on", f"{FAITHFUL}<0.99"), 1),
        (("--fail-on", f"{FAITHFUL}<0.615"), 0),
        (("--fail-on-point", f"{FAITHFUL}<0.63"), 1),
        (("--fail-on", f"{FAITHFUL} >= 0.1"), 1),
        (("--fail-on-regression", "0.02"), 0),
        (("--fail-on-regression", "0.02", "--by", "kind"), 1),
        (("--fail-on-regression", "0.05", "--by", "kind"), 0),
        (("--fail-on-regression", "5"), 2),
        (("--fail-on", "faithfulness below 1"), 2),
        (("--fail-on", "ragas.recall<0.5"), 2),
    ],
)
def test_gates_set_the_exit_code(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """0 where all hold, 1 where one fails, 2 where one cannot be read."""
    base = written(tmp_path / "base.jsonl", run(300, SEED))
    new = written(tmp_path / "new.jsonl", run(300, SEED, drop=0.03))
    done = command(tmp_path, "compare", base, new, *arguments)
    assert done.code == code, done.err + done.out
    assert ("FAILED" in done.out) is (code == 1)


def test_tables_of_a_comparison_keep_texts_in_their_cells(tmp_path: Path) -> None:
    hostile = '</failure>\x00<&"| pipe |\n# heading'
    rows = run(30, SEED)
    questions = [replace(row.sample, question=f"{hostile} {i}") for i, row in enumerate(rows)]
    rows = [replace(row, sample=asked) for row, asked in zip(rows, questions, strict=True)]
    fallen = [rescored(row, score_of(row).value * 0.7) for row in rows]
    base, new = written(tmp_path / "a.jsonl", rows), written(tmp_path / "b.jsonl", fallen)
    done = command(tmp_path, "compare", base, new, "--format", "md", "-o", "c.md")
    assert done.code == 0
    for table in re.findall(r"(?:^\|.*\n)+", (tmp_path / "c.md").read_text("utf-8"), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1
    plain = command(tmp_path, "compare", base, new, "--format", "json")
    assert json.loads(plain.out)["pairs"] == 30


def test_a_condition_without_a_score_fails(tmp_path: Path) -> None:
    """A metric that no sample has is no success."""
    rows = [
        ResultRow(
            sample=Sample(question=f"q{n}"),
            outcomes={"m": NotScored(Cause.JUDGE_FAILED), "other": UNIT.score(1.0)},
        )
        for n in range(5)
    ]
    name = written(tmp_path / "a.jsonl", rows)
    done = command(tmp_path, "compare", name, name, "--fail-on", "m<0.1")
    assert done.code == 1
    assert "no sample has a score" in done.out
    done = command(tmp_path, "compare", name, name)
    assert done.code == 3
    assert "Without a score in one of the runs: m" in done.out


def test_screening_scores_are_named_as_such(tmp_path: Path) -> None:
    rows = [replace(row, outcomes={"m": UNIT.score(0.5, screening=True)}) for row in run(6, SEED)]
    name = written(tmp_path / "a.jsonl", rows)
    done = command(tmp_path, "compare", name, name)
    assert "Screening scores: good for finding" in done.out


def test_conditions_are_read() -> None:
    """Sign and limit of a condition; anything else is named."""
    assert FailCondition.of(" a.b <= 0.5 ").is_met_by(0.5)
    assert not FailCondition.of("a.b<0.5").is_met_by(0.5)
    assert FailCondition.of("a.b>-1").is_met_by(0)
    with pytest.raises(ConfigError, match="fail-on"):
        FailCondition.of("a.b == 1")
