"""A real Phoenix, and what its APIs tell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_port
from tests.viewers.processes import executable, serving

SPANS = """
query ($condition: String) {
  projects { edges { node { id name
    spans(first: 1000, filterCondition: $condition) { edges { node {
      id spanId name attributes input { value } trace { traceId } spanAnnotations {
        name score label explanation annotatorKind identifier } } } } } } }
}
"""


@dataclass(frozen=True)
class Phoenix:
    url: str

    def spans(self, condition: str | None = None) -> dict[str, dict[str, Any]]:
        body = {"query": SPANS, "variables": {"condition": condition}}
        answer = httpx.post(f"{self.url}/graphql", json=body, timeout=30).json()
        assert not answer.get("errors"), answer
        (project,) = [edge["node"] for edge in answer["data"]["projects"]["edges"]]
        found = [edge["node"] for edge in project["spans"]["edges"]]
        return {node["spanId"]: {**node, "project": project["id"]} for node in found}

    def annotations(self, span_id: str) -> dict[str, dict[str, Any]]:
        path = f"{self.url}/v1/projects/default/span_annotations"
        query: dict[str, Any] = {"span_ids": span_id, "limit": 1000}
        found = httpx.get(path, params=query, timeout=30).raise_for_status().json()["data"]
        by_name = {one["name"]: one for one in found}
        assert len(by_name) == len(found), "a score stands there twice"
        return by_name


@contextlib.contextmanager
def phoenix(folder: Path) -> Iterator[Phoenix]:
    command = executable("phoenix", "RAGEVAL_PHOENIX")
    port = free_port()
    variables = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    url = f"http://127.0.0.1:{port}"
    with serving([command, "serve"], folder, f"{url}/healthz", variables):
        yield Phoenix(url)
