"""Manifests of the examples: valid by Kubernetes' schemas, KEDA's, and our own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from rag_eval_hooks import RagEvalConfig
from rag_eval_hooks.cli.main import build_parser
from rag_eval_hooks_celery.app import QUEUE

kubernetes_validate = pytest.importorskip("kubernetes_validate")
jsonschema = pytest.importorskip("jsonschema")
yaml = pytest.importorskip("yaml")

MANIFEST: Final = Path(__file__).parents[2] / "examples/kubernetes/fleet.yaml"
VERSION: Final = "1.34"
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
SCALED_OBJECT: Final = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["scaleTargetRef", "triggers"],
            "additionalProperties": False,
            "properties": {
                "scaleTargetRef": {"type": "object", "required": ["name"]},
                "minReplicaCount": {"type": "integer", "minimum": 0},
                "maxReplicaCount": {"type": "integer", "minimum": 1},
                "pollingInterval": {"type": "integer", "minimum": 1},
                "cooldownPeriod": {"type": "integer", "minimum": 0},
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["type", "metadata"],
                        "additionalProperties": False,
                        "properties": {"type": {"const": "prometheus"}, "metadata": _TEXTS},
                    },
                },
            },
        },
    },
}
"""The part of KEDA's definition that a Prometheus scaler needs, as its documentation gives it."""


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def test_manifests_fit_their_schemas(documents: dict[str, Any]) -> None:
    """Each manifest is valid; a misspelt field is not, so the schemas do look."""
    for kind, document in documents.items():
        if kind == "ScaledObject":
            jsonschema.validate(document, SCALED_OBJECT)
            wrong = {**document["spec"], "maxReplicas": 3}
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**document, "spec": wrong}, SCALED_OBJECT)
        else:
            kubernetes_validate.validate(document, VERSION, strict=True)
            with pytest.raises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate({**document, "sepc": {}}, VERSION, strict=True)


def test_manifests_name_what_exists(
    documents: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings, command, metrics and the target of the scaler exist."""
    for name, value in documents["ConfigMap"]["data"].items():
        monkeypatch.setenv(name, value)
    config = RagEvalConfig()
    assert config.metrics == ("ragas",)
    assert config.calls_per_second == 100.0
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
