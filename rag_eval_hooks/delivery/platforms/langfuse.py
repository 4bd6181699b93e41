"""A sink that sends scores to Langfuse through its public API."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink, identifier
from rag_eval_hooks.delivery.sink import Rejected, SendError, SpanUnknown
from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.result import Evaluation


class LangfuseSink(PlatformSink):
    """Sends scores to Langfuse, with the ids of the trace and the RAG span.

    A score's id is a hash of its trace, span, metric and judge. A second score with the same id
    replaces the first score. Langfuse accepts a score that arrives before its span.

    Args:
        url: URL of Langfuse, such as `https://cloud.langfuse.com`.
        public_key: The project's public key.
        secret_key: The project's secret key. Logs never show the key.

    Raises:
        ConfigError: The URL contains credentials.
    """

    def __init__(self, url: str, *, public_key: str, secret_key: str) -> None:
        if "@" in urlsplit(url).netloc:
            wants = "a URL without credentials. Pass `public_key` and `secret_key`"
            raise ConfigError("url", url, wants)
        headers = {"x-langfuse-public-key": public_key}
        super().__init__("langfuse", url, auth=(public_key, secret_key), headers=headers)

    def send(self, payloads: Sequence[Evaluation], *, last: bool) -> Mapping[int, SendError]:
        scores = [(n, one, name) for n, one in enumerate(payloads) for name in one.scores]
        body = [self._score(one, name) for _, one, name in scores]
        try:
            answer = self.call("POST", "api/public/scores", json=body)
        except SpanUnknown:
            # Langfuse accepts a score before its span, so status 404 means a wrong URL.
            raise Rejected("HTTP 404") from None
        if not answer.get("rejected"):
            return {}
        rejected = {error.get("index") for error in answer.get("errors") or ()}
        places = {n for index, (n, _, _) in enumerate(scores) if index in rejected}
        return dict.fromkeys(places or range(len(payloads)), Rejected("some scores rejected"))

    def _score(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        sample, score = evaluation.sample, evaluation.scores[name]
        identity = f"{sample.trace_id}\n{sample.span_id}\n{name}\n{identifier(score)}"
        label = evaluation.label(name)
        body = {
            "id": hashlib.sha256(identity.encode()).hexdigest()[:32],
            "traceId": sample.trace_id,
            "observationId": sample.span_id,
            "name": name,
            "value": score.value,
            "dataType": "NUMERIC",
            "comment": self.explanation(score),
            "timestamp": datetime.fromtimestamp(evaluation.end / 1e9, UTC).isoformat(),
            "metadata": {
                **self.metadata(evaluation, name),
                "annotator_kind": score.annotator_kind.value,
                "identifier": identifier(score),
                **({} if label is None else {"label": label}),
            },
        }
        return {key: value for key, value in body.items() if value is not None}
