"""The base class of sinks that send scores to the HTTP API of a platform."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from rag_eval_hooks import own_requests, semconv
from rag_eval_hooks.config import limits
from rag_eval_hooks.delivery.sink import Destination, Rejected, RetryLater, SpanUnknown
from rag_eval_hooks.errors import missing_extra
from rag_eval_hooks.explanation import prose
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.score import Score
from rag_eval_hooks.telemetry.signals import score_details


class PlatformSink(Destination):
    batch_size = 64
    content = False  # whether explanations may quote texts

    def __init__(
        self,
        name: str,
        url: str,
        *,
        key: str | None = None,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            # Raise `ImportError` at start-up, not at the first score.
            import_module("httpx")
        except ImportError as error:
            raise missing_extra(f"The {name} sink", "platforms") from error
        address = url if auth is None else f"{url}\n{auth[0]}"
        # A later process finds the sink's results in the spool by this hash.
        super().__init__(name, f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}")
        self._url, self._auth = url, auth
        self._headers = {**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})}
        self._connect: Callable[[], Any]
        # One client per call in flight, because a shared client searches all of its connections.
        self._idle: list[Any] = []

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        if isinstance(payload, Feedback) or not payload.scores:
            return False
        return payload.sample.trace_id is not None and payload.sample.span_id is not None

    def open(self, timeout: float) -> None:
        import httpx

        self._idle = []  # A forked process shares no connection with its parent.
        self._connect = partial(
            httpx.Client,
            base_url=self._url,
            auth=self._auth,
            timeout=timeout,
            headers={"accept-encoding": own_requests.ENCODINGS, **self._headers},
            event_hooks={"response": [_limit_reply]},
            verify=httpx.create_ssl_context(),
        )

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Send one HTTP request and return the response's JSON. Thread-safe."""
        import httpx

        client = self._client()
        try:
            with own_requests.quiet():
                response = client.request(method, path, **request)
        except own_requests.ReplyTooLongError as error:
            raise Rejected(str(error)) from None
        except httpx.TransportError as error:
            raise RetryLater(type(error).__name__) from None
        finally:
            self._idle.append(client)
        status = response.status_code
        if status == 404:
            raise SpanUnknown(response.text)
        if status in (408, 425, 429) or status >= 500:
            raise RetryLater(f"HTTP {status}", _seconds(response.headers.get("retry-after")))
        if not 200 <= status < 300:
            raise Rejected(f"HTTP {status}", is_for_all=status in (401, 403))
        try:
            return response.json() if response.content else None
        except ValueError:
            raise Rejected("no JSON") from None

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _client(self) -> Any:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def explanation(self, score: Score) -> str | None:
        return prose(score.explanation, limits.EXPLANATION_CHARS, content=self.content)

    def metadata(self, evaluation: Evaluation, name: str) -> dict[str, Any]:
        score, verdict = evaluation.scores[name], evaluation.verdicts.get(name)
        passed = {} if verdict is None else {"passed": verdict}
        return {"normalized": score.normalized, **passed, **score_details(score)}


def identifier(score: Score) -> str:
    return score.annotator or semconv.TRACER_NAME


def _limit_reply(response: Any) -> None:
    body = bytearray()
    own_requests.check_encoding(response)
    for piece in response.iter_bytes():
        own_requests.append(body, piece)
    # The client does not read a response that already has `_content`.
    response._content = bytes(body)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None
