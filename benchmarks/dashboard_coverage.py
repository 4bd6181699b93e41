"""Coverage of the dashboard's mean and its band, as read back from a real Prometheus.

Streams of requests, decided by the designs of `benchmarks.interval_coverage`, are recorded as
metrics, each stream as a metric of its own. Prometheus scrapes them, and the queries of Grafana's
panel are asked. A meter provider has 2,000 sets of attributes an instrument, so that a run has at
most 166 streams a design; add runs by `--seed`.

    python -m benchmarks.dashboard_coverage [--streams 125] [--requests 500] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

from benchmarks.interval_coverage import DESIGNS, TRUTH, stream
from rag_eval_hooks.ending import Evaluation
from rag_eval_hooks.incidents import Incidents
from rag_eval_hooks.sample import Sample
from rag_eval_hooks.score import Score
from rag_eval_hooks.telemetry.evaluation_metrics import MetricRecorder
from tests.support.ports import free_port
from tests.viewers.prometheus import FOLDER, Prometheus, scraping

PANEL = "Mean score by metric, over all traffic, with its 95 % band"
PLAIN = (
    "sum by (gen_ai_evaluation_name) (increase(rag_eval_score_sum[$__rate_interval]))"
    " / sum by (gen_ai_evaluation_name) (increase(rag_eval_score_count[$__rate_interval]))"
)


def main() -> None:
    """Print a line per design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=125, help="by design")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    port = free_port()
    start_http_server(port, addr="127.0.0.1")
    recorder = MetricRecorder(
        MeterProvider([PrometheusMetricReader()]), judge="none", incidents=Incidents()
    )
    chance = random.Random(arguments.seed)
    names = {name: number for number, name in enumerate(DESIGNS)}
    streams = [(design, n) for design in DESIGNS for n in range(arguments.streams)]
    with (
        tempfile.TemporaryDirectory() as folder,
        scraping(Path(folder), f"127.0.0.1:{port}", "10s") as prometheus,
    ):
        # An increase needs a value to begin with.
        for design, n in streams:
            _record(recorder, f"design{names[design]}.{n}", 0.5, 1.0)
        _scraped(prometheus, len(streams))
        for design, n in streams:
            for request in stream(chance, arguments.requests):
                probability = DESIGNS[design](request)
                if chance.random() < probability:
                    _record(recorder, f"design{names[design]}.{n}", request.value, probability)
        time.sleep(40)
        print(f"{len(streams)} streams of {arguments.requests} requests; true mean {TRUTH:.3f}")
        print(f"{'design':36}{'histogram':>11}{'mean':>8}{'half':>7}{'covers %':>10}")
        for line in _lines(prometheus, names):
            print(line)


def _record(recorder: MetricRecorder, name: str, value: float, probability: float) -> None:
    score = Score(value=value, normalised=value, probability=probability)
    recorder.record(
        Evaluation(
            sample=Sample(question="q"),
            outcomes={name: score},
            probability=probability,
            start=0,
            end=1,
        )
    )


def _scraped(prometheus: Prometheus, streams: int) -> None:
    """Wait until each stream is in Prometheus with two scrapes."""
    expression = "count(count_over_time(rag_eval_score_weight_total[1h]) >= 2)"
    while max(prometheus.numbers(expression), default=0) < streams:
        time.sleep(1)


def _lines(prometheus: Prometheus, names: dict[str, int]) -> Iterator[str]:
    dashboard = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
    (targets,) = [panel["targets"] for panel in dashboard["panels"] if panel["title"] == PANEL]
    values = [_values(prometheus, target["expr"]) for target in targets]
    plain = _values(prometheus, PLAIN)
    for design, number in names.items():
        own = [name for name in values[0] if name.startswith(f"design{number}.")]
        means, lows, highs = ([value[name] for name in own] for value in values)
        held = fmean(low <= TRUTH <= high for low, high in zip(lows, highs, strict=True))
        half = fmean(high - low for low, high in zip(lows, highs, strict=True)) / 2
        raw = fmean(plain[name] for name in own) - TRUTH
        yield f"{design:36}{raw:+11.3f}{fmean(means) - TRUTH:+8.3f}{half:7.3f}{100 * held:10.1f}"


def _values(prometheus: Prometheus, expression: str) -> dict[str, float]:
    filled = expression.replace("$__rate_interval", "1h")
    filled = filled.replace("$workflow", ".*").replace("$metric", ".*")
    answer = prometheus.get("query", query=filled)["result"]
    return {one["metric"]["gen_ai_evaluation_name"]: float(one["value"][1]) for one in answer}


if __name__ == "__main__":
    main()
