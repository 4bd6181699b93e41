"""From a bad bucket in a real Prometheus to the trace of the answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.viewers.collector import Collector
from tests.viewers.prometheus import FOLDER, PATIENCE, Prometheus, application, filled, scraping

DASHBOARD = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
EXPRESSIONS = [
    target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
    if target.get("exemplar")
]


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, Prometheus]]:
    """The example application, which sends all by OTLP, and a Prometheus that reads the metrics."""
    pytest.importorskip("prometheus_client")
    with Collector() as collector:
        url = f"http://{collector.address}"
        app = application(tmp_path_factory.mktemp("app"), ["--otlp", url], f"{url}/metrics")
        folder = tmp_path_factory.mktemp("prometheus")
        with app, scraping(folder, collector.address) as started:
            yield collector, started


def exemplars(prometheus: Prometheus, expression: str) -> list[tuple[dict[str, str], Any]]:
    """Labels of the series and each of its exemplars, as Grafana asks for them."""
    now = time.time()
    found = prometheus.get(
        "query_exemplars", query=expression, start=str(now - 300), end=str(now + 300)
    )
    return [(series["seriesLabels"], one) for series in found for one in series["exemplars"]]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_bad_bucket_leads_to_its_answer(
    expression: str, setup: tuple[Collector, Prometheus]
) -> None:
    """Each exemplar of the dashboard names a RAG span that carries just that score."""
    collector, prometheus = setup
    deadline = time.monotonic() + PATIENCE
    bad: list[tuple[dict[str, str], Any]] = []
    while not bad and time.monotonic() < deadline:
        time.sleep(1)
        bad = [
            (labels, one)
            for labels, one in exemplars(prometheus, filled(expression))
            if float(one["value"]) < 0.5
            and (one["labels"]["trace_id"], one["labels"]["span_id"]) in collector.spans
        ]
    assert bad
    for labels, one in bad:
        span = collector.spans[one["labels"]["trace_id"], one["labels"]["span_id"]]
        metric = labels["gen_ai_evaluation_name"]
        assert span["openinference.span.kind"] == "CHAIN"
        assert span[f"rag.eval.{metric}.score"] == pytest.approx(float(one["value"]))


def test_some_panels_have_exemplars() -> None:
    """The dashboard asks for exemplars where Prometheus keeps them: of buckets alone."""
    assert EXPRESSIONS
    assert all("_bucket" in expression for expression in EXPRESSIONS)
