"""Scores as annotations in Arize Phoenix, by its REST API."""

from __future__ import annotations

from typing import Any

from rag_eval_hooks.delivery.platforms.http import Http, needs
from rag_eval_hooks.delivery.platforms.platform import Report, Result, Unknown
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink

__all__ = ["PhoenixSink"]

_PATH = "v1/span_annotations"


class PhoenixSink(PlatformSink):
    """Writes each score as an annotation of the RAG span.

    Phoenix has one annotation by span, name and identifier, so one sent again replaces the
    first. A span that it does not have yet is waited for; in the end the annotation is left with
    Phoenix, which keeps it for ten minutes until the span arrives.

    Args:
        url: Where Phoenix is, such as `http://localhost:6006`.
        api_key: Its key, where it wants one; never printed.
        content: Whether explanations may quote the application's texts; None for what the
            setting `capture_content` says.

    Raises:
        ImportError: The extra `phoenix` is not installed.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, content: bool | None = None
    ) -> None:
        needs("httpx", "phoenix")
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        super().__init__(
            "phoenix",
            lambda timeout: _Phoenix(Http(url, timeout, headers)),
            address=url,
            content=content,
        )


class _Phoenix:
    def __init__(self, http: Http) -> None:
        self._http = http

    def send(self, report: Report, *, last: bool) -> None:
        body = {"data": [_annotation(report.span_id, result) for result in report.results]}
        try:
            # Only this way it says whether the span is there.
            self._http.call("POST", _PATH, params={"sync": "true"}, json=body)
        except Unknown:
            if not last:
                raise
            self._http.call("POST", _PATH, params={"sync": "false"}, json=body)

    def close(self) -> None:
        self._http.close()


def _annotation(span_id: str, result: Result) -> dict[str, Any]:
    told = {"score": result.value, "label": result.label, "explanation": result.explanation}
    return {
        "span_id": span_id,
        "name": result.name,
        "annotator_kind": result.annotator_kind,
        "result": {key: value for key, value in told.items() if value is not None},
        "metadata": dict(result.metadata),
        "identifier": result.identifier,
    }
