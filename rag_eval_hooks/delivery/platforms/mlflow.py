"""A sink that sends scores to MLflow as assessments, through its REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink, identifier
from rag_eval_hooks.delivery.sink import Rejected, SendError
from rag_eval_hooks.own_requests import suppressed
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.threads import DaemonExecutor

_TRACES: Final = "api/3.0/mlflow/traces"
_SPAN: Final = "rag_eval.span_id"
_LABEL: Final = "rag_eval.label"
_REQUESTS: Final = 96  # maximum number of samples per batch, and maximum number of threads
_Key: TypeAlias = tuple[str, str, str | None]


class MlflowSink(PlatformSink):
    """Sends scores to MLflow as feedback on the trace, with one HTTP request per score.

    For each sample, the sink first reads the trace's assessments. If an assessment has the score's
    name, source and span, the sink updates the assessment. Otherwise, the sink adds an assessment.

    Args:
        url: URL of the tracking server, such as `http://localhost:5000`.
        token: The server's token, or None. Logs never show the token.
    """

    batch_size = _REQUESTS

    def __init__(self, url: str, *, token: str | None = None) -> None:
        super().__init__("mlflow", url, key=token)
        self._threads = DaemonExecutor("rag-eval-hooks-mlflow", _REQUESTS)

    def send(self, payloads: Sequence[Evaluation], *, last: bool) -> Mapping[int, SendError]:
        calls = [self._threads.submit(self._send, evaluation) for evaluation in payloads]
        errors = {number: call.exception() for number, call in enumerate(calls)}
        if len(payloads) < _REQUESTS:
            # The queue is empty, so end the threads.
            self._threads.release()
        return {
            # Any other exception comes from an unexpected response.
            number: error if isinstance(error, SendError) else Rejected(type(error).__name__)
            for number, error in errors.items()
            if error is not None
        }

    def close(self) -> None:
        self._threads.release()
        super().close()

    def _send(self, evaluation: Evaluation) -> None:
        path = f"{_TRACES}/tr-{evaluation.sample.trace_id}"
        with suppressed():
            ids = _assessment_ids(self.call("GET", path))
            for name, score in evaluation.scores.items():
                body: dict[str, Any] = {"assessment": self._assessment(evaluation, name)}
                existing = ids.get((name, identifier(score), evaluation.sample.span_id))
                if existing is None:
                    self.call("POST", f"{path}/assessments", json=body)
                else:
                    body["update_mask"] = "feedback,rationale,metadata"
                    self.call("PATCH", f"{path}/assessments/{existing}", json=body)

    def _assessment(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        sample, score = evaluation.sample, evaluation.scores[name]
        now = datetime.fromtimestamp(evaluation.end / 1e9, UTC).isoformat().replace("+00:00", "Z")
        # MLflow accepts only text as metadata values.
        metadata = {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in self.metadata(evaluation, name).items()
        }
        if (label := evaluation.label(name)) is not None:
            metadata[_LABEL] = label
        body = {
            "assessment_name": name,
            "trace_id": f"tr-{sample.trace_id}",
            "source": {
                "source_type": "LLM_JUDGE" if score.annotator_kind == "LLM" else "CODE",
                "source_id": identifier(score),
            },
            "create_time": now,
            "last_update_time": now,
            "feedback": {"value": score.value},
            "metadata": {**metadata, _SPAN: sample.span_id},
        }
        explanation = self.explanation(score)
        return body if explanation is None else {**body, "rationale": explanation}


def _assessment_ids(answer: Any) -> Mapping[_Key, str]:
    assessments = answer["trace"]["trace_info"].get("assessments", ())
    ids = {}
    for one in assessments:
        if _SPAN in one.get("metadata", {}):
            key = one["assessment_name"], one["source"]["source_id"], one["metadata"][_SPAN]
            ids[key] = one["assessment_id"]
    return ids
