"""The platform sinks that settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from rag_eval_hooks.delivery.platforms.platform_sink import PlatformSink
from rag_eval_hooks.errors import ConfigError

__all__ = ["PLATFORMS", "is_platform", "platform_sink"]

Keys = Mapping[str, SecretStr]


def is_platform(spec: object) -> bool:
    """Whether a text names a platform, rightly or wrongly: `phoenix:<url>`."""
    return isinstance(spec, str) and spec.partition(":")[0] in PLATFORMS


def platform_sink(spec: str, keys: Keys) -> PlatformSink:
    """The sink of a text such as `phoenix:http://localhost:6006`.

    Args:
        spec: Kind and base URL.
        keys: Key by kind; for Langfuse `<public key>:<secret key>`.

    Raises:
        ConfigError: There is no such kind, the URL is none, or the key does not fit.
        ImportError: The extra of that kind is not installed.
    """
    kind, _, url = spec.partition(":")
    if kind not in PLATFORMS or not _is_url(url):
        # A URL with credentials must not be repeated.
        told = spec if "@" not in spec else f"{kind}:**********"
        raise ConfigError(
            "sinks", told, f"'{kind}:<url>' with a URL without credentials or parameters"
        )
    key = keys.get(kind)
    return PLATFORMS[kind](url, None if key is None else key.get_secret_value())


def _phoenix(url: str, key: str | None) -> PlatformSink:
    from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink

    return PhoenixSink(url, api_key=key)


def _mlflow(url: str, key: str | None) -> PlatformSink:
    from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink

    return MlflowSink(url, token=key)


def _langfuse(url: str, key: str | None) -> PlatformSink:
    from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink

    public, colon, secret = (key or "").partition(":")
    if not (public and colon and secret):
        raise ConfigError(
            "sink_keys", "**********", "langfuse=<public key>:<secret key> for the Langfuse sink"
        )
    return LangfuseSink(url, public_key=public, secret_key=secret)


PLATFORMS: Final[Mapping[str, Callable[[str, str | None], PlatformSink]]] = {
    "phoenix": _phoenix,
    "mlflow": _mlflow,
    "langfuse": _langfuse,
}


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.username is None
            and not parts.query
        ) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
