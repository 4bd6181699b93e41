"""The documents say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rag_eval_hooks import semconv
from rag_eval_hooks.config import RagEvalConfig
from rag_eval_hooks.metrics import ALL_METRICS
from rag_eval_hooks.semconv import EvalStatus

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="not in a source tree")


def test_every_setting_is_documented() -> None:
    """The page of settings lists all settings and no others."""
    page = (ROOT / "docs/configuration.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == list(RagEvalConfig.model_fields)


def test_every_metric_is_documented() -> None:
    """The README lists all metrics and no others."""
    listed = re.findall(r"^\| `(\w+\.\w+)` \|", (ROOT / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(metric.id for metric in ALL_METRICS)


def test_every_attribute_event_and_metric_is_documented() -> None:
    """The page on telemetry names every name that we emit."""
    page = (ROOT / "docs/telemetry.md").read_text()
    names = {
        value
        for name, value in vars(semconv).items()
        if name.isupper()
        if isinstance(value, str) and re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", value)
    }
    assert len(names) > 40
    prefixes = {semconv.RETRIEVAL_DOCUMENTS}
    assert sorted(name for name in names - prefixes if f"`{name}" not in page) == []
    fields = ("name", "score", "label", "explanation", "annotator_kind", "identifier", "metadata")
    assert all(f"`evaluations.N.evaluation.{field}`" in page for field in fields)


def test_every_status_is_documented() -> None:
    """The page on telemetry explains every status."""
    page = (ROOT / "docs/telemetry.md").read_text()
    assert all(f"`{status.value}`" in page for status in EvalStatus)
