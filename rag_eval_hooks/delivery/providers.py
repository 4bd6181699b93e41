"""Table of the sinks that settings can name, and the sinks that a user's choice means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from pydantic import SecretStr

from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.delivery.delivery import AnySink
from rag_eval_hooks.delivery.jsonl import JsonlSink
from rag_eval_hooks.delivery.platforms.platform import PlatformSink
from rag_eval_hooks.delivery.sink import CallableSink, FeedbackSink, Sink, SinkFunction
from rag_eval_hooks.errors import ConfigError

__all__ = ["PROVIDERS", "SinkProvider", "SinkSpec", "is_platform", "sink_list"]

SinkSpec: TypeAlias = AnySink | SinkFunction | str
_Keys: TypeAlias = Mapping[str, SecretStr]


@dataclass(frozen=True, slots=True)
class SinkProvider:
    """Row of the table: a sink that a text `<name>:<address>` names.

    Attributes:
        address: Form of the address, such as `<url>`.
        make: Makes the sink from address and key; may raise `ConfigError` or `ImportError`.
        wants: What the address must be, for errors.
        check: Returns whether an address has that form.
        extra: Extra of the package that installs its client, or None.
        key: Form of its key in `sink_keys`, or None if it takes none.
    """

    address: str
    make: Callable[[str, str | None], AnySink]
    wants: str
    check: Callable[[str], bool] = bool
    extra: str | None = None
    key: str | None = None


def is_platform(spec: object) -> bool:
    """Return whether a text names a platform, rightly or wrongly: `phoenix:<url>`."""
    provider = PROVIDERS.get(spec.partition(":")[0]) if isinstance(spec, str) else None
    return provider is not None and provider.extra is not None


def sink_list(sinks: Iterable[SinkSpec] | SinkSpec | None, config: RagEvalConfig) -> list[AnySink]:
    """Return the sinks of one evaluator.

    Args:
        sinks: Sinks, one or several, that were given in code; None for those of the settings.
        config: Names of sinks, each `<name>:<address>`, and keys of platforms.

    Raises:
        ConfigError: A sink or key is none that can be used.
        ImportError: The extra of a platform is not installed.
    """
    keys: _Keys = {str(name): key for name, key in config.sink_keys.items()}
    for name in keys:
        if name not in PROVIDERS or PROVIDERS[name].key is None:
            known = [name for name, provider in PROVIDERS.items() if provider.key is not None]
            raise ConfigError.unknown("sink_keys", name, known)
    if sinks is None:
        sinks = config.sinks
    if isinstance(sinks, str | Sink) or callable(sinks) or not isinstance(sinks, Iterable):
        sinks = [sinks]
    made = [_sink(spec, keys) for spec in sinks]
    for sink in made:
        if isinstance(sink, PlatformSink):
            sink.claim()
    return made


def _sink(spec: SinkSpec, keys: _Keys) -> AnySink:
    if isinstance(spec, str):
        return _named(spec, keys)
    if isinstance(spec, type):
        raise ConfigError("sinks", spec, f"an object, such as {spec.__name__}()")
    if isinstance(spec, Sink | FeedbackSink | PlatformSink):
        return spec
    if callable(spec):
        return CallableSink(spec)
    raise ConfigError("sinks", spec, _wants())


def _named(spec: str, keys: _Keys) -> AnySink:
    name, _, address = spec.partition(":")
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ConfigError("sinks", spec, _wants())
    if not provider.check(address):
        # A URL with credentials must not be repeated.
        shown = spec if "@" not in spec else f"{name}:**********"
        raise ConfigError("sinks", shown, f"'{name}:{provider.address}' with {provider.wants}")
    key = keys.get(name)
    return provider.make(address, None if key is None else key.get_secret_value())


def _wants() -> str:
    named = ", ".join(f"'{name}:{row.address}'" for name, row in PROVIDERS.items())
    return f"a Sink, a callable (evaluation) or (sample, outcomes), or {named}"


def _jsonl(path: str, key: str | None) -> AnySink:
    return JsonlSink(path)


def _phoenix(url: str, key: str | None) -> AnySink:
    from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink

    return PhoenixSink(url, api_key=key)


def _mlflow(url: str, key: str | None) -> AnySink:
    from rag_eval_hooks.delivery.platforms.mlflow import MlflowSink

    return MlflowSink(url, token=key)


def _langfuse(url: str, key: str | None) -> AnySink:
    from rag_eval_hooks.delivery.platforms.langfuse import LangfuseSink

    public, _, secret = (key or "").partition(":")
    if not (public and secret):
        raise ConfigError(
            "sink_keys", "**********", "langfuse=<public key>:<secret key> for the Langfuse sink"
        )
    return LangfuseSink(url, public_key=public, secret_key=secret)


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


_URL: Final = "a URL without credentials or parameters"

PROVIDERS: Final[Mapping[str, SinkProvider]] = {
    "jsonl": SinkProvider("<path>", _jsonl, "a file in a folder that exists"),
    "phoenix": SinkProvider("<url>", _phoenix, _URL, _is_url, "phoenix", "<key>"),
    "mlflow": SinkProvider("<url>", _mlflow, _URL, _is_url, "mlflow", "<token>"),
    "langfuse": SinkProvider(
        "<url>", _langfuse, _URL, _is_url, "langfuse", "<public key>:<secret key>"
    ),
}
"""Sinks by the name that settings give them."""
