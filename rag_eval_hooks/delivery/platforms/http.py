"""HTTP calls of sinks: an answer, or what its absence means."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from rag_eval_hooks.delivery.platforms.platform import Later, Refused, Unknown

__all__ = ["Http", "checked", "needs"]

_LATER: Final = (408, 425, 429)


class Http:
    """Calls one server over kept-alive connections.

    Args:
        url: Its base URL. Credentials in it are sent in a header: the client logs URLs.
        timeout: Seconds for connecting, and for each wait for bytes.
        headers: Sent with every request.
    """

    def __init__(self, url: str, timeout: float, headers: Mapping[str, str]) -> None:
        import httpx

        self._broken = (httpx.TransportError,)
        known = httpx.URL(url)
        user, password = known.username, known.password
        self._client = httpx.Client(
            base_url=known.copy_with(username="", password=""),
            auth=(user, password) if user or password else None,
            timeout=timeout,
            headers=dict(headers),
        )

    def call(self, method: str, path: str, **request: Any) -> Any:
        """The JSON that the server answers; None for no body.

        Raises:
            Later: It could not be reached, is busy, or failed.
            Unknown: It answered 404.
            Refused: It answered something else than success.
        """
        try:
            response = self._client.request(method, path, **request)
        except self._broken as error:
            raise Later(type(error).__name__) from None
        checked(response.status_code, response.headers)
        try:
            return response.json() if response.content else None
        except ValueError:
            raise Refused("no JSON") from None

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()


def checked(status: int, headers: Mapping[str, str]) -> None:
    """Returns for a success.

    Raises:
        Later: For 408, 425, 429 and 5xx.
        Unknown: For 404.
        Refused: For anything else.
    """
    if 200 <= status < 300:
        return
    if status == 404:
        raise Unknown
    if status in _LATER or status >= 500:
        raise Later(f"HTTP {status}", _seconds(headers.get("retry-after")))
    raise Refused(f"HTTP {status}")


def needs(module: str, extra: str) -> None:
    """Says at start-up what is missing, not at the first score.

    Raises:
        ImportError: The module is not there, or too old; the text names the pip command.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise ImportError(
            f'the {extra} sink needs {module}: pip install "rag-eval-hooks[{extra}]"'
        ) from error


def _seconds(text: str | None) -> float | None:
    """`Retry-After` in seconds; as a date it is ignored, the usual pauses do."""
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return None
