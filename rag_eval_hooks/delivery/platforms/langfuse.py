"""Scores in Langfuse, by its public client."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from rag_eval_hooks.delivery.platforms.http import checked, needs
from rag_eval_hooks.delivery.platforms.platform import Later, Refused, Report, Result, Unknown
from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.errors import ConfigError

__all__ = ["LangfuseSink"]


class LangfuseSink(PlatformSink):
    """Writes each score with the trace's and the RAG span's id.

    Ids are made from span, name and identifier, so a score sent again replaces the first.
    Langfuse takes scores before their spans.

    Args:
        url: Where Langfuse is, such as `https://cloud.langfuse.com`.
        public_key: The project's public key.
        secret_key: Its secret key; never printed.
        content: Whether comments may quote the application's texts; None for what the setting
            `capture_content` says.

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
        super().__init__(
            "langfuse",
            lambda timeout: _Langfuse(url, public_key, secret_key, timeout),
            address=f"{url}\n{public_key}",
            content=content,
        )


class _Langfuse:
    def __init__(self, url: str, public_key: str, secret_key: str, timeout: float) -> None:
        import httpx
        from langfuse.api.client import LangfuseAPI
        from langfuse.api.core.api_error import ApiError

        self._broken, self._failed = httpx.TransportError, ApiError
        self._client = httpx.Client(timeout=timeout)
        # The part of the client that only calls; the whole one would set up tracing of its own.
        self._api = LangfuseAPI(
            base_url=url,
            username=public_key,
            password=secret_key,
            x_langfuse_public_key=public_key,
            httpx_client=self._client,
        )

    def send(self, report: Report, *, last: bool) -> None:
        from langfuse.api.scores.types.create_score_request import CreateScoreRequest

        scores = [CreateScoreRequest(**_score(report, result)) for result in report.results]
        try:
            # The retries are ours: the client's would go on for longer than they may.
            answer = self._api.scores.create(request=scores, request_options={"max_retries": 0})
        except self._broken as error:
            raise Later(type(error).__name__) from None
        except self._failed as error:
            _raise(error)
        else:
            if getattr(answer, "rejected", 0):
                raise Refused("some scores rejected")

    def close(self) -> None:
        self._client.close()


def _raise(error: Any) -> None:
    try:
        checked(error.status_code or 500, error.headers or {})
    except Unknown:
        # Scores need no span here: it is the wrong address.
        raise Refused("HTTP 404") from None


def _score(report: Report, result: Result) -> dict[str, Any]:
    identity = "\n".join((report.trace_id, report.span_id, result.name, result.identifier))
    told = {
        "id": hashlib.sha256(identity.encode()).hexdigest()[:32],
        "trace_id": report.trace_id,
        "observation_id": report.span_id,
        "name": result.name,
        "value": result.value,
        "data_type": "NUMERIC",
        "comment": result.explanation,
        "timestamp": datetime.fromtimestamp(report.time / 1e9, UTC),
        "metadata": {
            **result.metadata,
            "annotator_kind": result.annotator_kind,
            "identifier": result.identifier,
            **({} if result.label is None else {"label": result.label}),
        },
    }
    return {key: value for key, value in told.items() if value is not None}
