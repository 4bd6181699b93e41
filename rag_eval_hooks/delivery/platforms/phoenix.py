"""A sink that sends scores to Arize Phoenix as annotations, through its REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink, identifier
from rag_eval_hooks.delivery.sink import SendError, SpanUnknown
from rag_eval_hooks.result import Evaluation


class PhoenixSink(PlatformSink):
    """Sends scores to Phoenix as annotations of the RAG span.

    One HTTP request contains the scores of several samples.

    Phoenix keeps one annotation per span, metric and judge. A second score replaces the first.

    If Phoenix does not have the span, Phoenix rejects the score, and the sink retries later. In the
    last attempt, the sink asks Phoenix to wait for the span. Phoenix waits at most ten minutes.

    Args:
        url: URL of Phoenix, such as `http://localhost:6006`.
        api_key: The server's key, or None. Logs never show the key.
    """

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        super().__init__("phoenix", url, key=api_key)

    def send(self, payloads: Sequence[Evaluation], *, last: bool) -> Mapping[int, SendError]:
        try:
            self._post(payloads, sync=True)
        except SpanUnknown as error:
            # For one unknown span, Phoenix rejects the whole request.
            names = [str(one.sample.span_id) for one in payloads]
            unknown = {n for n, name in enumerate(names) if name in error.answer}
            if not unknown and last and len(payloads) == 1:
                unknown = {0}
            if not unknown:
                raise
            if known := [one for n, one in enumerate(payloads) if n not in unknown]:
                self._post(known, sync=True)
            if not last:
                return {n: SpanUnknown() for n in unknown}
            self._post([payloads[n] for n in unknown], sync=False)
        return {}

    def _post(self, batch: Sequence[Evaluation], *, sync: bool) -> None:
        annotations = [self._annotation(one, name) for one in batch for name in one.scores]
        # Without `sync`, the response does not name the unknown spans.
        params = {"sync": "true" if sync else "false"}
        self.call("POST", "v1/span_annotations", params=params, json={"data": annotations})

    def _annotation(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        score, label = evaluation.scores[name], evaluation.label(name)
        values = {"score": score.value, "label": label, "explanation": self.explanation(score)}
        return {
            "span_id": evaluation.sample.span_id,
            "name": name,
            "annotator_kind": score.annotator_kind.value,
            "result": {key: value for key, value in values.items() if value is not None},
            "metadata": self.metadata(evaluation, name),
            "identifier": identifier(score),
        }
