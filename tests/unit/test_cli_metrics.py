"""`rag-eval-hooks metrics`."""

from __future__ import annotations

import pytest

from rag_eval_hooks.cli.main import main
from rag_eval_hooks.metrics import ALL_METRICS, Metric
from rag_eval_hooks.metrics.example import example
from rag_eval_hooks.score import Score


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["metrics", *arguments]) == 0
    return capsys.readouterr().out


def test_every_metric_is_listed_and_a_suite_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each, with scale, direction and source."""
    lines = run(capsys).splitlines()[1:]
    assert [line.split()[0] for line in lines] == [metric.id for metric in ALL_METRICS]
    for line, metric in zip(lines, ALL_METRICS, strict=True):
        direction = "higher" if metric.scale.higher_is_better else "lower"
        shown = (f"{metric.scale.low:g} to {metric.scale.high:g}", direction, metric.source)
        assert all(text in line for text in shown)
    nvidia = run(capsys, "nvidia").splitlines()[1:]
    assert nvidia == [line for line in nvidia if line.startswith("nvidia.")]
    assert len(nvidia) == 3


@pytest.mark.parametrize("metric", ALL_METRICS, ids=lambda metric: metric.id)
def test_worked_example_is_the_metric_itself(
    metric: Metric, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every metric has a value on the example, and that value is shown."""
    outcome = metric.score(*example())
    assert isinstance(outcome, Score)
    text = run(capsys, metric.id)
    assert f"value = {outcome.value:.4g}" in text
    assert metric.summary in " ".join(text.split())


@pytest.mark.parametrize(
    ("metric", "shown"),
    [
        ("lexical.exact_match", "judge calls  0"),
        ("graphrag.semantic_similarity_percentage", "judge calls  0"),
        ("graphrag.answer_class", "judge calls  1"),
        ("nvidia.answer_accuracy", "judge calls  2"),
        ("whitepaper.weighted_score", "judge calls  4"),
        ("ragas.faithfulness", "judge calls  2"),
        ("ragas.faithfulness", "  part contradicted = 0.5"),
    ],
)
def test_calls_and_parts_are_shown(
    metric: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finding takes a call, a Nvidia rating two."""
    assert shown in run(capsys, metric).splitlines()


def test_unknown_metric_is_refused_with_those_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["metrics", "ragas.faith"]) == 2
    assert "ragas.faithfulness" in capsys.readouterr().err
