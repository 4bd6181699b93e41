"""The files of the compose example fit together, and have the shapes that their readers want."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
yaml = pytest.importorskip("yaml")
jsonschema = pytest.importorskip("jsonschema")

COMPOSE: dict[str, Any] = {
    "type": "object",
    "required": ["services"],
    "additionalProperties": False,
    "properties": {
        "services": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["image"],
                "additionalProperties": False,
                "properties": {
                    # A whole version, so that the same comes up tomorrow.
                    "image": {"type": "string", "pattern": r"^[\w./-]+:v?\d+\.\d+\.\d+$"},
                    "command": {"type": "array", "items": {"type": "string"}},
                    "environment": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                    },
                    "volumes": {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^\./[^:]+:/[^:]+:ro$"},
                    },
                    # Nothing is open to other machines.
                    "ports": {
                        "type": "array",
                        "items": {"type": "string", "pattern": r"^127\.0\.0\.1:\d+:\d+$"},
                    },
                    "depends_on": {"type": "array", "items": {"type": "string"}},
                },
            },
        }
    },
}
DASHBOARD: dict[str, Any] = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "schemaVersion": {"type": "integer", "minimum": 36},
        "panels": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "gridPos", "targets", "datasource"],
                "properties": {
                    "type": {"enum": ["timeseries", "stat", "heatmap"]},
                    "gridPos": {
                        "type": "object",
                        "required": ["x", "y", "w", "h"],
                        "properties": {"x": {"maximum": 23}, "w": {"minimum": 1, "maximum": 24}},
                    },
                    "targets": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"required": ["expr", "refId", "datasource"]},
                    },
                },
            },
        },
    },
}


def read(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text("utf-8"))


def test_the_compose_file_has_its_shape() -> None:
    """Every service has a pinned image, mounts files that exist, and listens on loopback only."""
    compose = read("docker-compose.yml")
    jsonschema.validate(compose, COMPOSE)
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            assert (FOLDER / volume.split(":")[0]).exists(), volume
        assert set(service.get("depends_on", ())) <= set(compose["services"])


def test_the_collector_uses_what_it_defines() -> None:
    """Each part of a pipeline is defined, and its neighbours are services of the compose file."""
    config = read("collector.yaml")
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])
    services = read("docker-compose.yml")["services"]
    assert config["exporters"]["otlp/jaeger"]["endpoint"].split(":")[0] in services
    scraped = read("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"]
    port = config["exporters"]["prometheus"]["endpoint"].split(":")[1]
    assert scraped == [f"collector:{port}"]


def test_the_collector_decides_after_spans_were_held() -> None:
    """A tail sampler waits longer than a span may be held, and reads attributes that we set."""
    from rag_eval_hooks import semconv
    from rag_eval_hooks.config import RagEvalConfig

    sampling = read("collector.yaml")["processors"]["tail_sampling"]
    assert int(sampling["decision_wait"].rstrip("s")) > RagEvalConfig().hold_timeout
    keys = {
        policy[f"{kind}_attribute"]["key"]
        for policy in sampling["policies"]
        for kind in ("boolean", "string")
        if f"{kind}_attribute" in policy
    }
    assert keys == {semconv.EVAL_PASS, semconv.OPENINFERENCE_SPAN_KIND}


def test_the_dashboard_has_its_shape() -> None:
    """Grafana's fields are there, ids differ, no panel lies on another."""
    dashboard = json.loads((FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8"))
    jsonschema.validate(dashboard, DASHBOARD)
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    sources = read("grafana/provisioning/datasources/datasources.yml")["datasources"]
    assert {panel["datasource"]["uid"] for panel in panels} <= {one["uid"] for one in sources}


def test_every_name_is_one_of_ours() -> None:
    """Dashboard and alerts read only metrics and labels that are emitted."""
    from rag_eval_hooks import semconv

    emitted = {
        value.replace(".", "_")
        for name, value in vars(semconv).items()
        if isinstance(value, str) and name.startswith(("METRIC_", "EVAL_", "GEN_AI_"))
    }
    text = (FOLDER / "grafana/dashboards/rag-quality.json").read_text("utf-8")
    text += (FOLDER / "alerts.yml").read_text("utf-8")
    endings = r"(_seconds)?(_bucket|_sum|_count|_total)?$"
    named = {re.sub(endings, "", name) for name in re.findall(r"(?:rag_eval|gen_ai)_\w+", text)}
    assert named
    assert named <= emitted
