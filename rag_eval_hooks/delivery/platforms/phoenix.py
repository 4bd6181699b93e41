"""Scores as annotations in Arize Phoenix, by its REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.delivery.destination import SendError, SpanUnknown
from rag_eval_hooks.delivery.platforms.platform import HttpSink, Report, Result

__all__ = ["PhoenixSink", "from_settings"]

_PATH = "v1/span_annotations"


def from_settings(url: str, key: str | None) -> PhoenixSink:
    """Return the sink that `phoenix:<url>` names, with its key in `sink_keys`."""
    return PhoenixSink(url, api_key=key)


class PhoenixSink(HttpSink):
    """Writes each score as an annotation of the RAG span, those of several samples in a request.

    Phoenix has one annotation by span, name and identifier, so one sent again replaces the
    first. A span that it does not have yet is waited for. At the last try the annotation is left
    with Phoenix, which keeps it for ten minutes until the span arrives.

    Args:
        url: URL of Phoenix, such as `http://localhost:6006`.
        api_key: Its key, if it requires one; never printed.
        content: Whether explanations may quote the application's texts; None for the setting
            `capture_content`.

    Raises:
        ImportError: The extra `phoenix` is not installed.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, content: bool | None = None
    ) -> None:
        super().__init__("phoenix", url, api_key, content)

    def send_reports(self, reports: Sequence[Report], *, last: bool) -> Mapping[int, SendError]:
        """Post the annotations; one unknown span fails a whole request, which names it."""
        try:
            self._post(reports, sync=True)
        except SpanUnknown as error:
            unknown = [n for n, one in enumerate(reports) if one.span_id in error.answer]
            if last and (unknown or len(reports) == 1):
                self._post([reports[n] for n in unknown] or reports, sync=False)
                unknown_errors: dict[int, SendError] = {}
            elif unknown:
                unknown_errors = {n: SpanUnknown() for n in unknown}
            else:
                raise
            known = [one for n, one in enumerate(reports) if n not in unknown]
            if unknown and known:
                self._post(known, sync=True)
            return unknown_errors
        return {}

    def _post(self, reports: Sequence[Report], *, sync: bool) -> None:
        annotations = [
            _annotation(one.span_id, result) for one in reports for result in one.results
        ]
        # Only with `sync` the answer says whether the spans exist.
        params = {"sync": "true" if sync else "false"}
        self.call("POST", _PATH, params=params, json={"data": annotations})


def _annotation(span_id: str, result: Result) -> dict[str, Any]:
    values = {"score": result.value, "label": result.label, "explanation": result.explanation}
    return {
        "span_id": span_id,
        "name": result.name,
        "annotator_kind": result.annotator_kind,
        "result": {key: value for key, value in values.items() if value is not None},
        "metadata": dict(result.metadata),
        "identifier": result.identifier,
    }
