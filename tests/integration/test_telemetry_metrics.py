"""Metrics of evaluations: counts, and what judging cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_eval_hooks import Outcomes, Sample
from rag_eval_hooks.testing import ScriptedJudge
from rag_eval_hooks.usage import Usage
from tests.servers.judge_server import JudgeServer
from tests.support.telemetry_world import HALF, World


def test_metrics_count_what_stats_count() -> None:
    world = World(judge=ScriptedJudge(HALF))
    world.ask()
    world.ask()
    world.evals.shutdown()
    world.ask(flush=False)
    assert world.evals.stats().dropped == {"shutdown": 1}
    counted = {
        (p.attributes["rag.eval.outcome"], p.attributes.get("rag.eval.reason")): p.value
        for p in world.metrics.points("rag.eval.samples")
    }
    assert counted == {
        ("scored", None): 2,
        ("sampled_out", None): 0,
        ("dropped", "shutdown"): 1,
    }
    assert [p.value for p in world.metrics.points("rag.eval.queue.size")] == [0]


def test_judge_metrics_are_the_sum_of_what_the_scores_cost(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[models."*test-model"]\ninput = 1.0\noutput = 2.0\n')
    used: list[Usage] = []

    def note(_: Sample, outcomes: Outcomes) -> None:
        used.extend(outcome.usage for outcome in outcomes.values())

    with JudgeServer(api_key="k") as server:
        world = World(
            metrics=["ragas.faithfulness", "ragas.context_precision"],
            judge="openai:test-model",
            sinks=[note],
            judge_prices=str(prices),
            judge_base_url=server.url,
            judge_api_key="k",
            embedder="none",
        )
        world.ask()
        spent = sum(used, start=Usage())
        assert spent.calls > 0
        assert spent.cost
        assert sum(p.value for p in world.metrics.points("rag.eval.judge.calls")) == spent.calls
        tokens = {
            p.attributes["gen_ai.token.type"]: p.value
            for p in world.metrics.points("rag.eval.judge.tokens")
        }
        assert tokens == {"input": spent.input_tokens, "output": spent.output_tokens}
        (cost,) = world.metrics.points("rag.eval.judge.cost")
        assert cost.value == pytest.approx(spent.cost)
        assert "test-model" in cost.attributes["rag.eval.judge.name"]
        world.evals.shutdown()
