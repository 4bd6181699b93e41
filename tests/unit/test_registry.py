"""The semantic-convention registry that the package ships, beside what the code emits."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rag_eval_hooks
from rag_eval_hooks import semconv
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.score import UNIT

yaml = pytest.importorskip("yaml")
FOLDER = Path(rag_eval_hooks.__file__).parent / "registry"
FIELDS = ("score", "normalized", "label", "pass", "screening", "reason", "sample_rate")


def groups() -> Iterator[dict[str, Any]]:
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.name != "registry_manifest.yaml":
            yield from yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]


def instruments() -> Iterator[str]:
    for file in FOLDER.parent.glob("*/instruments.toml"):
        for rows in tomllib.loads(file.read_text(encoding="utf-8")).values():
            yield from rows


def test_every_name_is_declared_and_no_other() -> None:
    results = [
        semconv.eval_key(metric.id, field)
        for metric in ALL_METRICS
        for field in FIELDS
        if (field != "normalized" or metric.scale != UNIT)
        and (field != "screening" or metric.findings)
    ]
    own = [value for name, value in vars(semconv).items() if name.startswith("EVAL_")]
    declared = [
        one["id"] for group in groups() for one in group.get("attributes", ()) if "id" in one
    ]
    assert sorted(declared) == sorted([*own, *results])
    metrics = [one["metric_name"] for one in groups() if one["type"] == "metric"]
    assert sorted(metrics) == sorted(instruments())
    events = [one["name"] for one in groups() if one["type"] == "event"]
    assert events == [semconv.GEN_AI_EVALUATION_EVENT]
