"""Scores in Langfuse, by its public client."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from rag_eval_hooks.delivery.platforms.base import (
    PlatformScore,
    PlatformSink,
    SpanScores,
    checked,
    needs,
)
from rag_eval_hooks.delivery.sink import Rejected, RetryLater, SendError, SpanUnknown
from rag_eval_hooks.errors import ConfigError

__all__ = ["LangfuseSink", "from_settings"]


def from_settings(url: str, key: str | None) -> LangfuseSink:
    """Return the sink that `langfuse:<url>` names, with its keys in `sink_keys`.

    Raises:
        ConfigError: The keys are missing or have another form.
    """
    public, _, secret = (key or "").partition(":")
    if not (public and secret):
        raise ConfigError(
            "sink_keys",
            key and "**********",
            "langfuse=<public key>:<secret key> for the Langfuse sink",
        )
    return LangfuseSink(url, public_key=public, secret_key=secret)


class LangfuseSink(PlatformSink):
    """Writes each score with the ids of the trace and the RAG span, several samples in a request.

    Ids are made from span, name and identifier, so a score sent again replaces the first.
    Langfuse accepts scores before their spans.

    Args:
        url: URL of Langfuse, such as `https://cloud.langfuse.com`.
        public_key: The project's public key.
        secret_key: Its secret key; never printed.
        content: Whether comments may quote the application's texts; None for the setting
            `capture_content`.

    Raises:
        ConfigError: The URL has credentials.
        ImportError: The extra `langfuse` is not installed.
    """

    def __init__(
        self, url: str, *, public_key: str, secret_key: str, content: bool | None = None
    ) -> None:
        needs("langfuse.api.scores", "langfuse")
        if "@" in urlsplit(url).netloc:
            raise ConfigError("url", url, "a URL without credentials: the keys have arguments")
        super().__init__("langfuse", address=f"{url}\n{public_key}", content=content)
        self._url, self._public_key, self._secret_key = url, public_key, secret_key
        self._client: Any = None

    def open(self, timeout: float) -> None:
        """Make the client."""
        import httpx
        from langfuse.api.client import LangfuseAPI

        self._client = httpx.Client(timeout=timeout)
        # The part of the client that only calls; the whole one would set up tracing of its own.
        self._api = LangfuseAPI(
            base_url=self._url,
            username=self._public_key,
            password=self._secret_key,
            x_langfuse_public_key=self._public_key,
            httpx_client=self._client,
        )

    def send_scores(self, batch: Sequence[SpanScores], *, last: bool) -> Mapping[int, SendError]:
        """Send all scores in one request; Langfuse names those that it rejects."""
        import httpx
        from langfuse.api.core.api_error import ApiError
        from langfuse.api.scores.types.create_score_request import CreateScoreRequest

        scores = [(n, score) for n, one in enumerate(batch) for score in one.scores]
        body = [CreateScoreRequest(**_score(batch[n], score)) for n, score in scores]
        try:
            # The outbox retries: the client would go on for longer than it may.
            answer = self._api.scores.create(request=body, request_options={"max_retries": 0})
        except httpx.TransportError as error:
            raise RetryLater(type(error).__name__) from None
        except ApiError as error:
            try:
                checked(error.status_code or 500, error.headers or {})
            except SpanUnknown:
                # Scores need no span here: the address is wrong.
                raise Rejected("HTTP 404") from None
            return {}
        if not getattr(answer, "rejected", 0):
            return {}
        rejected = {getattr(error, "index", -1) for error in getattr(answer, "errors", None) or ()}
        places = {n for index, (n, _) in enumerate(scores) if index in rejected}
        return dict.fromkeys(places or range(len(batch)), Rejected("some scores rejected"))

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def _score(span: SpanScores, score: PlatformScore) -> dict[str, Any]:
    identity = "\n".join((span.trace_id, span.span_id, score.name, score.identifier))
    body = {
        "id": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "trace_id": span.trace_id,
        "observation_id": span.span_id,
        "name": score.name,
        "value": score.value,
        "data_type": "NUMERIC",
        "comment": score.explanation,
        "timestamp": datetime.fromtimestamp(span.time / 1e9, UTC),
        "metadata": {
            **score.metadata,
            "annotator_kind": score.annotator_kind,
            "identifier": score.identifier,
            **({} if score.label is None else {"label": score.label}),
        },
    }
    return {key: value for key, value in body.items() if value is not None}
