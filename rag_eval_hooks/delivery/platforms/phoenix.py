"""Scores as annotations in Arize Phoenix, by its REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.delivery.platforms.base import HttpSink, PlatformScore
from rag_eval_hooks.delivery.sink import SendError, SpanUnknown

__all__ = ["PhoenixSink"]

_PATH = "v1/span_annotations"


class PhoenixSink(HttpSink):
    """Writes each score as an annotation of the RAG span, several samples in a request.

    Phoenix has one annotation by span, name and identifier, so one sent again replaces the
    first. A span that it does not have yet is waited for. At the last try the annotation is left
    with Phoenix, which keeps it for ten minutes until the span arrives.

    Args:
        url: URL of Phoenix, such as `http://localhost:6006`.
        api_key: Its key, if it requires one; never printed.
        content: Whether explanations may quote the application's texts; None for the setting
            `capture_content`.

    Raises:
        ImportError: The extra `platforms` is not installed.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, content: bool | None = None
    ) -> None:
        super().__init__("phoenix", url, content, key=api_key)

    def send_scores(
        self, batch: Sequence[Sequence[PlatformScore]], *, last: bool
    ) -> Mapping[int, SendError]:
        """Post the annotations; one unknown span fails a whole request, which names it."""
        try:
            self._post(batch, sync=True)
        except SpanUnknown as error:
            unknown = [n for n, one in enumerate(batch) if one[0].span_id in error.answer]
            if not unknown and not (last and len(batch) == 1):
                raise
            if last:
                self._post([batch[n] for n in unknown] or batch, sync=False)
            known = [one for n, one in enumerate(batch) if n not in unknown]
            if unknown and known:
                self._post(known, sync=True)
            return {} if last else {n: SpanUnknown() for n in unknown}
        return {}

    def _post(self, batch: Sequence[Sequence[PlatformScore]], *, sync: bool) -> None:
        annotations = [_annotation(score) for scores in batch for score in scores]
        # Only with `sync` the answer says whether the spans exist.
        params = {"sync": "true" if sync else "false"}
        self.call("POST", _PATH, params=params, json={"data": annotations})


def _annotation(score: PlatformScore) -> dict[str, Any]:
    values = {"score": score.value, "label": score.label, "explanation": score.explanation}
    return {
        "span_id": score.span_id,
        "name": score.name,
        "annotator_kind": score.annotator_kind,
        "result": {key: value for key, value in values.items() if value is not None},
        "metadata": dict(score.metadata),
        "identifier": score.identifier,
    }
