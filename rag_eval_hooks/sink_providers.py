"""Table of the sinks that settings can name.

A new one is a module and a row here: settings, error texts, `doctor` and the choice at start-up
read this table. Classes are named by text, as nothing may be imported before it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from rag_eval_hooks.errors import ConfigError, masked, nearest

__all__ = ["SINKS", "SinkProvider", "keys_wanted", "sink_named", "sinks_wanted"]


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


def _langfuse_keys(key: str | None) -> dict[str, str]:
    public, _, secret = (key or "").partition(":")
    if not (public and secret):
        wants = "langfuse=<public key>:<secret key> for the Langfuse sink"
        raise ConfigError("sink_keys", key and "**********", wants)
    return {"public_key": public, "secret_key": secret}


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProvider:
    """One row: the sink that `<name>:<address>` names in the settings.

    Attributes:
        sink: `module:class` below `delivery`; the class may raise `ConfigError`, or `ImportError`
            for an extra that is not installed.
        arguments: Returns its arguments from an address and a key or None.
        address: Form of the address, such as `<url>`.
        wants: Form of the address, in words.
        check: Returns whether an address has that form.
        key: Form of its key in `sink_keys`; None for a sink that is no platform and takes none.
    """

    sink: str
    arguments: Callable[[str, str | None], Mapping[str, Any]]
    address: str = "<url>"
    wants: str = "a URL without credentials or parameters"
    check: Callable[[str], bool] = _is_url
    key: str | None = None

    def form(self, name: str) -> str:
        """Return the form of the setting, such as `phoenix:<url>`."""
        return f"{name}:{self.address}" if self.address else name


SINKS: Final[Mapping[str, SinkProvider]] = {
    "console": SinkProvider(
        sink="console:ConsoleSink",
        arguments=lambda _address, _key: {},
        address="",
        wants="nothing behind the name",
        check=lambda address: not address,
    ),
    "jsonl": SinkProvider(
        sink="jsonl:JsonlSink",
        arguments=lambda path, _key: {"path": path},
        address="<path>",
        wants="a file in a folder that exists",
        check=bool,
    ),
    "phoenix": SinkProvider(
        sink="platforms.phoenix:PhoenixSink",
        arguments=lambda url, key: {"url": url, "api_key": key},
        key="<key>",
    ),
    "mlflow": SinkProvider(
        sink="platforms.mlflow:MlflowSink",
        arguments=lambda url, key: {"url": url, "token": key},
        key="<token>",
    ),
    "langfuse": SinkProvider(
        sink="platforms.langfuse:LangfuseSink",
        arguments=lambda url, key: {"url": url, **_langfuse_keys(key)},
        key="<public key>:<secret key>",
    ),
}
"""Rows by the name of the sink."""


def sinks_wanted() -> str:
    """Return the forms that name a sink, for errors and docs."""
    forms = [f"'{row.form(name)}'" for name, row in SINKS.items()]
    return f"{', '.join(forms[:-1])} or {forms[-1]}"


def _hint(spec: str) -> str:
    name, colon, address = spec.partition(":")
    if (near := nearest(name, list(SINKS))) is not None and (colon or "." not in spec):
        return f"; did you mean '{near}{colon}{masked(address)}'?"
    if spec.endswith((".jsonl", ".json")):
        return f"; did you mean 'jsonl:{masked(spec)}'?"
    return "; did you mean 'console'?" if spec in ("stdout", "stderr", "print", "log") else ""


def keys_wanted() -> str:
    """Return the forms of the keys of platforms, for errors and docs."""
    return ", ".join(f"{name}={row.key}" for name, row in SINKS.items() if row.key is not None)


def sink_named(spec: str, key: str | None) -> Any:
    """Return the sink that a text such as `phoenix:http://localhost:6006` names.

    Args:
        spec: Name and address.
        key: Key of the platform, if it has one.

    Raises:
        ConfigError: There is no such name, the address is malformed, or the key does not fit.
        ImportError: The extra of the platform is not installed.
    """
    name, _, address = spec.partition(":")
    row = SINKS.get(name)
    if row is None:
        raise ConfigError("sinks", spec, sinks_wanted() + _hint(spec))
    if not row.check(address):
        # A URL with credentials must not be repeated.
        shown = spec if "@" not in spec else f"{name}:**********"
        raise ConfigError("sinks", shown, f"'{row.form(name)}' with {row.wants}")
    module, _, name = row.sink.partition(":")
    sink = getattr(importlib.import_module(f"rag_eval_hooks.delivery.{module}"), name)
    return sink(**row.arguments(address, key))
