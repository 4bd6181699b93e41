"""Manifests of the examples: valid by Kubernetes' schemas, and our own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.cli.main import build_parser
from rag_eval_hooks_celery.app import QUEUE

kubernetes_validate = pytest.importorskip("kubernetes_validate")
yaml = pytest.importorskip("yaml")

MANIFEST: Final = Path(__file__).parents[2] / "examples/kubernetes/fleet.yaml"
VERSION: Final = "1.34"


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def test_manifests_fit_their_schemas(documents: dict[str, Any]) -> None:
    for kind, document in documents.items():
        if kind == "ScaledObject":
            continue  # KEDA's own kind, of which no package carries the schema.
        kubernetes_validate.validate(document, VERSION, strict=True)


def test_manifests_name_what_exists(
    documents: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, command, metrics and the target of the scaler exist."""
    for name, value in documents["ConfigMap"]["data"].items():
        monkeypatch.setenv(name, value)
    config = RagEvalConfig()
    assert config.metrics == ("ragas",)
    assert config.budget["calls_per_second"] == 100.0
    deployment, scaled = documents["Deployment"], documents["ScaledObject"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables = {one["name"].removeprefix("RAG_EVAL_").lower() for one in container["env"]}
    assert variables <= set(RagEvalConfig.model_fields)
    program, *arguments = container["command"]
    assert program == "rag-eval-hooks"
    assert callable(build_parser().parse_args(arguments).run)
    (trigger,) = scaled["triggers"]
    assert trigger["metadata"]["listName"] == QUEUE
