"""Counters of weighted scores: a dashboard's mean is that over all traffic."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest

from rag_eval_hooks import RagEval, Sample
from rag_eval_hooks.metrics import Field, Metric
from rag_eval_hooks.score import UNIT
from tests.support.otel import Metrics

SEED = int(os.environ.get("RAGEVAL_SEED", "20261122"))


def test_the_ratio_of_the_counters_is_the_mean_over_all_traffic() -> None:
    """With a rule that scores good requests eight times as often, only the plain mean is off."""
    chance, metrics = random.Random(SEED), Metrics()
    metric = Metric(
        id="own.value",
        score=lambda sample, _: UNIT.score(float(sample.metadata["value"])),
        needs=frozenset({Field.QUESTION}),
    )
    total, number = 0.0, 3000
    rules: Any = [{"name": "beta", "tags": ["beta"], "rate": 0.8}]
    with RagEval(
        [metric],
        sample_rate=0.1,
        rules=rules,
        queue_size=number,
        meter_provider=metrics.provider,
    ) as evals:
        for index in range(number):
            beta = chance.random() < 0.3
            value = chance.betavariate(8, 2) if beta else chance.betavariate(2, 4)
            total += value
            evals.submit(
                Sample(
                    question=f"q{index}",
                    contexts=("c",),  # type: ignore[arg-type]
                    answer="a",
                    tags=("beta",) if beta else (),
                    metadata={"value": value},
                )
            )
        assert evals.flush(120)
        scored = evals.stats().scored
    weight, weighted = (metrics.value(f"rag.eval.score.{name}") for name in ("weight", "weighted"))
    squares = metrics.by("rag.eval.score.square", "power")
    mean = weighted / weight
    spread = squares["2"] - 2 * mean * squares["1"] + mean**2 * squares["0"]
    half = 1.96 * math.sqrt(spread) / weight
    (plain,) = metrics.points("rag.eval.score")
    truth = total / number
    assert plain.count == scored
    # The band holds the truth in 95 of 100 seeds; twice its width in all but few of a million.
    assert abs(mean - truth) < 2.5 * half < 0.2
    assert plain.sum / plain.count - truth > 5 * half / 2
    assert weight == pytest.approx(number, rel=0.25)
