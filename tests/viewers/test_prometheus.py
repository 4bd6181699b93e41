"""The dashboard and the alerts, by a real Prometheus that scrapes the example application."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ports import free_port
from tests.viewers.processes import executable
from tests.viewers.prometheus import FOLDER, Prometheus, application, filled, scraping
from tests.waiting import until

DASHBOARD = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
PANELS = {
    panel["title"]: target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
    if "expr" in target
}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    pytest.importorskip("opentelemetry.exporter.prometheus")
    port = free_port()
    app = application(
        tmp_path_factory.mktemp("app"),
        [str(port)],
        f"http://127.0.0.1:{port}/metrics",
    )
    with app, scraping(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{port}") as started:
        yield started


@pytest.mark.parametrize("title", PANELS)
def test_every_panel_shows_something(title: str, prometheus: Prometheus) -> None:
    numbers = prometheus.numbers(filled(PANELS[title]))
    assert numbers, title
    if title.startswith(("Mean", "Failed", "Answers")):
        assert all(0 <= number <= 1 for number in numbers)
    if title == "Answers that fail a threshold":  # a third of the example's answers are wrong
        assert numbers == [pytest.approx(1 / 3, abs=0.15)]


def test_alerts_and_variables_read_what_exists(prometheus: Prometheus) -> None:
    assert prometheus.numbers("rag_eval_score_count")
    names = set(prometheus.get("label/__name__/values"))

    def rules() -> list[Any]:
        return [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

    until(lambda: all(rule["health"] == "ok" for rule in rules()), "the health of each rule")
    assert len(rules()) == 6
    for rule in rules():
        read = re.findall(r"rag_eval_[a-z_]*?(?:_sum|_count|_total|_breakers)\b", rule["query"])
        assert set(read) <= names, rule
        assert read, rule
    for variable in DASHBOARD["templating"]["list"]:
        label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        assert label is not None
        assert prometheus.get(f"label/{label[2]}/values", **{"match[]": label[1]})


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    promtool = executable("promtool", "RAGEVAL_PROMTOOL")
    tests = Path(__file__).with_name("alerts_test.yml").read_text("utf-8")
    (tmp_path / "alerts_test.yml").write_text(tests.replace("ALERTS", str(FOLDER / "alerts.yml")))
    for command in (
        ["check", "rules", str(FOLDER / "alerts.yml")],
        ["test", "rules", "alerts_test.yml"],
    ):
        done = subprocess.run(
            [promtool, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
