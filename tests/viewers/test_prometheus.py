"""The dashboard and the alerts, by a real Prometheus that scrapes the example application."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.ports import free_port
from tests.support.servers.judge_server import JudgeServer
from tests.viewers.processes import ROOT, executable, serving
from tests.waiting import until

FOLDER = ROOT / "examples" / "observability"
PATIENCE = 40.0
VARIABLES = {"$__rate_interval": "15s", "$__range": "60s", "$workflow": ".*", "$metric": ".*"}
DASHBOARD = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
PANELS = {
    panel["title"]: target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
    if "expr" in target
}


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=10)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def numbers(self, expression: str) -> list[float]:
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
def application(folder: Path, arguments: Sequence[str], ready: str) -> Iterator[None]:
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
        command = [sys.executable, str(Path(__file__).with_name("prometheus_app.py")), *arguments]
        with serving(command, folder, ready, variables):
            yield


@contextlib.contextmanager
def scraping(folder: Path, target: str, interval: str = "1s") -> Iterator[Prometheus]:
    yaml = pytest.importorskip("yaml")
    command = executable("prometheus", "RAGEVAL_PROMETHEUS")
    compose = yaml.safe_load((FOLDER / "docker-compose.yml").read_text("utf-8"))
    flags = [
        flag
        for flag in compose["services"]["prometheus"]["command"]
        if not flag.startswith("--config.file")
    ]
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(FOLDER / "alerts.yml")]
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    arguments = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    arguments += [f"--web.listen-address=127.0.0.1:{port}", *flags]
    url = f"http://127.0.0.1:{port}"
    with serving([command, *arguments], folder, f"{url}/-/ready", {}):
        yield Prometheus(url)


def filled(expression: str) -> str:
    """An expression with the dashboard's variables as Grafana would fill them in."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    pytest.importorskip("opentelemetry.exporter.prometheus")
    port = free_port()
    app = application(
        tmp_path_factory.mktemp("app"), [str(port)], f"http://127.0.0.1:{port}/metrics"
    )
    with app, scraping(tmp_path_factory.mktemp("prometheus"), f"127.0.0.1:{port}") as started:
        yield started


@pytest.mark.parametrize("title", PANELS)
def test_every_panel_shows_something(title: str, prometheus: Prometheus) -> None:
    expression = filled(PANELS[title])
    assert (numbers := prometheus.numbers(expression)), title
    if title.startswith(("Mean", "Failed", "Answers")):
        assert all(0 <= number <= 1 for number in numbers)
    if title == "Answers that fail a threshold":
        # A third of the example's answers are wrong, but not of the first few.
        until(lambda: prometheus.numbers(expression) == [pytest.approx(1 / 3, abs=0.15)])


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
