"""Files of the examples fit their schemas, and name what exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from rag_eval_hooks import RagEvalConfig, semconv
from rag_eval_hooks.cli.main import build_parser
from rag_eval_hooks_celery.app import QUEUE

yaml = pytest.importorskip("yaml")
EXAMPLES: Final = Path(__file__).parents[2] / "examples"
COMPOSE: Final = EXAMPLES / "observability"
VERSION: Final = "1.34"


def documents() -> dict[str, Any]:
    text = (EXAMPLES / "kubernetes/fleet.yaml").read_text(encoding="utf-8")
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


def test_files_fit_their_schemas() -> None:
    compose_spec = pytest.importorskip("compose_spec")
    parsed = compose_spec.PyCompose.from_yaml((COMPOSE / "docker-compose.yml").read_text("utf-8"))
    parsed.validate()
    assert set(parsed.service_names()) == {"collector", "jaeger", "tempo", "prometheus", "grafana"}
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for kind, document in documents().items():
        if kind != "ScaledObject":  # KEDA's own kind, of which no package carries the schema.
            kubernetes_validate.validate(document, VERSION, strict=True)


def test_collector_decides_after_spans_were_held() -> None:
    collector = yaml.safe_load((COMPOSE / "collector.yaml").read_text("utf-8"))
    sampling = collector["processors"]["tail_sampling"]
    assert int(sampling["decision_wait"].rstrip("s")) > RagEvalConfig().hold_timeout
    keys = {
        policy[f"{kind}_attribute"]["key"]
        for policy in sampling["policies"]
        for kind in ("boolean", "string")
        if f"{kind}_attribute" in policy
    }
    assert keys == {semconv.EVAL_PASS, semconv.OPENINFERENCE_SPAN_KIND}


def test_fleet_manifest_names_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    given = documents()
    for name, value in given["ConfigMap"]["data"].items():
        monkeypatch.setenv(name, value)
    assert RagEvalConfig().budget["calls_per_second"] == 100.0
    deployment, scaled = given["Deployment"], given["ScaledObject"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {one["name"].removeprefix("RAG_EVAL_").lower() for one in container["env"]}
    assert variables <= set(RagEvalConfig.model_fields)
    assert callable(build_parser().parse_args(container["command"][1:]).run)
    assert scaled["triggers"][0]["metadata"]["listName"] == QUEUE
