"""A real Prometheus that scrapes the example application, and its HTTP API."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers.judge_server import JudgeServer
from tests.support.ports import free_port
from tests.viewers.processes import ROOT, executable, serving

FOLDER = ROOT / "examples" / "observability"
PATIENCE = 40.0
VARIABLES = {"$__rate_interval": "15s", "$__range": "60s", "$workflow": ".*", "$metric": ".*"}


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
