"""The files of the compose example fit together, and have the shapes that their readers want."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rag_eval_hooks import semconv
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.metrics import ALL_METRICS

FOLDER = Path(__file__).parents[2] / "examples" / "observability"
PANELS = FOLDER / "grafana/dashboards/rag-quality.json"
yaml = pytest.importorskip("yaml")


def read(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text("utf-8"))


def test_compose_takes_the_file() -> None:
    """A parser of the whole Compose specification accepts it."""
    compose_spec = pytest.importorskip("compose_spec")
    text = (FOLDER / "docker-compose.yml").read_text("utf-8")
    parsed = compose_spec.PyCompose.from_yaml(text)
    parsed.validate()
    assert set(parsed.service_names()) == {"collector", "jaeger", "tempo", "prometheus", "grafana"}


def test_the_collector_decides_after_spans_were_held() -> None:
    """A tail sampler waits longer than a span may be held, and reads attributes that we set."""
    sampling = read("collector.yaml")["processors"]["tail_sampling"]
    assert int(sampling["decision_wait"].rstrip("s")) > RagEvalConfig().hold_timeout
    keys = {
        policy[f"{kind}_attribute"]["key"]
        for policy in sampling["policies"]
        for kind in ("boolean", "string")
        if f"{kind}_attribute" in policy
    }
    assert keys == {semconv.EVAL_PASS, semconv.OPENINFERENCE_SPAN_KIND}


def test_every_name_is_one_of_ours() -> None:
    """Dashboard and alerts read only metrics and labels that are emitted."""
    emitted = {
        value.replace(".", "_")
        for name, value in vars(semconv).items()
        if isinstance(value, str) and name.startswith(("METRIC_", "EVAL_", "GEN_AI_"))
    }
    text = PANELS.read_text("utf-8")
    text += (FOLDER / "alerts.yml").read_text("utf-8")
    endings = r"(_seconds)?(_bucket|_sum|_count|_total)?$"
    named = {re.sub(endings, "", name) for name in re.findall(r"(?:rag_eval|gen_ai)_\w+", text)}
    assert named
    assert named <= emitted
    keys = {value for value in vars(semconv).values() if isinstance(value, str)}
    keys |= {semconv.eval_key(metric.id, "score") for metric in ALL_METRICS}
    assert set(re.findall(r"span\.([\w.]+)", PANELS.read_text("utf-8"))) <= keys
