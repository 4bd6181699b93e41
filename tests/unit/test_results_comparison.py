"""Two runs side by side: differences that are there are found, others are not."""

from __future__ import annotations

import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from rag_eval_hooks import NotScored, Sample, Score
from rag_eval_hooks.cli.compare import FailCondition, regressed
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.results import ResultRow, compare
from rag_eval_hooks.results.comparison import Trend
from rag_eval_hooks.score import UNIT, Cause
from tests.support.command_line import Finished, run_command
from tests.support.optional import require
from tests.support.results import evaluation, write_results

require("scipy")

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
    assert found.changes[0].difference == pytest.approx(0.1)


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


def test_conditions_are_read() -> None:
    """Sign and limit of a condition; anything else is named."""
    assert FailCondition.of(" a.b <= 0.5 ").is_met_by(0.5)
    assert not FailCondition.of("a.b<0.5").is_met_by(0.5)
    assert FailCondition.of("a.b>-1").is_met_by(0)
    with pytest.raises(ConfigError, match="fail-on"):
        FailCondition.of("a.b == 1")
