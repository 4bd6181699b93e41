"""Scores as assessments in MLflow, by its REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from rag_eval_hooks.delivery.platforms.http import Http, needs
from rag_eval_hooks.delivery.platforms.platform import Report, Result
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink

__all__ = ["MlflowSink"]

_TRACES: Final = "api/3.0/mlflow/traces"
_SPAN: Final = "rag_eval.span_id"
_LABEL: Final = "rag_eval.label"
_Key: TypeAlias = tuple[str, str, str]


class MlflowSink(PlatformSink):
    """Writes each score as feedback on the trace.

    MLflow gives every assessment an id of its own, so the trace is read first: an assessment of
    the same name, source and span is updated, any other is added.

    Args:
        url: Where the tracking server is, such as `http://localhost:5000`.
        token: Its token, where it wants one; never printed.
        content: Whether rationales may quote the application's texts; None for what the setting
            `capture_content` says.

    Raises:
        ImportError: The extra `mlflow` is not installed.
    """

    def __init__(self, url: str, *, token: str | None = None, content: bool | None = None) -> None:
        needs("httpx", "mlflow")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        super().__init__(
            "mlflow",
            lambda timeout: _Mlflow(Http(url, timeout, headers)),
            address=url,
            content=content,
        )


class _Mlflow:
    def __init__(self, http: Http) -> None:
        self._http = http

    def send(self, report: Report, *, last: bool) -> None:
        path = f"{_TRACES}/tr-{report.trace_id}"
        known = _known(self._http.call("GET", path))
        for result in report.results:
            assessment = _assessment(report, result)
            found = known.get((result.name, result.identifier, report.span_id))
            if found is None:
                self._http.call("POST", f"{path}/assessments", json={"assessment": assessment})
            else:
                body = {"assessment": assessment, "update_mask": "feedback,rationale,metadata"}
                self._http.call("PATCH", f"{path}/assessments/{found}", json=body)

    def close(self) -> None:
        self._http.close()


def _known(answer: Any) -> Mapping[_Key, str]:
    """Ids of the assessments that we wrote, by name, source and span."""
    found = answer["trace"]["trace_info"].get("assessments", ())
    return {
        (one["assessment_name"], one["source"]["source_id"], one["metadata"][_SPAN]): one[
            "assessment_id"
        ]
        for one in found
        if _SPAN in one.get("metadata", {})
    }


def _assessment(report: Report, result: Result) -> dict[str, Any]:
    now = datetime.fromtimestamp(report.time / 1e9, UTC).isoformat().replace("+00:00", "Z")
    about = {key: _text(value) for key, value in result.metadata.items()}
    if result.label is not None:
        about[_LABEL] = result.label
    told = {
        "assessment_name": result.name,
        "trace_id": f"tr-{report.trace_id}",
        "source": {
            "source_type": "LLM_JUDGE" if result.annotator_kind == "LLM" else "CODE",
            "source_id": result.identifier,
        },
        "create_time": now,
        "last_update_time": now,
        "feedback": {"value": result.value},
        "metadata": {**about, _SPAN: report.span_id},
    }
    return told if result.explanation is None else {**told, "rationale": result.explanation}


def _text(value: Any) -> str:
    """MLflow's metadata are texts."""
    return value if isinstance(value, str) else json.dumps(value)
