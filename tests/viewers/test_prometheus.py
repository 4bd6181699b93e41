"""The dashboard and the alerts, by a real Prometheus that scrapes the example application."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers.judge_server import JudgeServer
from tests.viewers.processes import executable, free_port, serving

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
DASHBOARD = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
PANELS = {
    panel["title"]: target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
}
VARIABLES = {"$__rate_interval": "15s", "$__range": "60s", "$workflow": ".*", "$metric": ".*"}
PATIENCE = 40.0


@dataclass(frozen=True)
class Prometheus:
    """Its HTTP API."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def numbers(self, expression: str) -> list[float]:
        """The finite values of an expression, as soon as there are any."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [
                float(one["value"][1]) for one in self.get("query", query=expression)["result"]
            ]
            numbers = [number for number in found if number == number]
            if numbers or time.monotonic() > deadline:
                return numbers
            time.sleep(1)


@contextlib.contextmanager
def application(folder: Path, port: int) -> Iterator[None]:
    """The example application, with a judge that costs something."""
    prices = folder / "prices.toml"
    prices.write_text('currency = "USD"\n[models.judge-1]\ninput = 1.0\noutput = 2.0\n')
    with JudgeServer() as judge:
        variables = {
            "RAG_EVAL_JUDGE": "openai:judge-1",
            "RAG_EVAL_JUDGE_BASE_URL": judge.url,
            "RAG_EVAL_JUDGE_API_KEY": "none",
            "RAG_EVAL_JUDGE_PRICES": str(prices),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        command = [sys.executable, str(FOLDER / "app.py"), "--prometheus", str(port)]
        with serving(command, folder, f"http://127.0.0.1:{port}/metrics", variables):
            yield


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with the example's rules; only targets and intervals are the test's."""
    pytest.importorskip("opentelemetry.exporter.prometheus")
    yaml = pytest.importorskip("yaml")
    command = executable("prometheus", "RAGEVAL_PROMETHEUS")
    folder = tmp_path_factory.mktemp("prometheus")
    scraped, port = free_port(), free_port()
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["rule_files"] = [str(FOLDER / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{scraped}"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    arguments += [f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"]
    url = f"http://127.0.0.1:{port}"
    with (
        application(tmp_path_factory.mktemp("app"), scraped),
        serving([command, *arguments], folder, f"{url}/-/ready", {}),
    ):
        yield Prometheus(url)


def filled(expression: str) -> str:
    """An expression with the dashboard's variables as Grafana would fill them in."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


@pytest.mark.parametrize("title", PANELS)
def test_every_panel_shows_something(title: str, prometheus: Prometheus) -> None:
    """Each panel's query gives numbers, shares among them between 0 and 1."""
    numbers = prometheus.numbers(filled(PANELS[title]))
    assert numbers, title
    if title.startswith(("Mean", "Failed", "Answers")):
        assert all(0 <= number <= 1 for number in numbers)


def test_wrong_answers_are_seen(prometheus: Prometheus) -> None:
    """A third of the example's answers are wrong, and so much of them fails its threshold."""
    (share,) = prometheus.numbers(filled(PANELS["Answers that fail a threshold"]))
    assert share == pytest.approx(1 / 3, abs=0.15)


def test_every_alert_reads_metrics_that_exist(prometheus: Prometheus) -> None:
    """Prometheus evaluates each rule without a complaint, over metrics that are there."""
    assert prometheus.numbers("rag_eval_score_count")
    names = set(prometheus.get("label/__name__/values"))
    deadline = time.monotonic() + PATIENCE
    while True:
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        if all(rule["health"] == "ok" for rule in rules) or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert len(rules) == 6
    for rule in rules:
        assert rule["health"] == "ok", rule
        asked = set(
            re.findall(r"rag_eval_[a-z_]*?(?:_sum|_count|_total|_breakers)\b", rule["query"])
        )
        assert asked
        assert asked <= names


def test_the_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    """The menus of the dashboard offer the workflow and the metrics of the application."""
    assert prometheus.numbers("rag_eval_score_count")
    for variable in DASHBOARD["templating"]["list"]:
        label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"])
        assert label is not None
        values = prometheus.get(f"label/{label[2]}/values", **{"match[]": label[1]})
        assert values


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    """Each alert fires for a series that it is meant for, and none for a healthy one."""
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
