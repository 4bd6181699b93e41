"""A sink that sends scores to Arize Phoenix as annotations, through its REST API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink, identifier
from rag_eval_hooks.delivery.sink import SendError
from rag_eval_hooks.result import Evaluation


class PhoenixSink(PlatformSink):
    """Sends scores to Phoenix as annotations of the RAG span.

    One HTTP request contains the scores of several samples. If the sink sends a score twice, the
    second annotation replaces the first. Phoenix accepts a score up to ten minutes before the span.

    Args:
        url: URL of Phoenix, such as `http://localhost:6006`.
        api_key: The server's key, or None. Logs never show the key.
        content: Whether explanations may quote texts. None means the setting `capture_content`.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, content: bool | None = None
    ) -> None:
        super().__init__("phoenix", url, content, key=api_key)

    def send(self, payloads: Sequence[Evaluation]) -> Mapping[int, SendError]:
        annotations = [self._annotation(one, name) for one in payloads for name in one.scores]
        # With `sync`, Phoenix would reject the whole request if one span has not arrived.
        params = {"sync": "false"}
        self.call("POST", "v1/span_annotations", params=params, json={"data": annotations})
        return {}

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
