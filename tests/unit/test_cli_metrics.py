"""`rag-eval-hooks metrics`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_eval_hooks.cli.main import main
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.metrics.example import FINDINGS, SAMPLE
from rag_eval_hooks.score import Score


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["metrics", *arguments]) == 0
    return capsys.readouterr().out


def test_every_metric_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each, with scale, direction and source."""
    lines = run(capsys).splitlines()[1:]
    assert [line.split()[0] for line in lines] == [metric.id for metric in ALL_METRICS]
    for line, metric in zip(lines, ALL_METRICS, strict=True):
        direction = "higher" if metric.scale.higher_is_better else "lower"
        assert f"{metric.scale.low:g} to {metric.scale.high:g}" in line
        assert direction in line
        assert metric.source in line


@pytest.mark.parametrize(
    ("metric", "calls"),
    [
        ("lexical.exact_match", 0),
        ("graphrag.semantic_similarity_percentage", 0),
        ("graphrag.answer_class", 1),
        ("ragas.context_precision", 1),
        ("ragas.faithfulness", 2),
        ("nvidia.answer_accuracy", 2),
        ("whitepaper.weighted_score", 4),
    ],
)
def test_judge_calls(metric: str, calls: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Each finding takes a call, a Nvidia rating two."""
    lines = run(capsys, metric).splitlines()
    assert f"judge calls  {calls}" in lines


def test_a_suite_is_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """A suite's name lists its metrics and no others."""
    lines = run(capsys, "nvidia").splitlines()[1:]
    assert {line.split(".")[0] for line in lines} == {"nvidia"}
    assert len(lines) == 3


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.id)
def test_the_worked_example_is_the_metric_itself(
    metric: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every metric has a value on the example, and that value is what is shown."""
    chosen = next(each for each in ALL_METRICS if each is metric)
    outcome = chosen.score(SAMPLE, FINDINGS)
    assert isinstance(outcome, Score)
    text = run(capsys, chosen.id)
    assert f"value = {outcome.value:.4g}" in text
    assert chosen.summary in " ".join(text.split())


def test_the_calculation_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Claims are counted and weights multiplied out."""
    assert "supported: 1 of 2" in run(capsys, "ragas.faithfulness")
    assert "0.4 x 3 + 0.2 x 3 + 0.2 x 2.333 + 0.2 x 3" in run(capsys, "whitepaper.weighted_score")


def test_an_unknown_metric_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists what there is."""
    assert main(["metrics", "ragas.faith"]) == 2
    assert "ragas.faithfulness" in capsys.readouterr().err


def test_question_checks_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file's checks are metrics as well; one that cannot be read is an error."""
    file = tmp_path / "checks.toml"
    file.write_text("[Q1]\nkind = 'list'\n")
    assert "lexical.Q1.rules_coverage" in run(capsys, "--question-checks", str(file))
    explained = run(capsys, "lexical.Q1.rules_coverage", "--question-checks", str(file))
    assert "not scored: missing_input" in explained
    assert main(["metrics", "--question-checks", str(tmp_path / "none.toml")]) == 2
