"""The semantic-convention registry that the package ships, beside what the code emits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import rag_eval_hooks
from rag_eval_hooks import RagEval, semconv
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.sample import Context, Sample
from rag_eval_hooks.score import UNIT
from rag_eval_hooks.testing import ScriptedJudge

yaml = pytest.importorskip("yaml")
FOLDER = Path(rag_eval_hooks.__file__).parent / "registry"
FIELDS = ("score", "normalized", "label", "pass", "screening", "reason", "sample_rate")


def groups() -> Iterator[dict[str, Any]]:
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name != "registry_manifest.yaml":
            yield from yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]


def declared() -> dict[str, str]:
    pairs = [
        (one["id"], one["type"])
        for group in groups()
        for one in group.get("attributes", ())
        if "id" in one
    ]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def referred(group: dict[str, Any]) -> set[str]:
    return {one["ref"] for one in group.get("attributes", ())}


def constants(prefix: str) -> set[str]:
    return {value for name, value in vars(semconv).items() if name.startswith(prefix)}


def test_every_name_is_declared_and_no_other() -> None:
    results = {
        semconv.eval_key(metric.id, field)
        for metric in ALL_METRICS
        for field in FIELDS
        if (field != "normalized" or metric.scale != UNIT)
        and (field != "screening" or metric.findings)
    }
    assert set(declared()) == constants("EVAL_") | results
    metrics = [one["metric_name"] for one in groups() if one["type"] == "metric"]
    assert sorted(metrics) == sorted(constants("METRIC_"))
    events = [one["name"] for one in groups() if one["type"] == "event"]
    assert events == [semconv.GEN_AI_EVALUATION_EVENT]


def test_instruments_are_as_declared() -> None:
    """Unit, description and attributes of what the SDK collects are those of the registry."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    with RagEval("lexical", ScriptedJudge(), meter_provider=provider) as evals:
        evals.submit(Sample(question="q", answer="a", contexts=(Context(text="c"),), reference="a"))
        assert evals.flush(300)
        data = reader.get_metrics_data()
    assert data is not None
    known = {one["metric_name"]: one for one in groups() if one["type"] == "metric"}
    collected = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    assert len(collected) > 10
    for metric in collected:
        entry = known[metric.name]
        assert (metric.unit, metric.description) == (entry["unit"], entry["brief"])
        keys = {key for point in metric.data.data_points for key in point.attributes or ()}
        assert {key for key in keys if key.startswith("rag.eval.")} <= referred(entry), metric.name
        kind = entry["instrument"].replace("updowncounter", "sum").replace("counter", "sum")
        assert type(metric.data).__name__.lower() == kind
