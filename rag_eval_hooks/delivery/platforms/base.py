"""Base of the sinks for evaluation platforms: their form of scores, and HTTP."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from rag_eval_hooks import own_requests, semconv
from rag_eval_hooks.delivery.sink import (
    Destination,
    Rejected,
    RetryLater,
    SendError,
    SpanUnknown,
)
from rag_eval_hooks.errors import ConfigError, missing_extra
from rag_eval_hooks.explanation_text import prose
from rag_eval_hooks.feedback import Feedback
from rag_eval_hooks.result import Evaluation
from rag_eval_hooks.telemetry.evaluation_span import score_details

__all__ = ["HttpSink", "PlatformScore", "PlatformSink"]

_CONNECTIONS: Final = 96
_RETRIED: Final = (408, 425, 429)
_REFUSED_KEY: Final = (401, 403)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformScore:
    """One score in the form that platforms store; `time` in nanoseconds since the epoch.

    Name, span and `identifier` (the judge) together identify a score, so that one sent again
    replaces the first. `label` is the metric's own, else `pass` or `fail` by its threshold.
    """

    trace_id: str
    span_id: str
    time: int
    name: str
    value: float
    label: str | None
    explanation: str | None
    annotator_kind: str
    identifier: str
    metadata: Mapping[str, Any]


class PlatformSink(Destination):
    """Sends scores to a platform that stores traces, in the background.

    A platform implements `open`, `send_scores` and `close`. With a spool, scores stay in it until
    the platform has accepted them.

    Args:
        name: Name of the platform in counts and logs.
        address: Text that distinguishes it from others of its name, such as its URL: results
            spooled for one address are sent to no other. Only its hash is written down.
        content: Whether explanations may quote the application's texts; None for the setting
            `capture_content`.
    """

    batch_size = 64

    def __init__(self, name: str, *, address: str = "", content: bool | None = None) -> None:
        # A URL may hold credentials.
        super().__init__(name, f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}")
        self._wants_content = content
        self._content = False
        self._max_chars = 0
        self._no_span = 0
        self._user: Callable[[], Any] | None = None
        self._process = 0

    def claim(self, user: Callable[[], Any]) -> None:
        """Reserve the sink until the dispatcher of a weak reference is closed or collected.

        Raises:
            ConfigError: Another dispatcher of this process uses it.
        """
        current = None if self._user is None or self._process != os.getpid() else self._user()
        if current is not None and not current.is_closed and current is not user():
            raise ConfigError("sinks", self.name, "a sink of its own for each RagEval")
        self._user, self._process = user, os.getpid()

    def configure(self, *, content: bool, max_chars: int) -> None:
        """Apply the settings, with nothing waiting; called at start and in a forked child."""
        self._content = content if self._wants_content is None else self._wants_content
        self._max_chars = max_chars
        self._no_span = 0

    def books(self) -> Mapping[str, int]:
        """Return the samples taken, sent, lost and waiting, and those without a recorded span.

        With a spool also those `spooled`: left in it for later, for this process or another.
        """
        names = ("taken", "sent", "lost", *(["spooled"] if "spooled" in self.counts else []))
        books = {name: self.counts[name] for name in names}
        waiting = books["taken"] - sum(books[name] for name in names[1:])
        return {**books, "waiting": waiting, "no_span": self._no_span}

    def accepts(self, payload: Evaluation | Feedback) -> bool:
        """Return whether a result has scores and a recorded span to attach them to."""
        if isinstance(payload, Feedback) or not payload.scores:
            return False
        if payload.sample.trace_id is None or payload.sample.span_id is None:
            self._no_span += 1
            return False
        return True

    def send(
        self, payloads: Sequence[Evaluation | Feedback], *, last: bool
    ) -> Mapping[int, BaseException]:
        """Send the scores of several samples; see `Destination.send`."""
        batch = [self._scores(one) for one in payloads if isinstance(one, Evaluation)]
        try:
            return self.send_scores(batch, last=last)
        except SendError:
            raise
        except Exception as error:  # noqa: BLE001 - the sink's edge: a client's own errors
            raise Rejected(type(error).__name__, is_for_all=False) from None

    def send_scores(
        self, batch: Sequence[Sequence[PlatformScore]], *, last: bool
    ) -> Mapping[int, SendError]:
        """Send scores; sending them again changes nothing.

        Args:
            batch: Scores of one sample each, at least one; at most `batch_size` samples.
            last: Whether they are not tried again.

        Returns:
            Failure by index in `batch`; all others were accepted.

        Raises:
            SendError: Failure of all: `RetryLater`, `SpanUnknown` or `Rejected`.
        """
        raise NotImplementedError

    def _scores(self, evaluation: Evaluation) -> list[PlatformScore]:
        verdicts = evaluation.verdicts
        return [
            PlatformScore(
                trace_id=evaluation.sample.trace_id or "",
                span_id=evaluation.sample.span_id or "",
                time=evaluation.end,
                name=name,
                value=score.value,
                label=evaluation.label(name),
                explanation=prose(score.explanation, self._max_chars, content=self._content),
                annotator_kind=score.annotator_kind.value,
                identifier=score.annotator or semconv.TRACER_NAME,
                metadata={
                    "normalized": score.normalized,
                    **({"passed": verdicts[name]} if name in verdicts else {}),
                    **score_details(score),
                },
            )
            for name, score in evaluation.scores.items()
        ]


class HttpSink(PlatformSink):
    """Platform with a JSON API behind one URL.

    Credentials in the URL are sent in a header, because the client logs URLs.

    Args:
        name: Name of the platform.
        url: Base URL.
        content: As of `PlatformSink`.
        headers: Headers of every request.
        key: Bearer key, or None.
        auth: User and password, or None.

    Raises:
        ImportError: The extra is not installed.
    """

    def __init__(
        self,
        name: str,
        url: str,
        content: bool | None,
        *,
        key: str | None = None,
        auth: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            # At start-up rather than at the first score.
            import_module("httpx")
        except ImportError as error:
            raise missing_extra(f"The {name} sink", "platforms") from error
        super().__init__(
            name, address=url if auth is None else f"{url}\n{auth[0]}", content=content
        )
        self._url, self._auth = url, auth
        self._headers = dict(headers or {})
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"
        self._client: Any = None

    def open(self, timeout: float) -> None:
        """Make the client, which keeps connections alive."""
        import httpx

        url = httpx.URL(self._url)
        in_url = (url.username, url.password) if url.username or url.password else None
        self._client = httpx.Client(
            base_url=url.copy_with(username="", password=""),
            auth=self._auth or in_url,
            timeout=timeout,
            headers={"accept-encoding": own_requests.ENCODINGS, **self._headers},
            event_hooks={"response": [_limit_reply]},
            # A new connection takes longer than most requests.
            limits=httpx.Limits(max_keepalive_connections=_CONNECTIONS),
        )

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Return the JSON of the answer; None for no body. Thread-safe.

        Raises:
            RetryLater: The server could not be reached, is busy (408, 425, 429), or failed (5xx).
            SpanUnknown: It answered 404.
            Rejected: It answered anything else but success.
        """
        import httpx

        try:
            with own_requests.quiet():
                response = self._client.request(method, path, **request)
        except own_requests.ReplyTooLongError as error:
            raise Rejected(str(error)) from None
        except httpx.TransportError as error:
            raise RetryLater(type(error).__name__) from None
        status = response.status_code
        if status == 404:
            raise SpanUnknown(response.text)
        if status in _RETRIED or status >= 500:
            raise RetryLater(f"HTTP {status}", _seconds(response.headers.get("retry-after")))
        if not 200 <= status < 300:
            raise Rejected(f"HTTP {status}", is_for_all=status in _REFUSED_KEY)
        try:
            return response.json() if response.content else None
        except ValueError:
            raise Rejected("no JSON") from None

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()


def _limit_reply(response: Any) -> None:
    body = bytearray()
    own_requests.check_encoding(response)
    for piece in response.iter_bytes():
        own_requests.taken(body, piece)
    own_requests.replace_body(response, bytes(body))


def _seconds(text: str | None) -> float | None:
    """Return `Retry-After` in seconds; None for a date, for which the usual pauses do."""
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None
