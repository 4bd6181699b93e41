"""Where settings come from: environment and file. The only module that reads them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks.errors import ConfigError

__all__ = ["merged"]

_PREFIX = "RAG_EVAL_"
_FILE_VARIABLE = "RAG_EVAL_CONFIG_FILE"
_MAPPINGS = (
    "judge_headers",
    "judge_query",
    "graphrag_weights",
    "whitepaper_weights",
    "thresholds",
    "sink_keys",
)
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_CONTENT_ON_SPANS = ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
_CONTENT_IN_EVENTS = ("EVENT_ONLY", "SPAN_AND_EVENT")


def merged(names: Iterable[str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name: shared variables < file < `RAG_EVAL_*` < explicit.

    Args:
        names: All settings that there are.
        explicit: Values that win over all others.

    Raises:
        ConfigError: A `RAG_EVAL_*` variable is unknown, or the file cannot be used.
    """
    variables = {_PREFIX + name.upper(): name for name in names}
    _refuse_unknown_variables({*variables, _FILE_VARIABLE})
    environment = {
        name: _pairs(name, os.environ[variable])
        for variable, name in variables.items()
        if variable in os.environ
    }
    own = {**_file_values(), **environment, **explicit}
    return {**_shared_variables(own), **own}


def _refuse_unknown_variables(known: set[str]) -> None:
    for name in os.environ:
        if name.startswith(_PREFIX) and name not in known:
            raise ConfigError.unknown(name, "an unknown variable", known)


def _pairs(name: str, value: str) -> Any:
    """`a=1,b=2` as a mapping, for the settings that are mappings."""
    if name not in _MAPPINGS:
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(key.strip() and equals for key, equals, _ in pairs):
        raise ConfigError(name, "**********", "name=value pairs, separated by commas")
    return {key.strip(): text.strip() for key, _, text in pairs}


def _shared_variables(own: Mapping[str, Any]) -> dict[str, Any]:
    """What variables of other software say, as far as it fits our own settings."""
    values: dict[str, Any] = {}
    # A key goes to the endpoint that it was set for, and to no other one.
    if own.get("judge_base_url") in (None, os.environ.get("OPENAI_BASE_URL")):
        if os.environ.get("OPENAI_BASE_URL"):
            values["judge_base_url"] = os.environ["OPENAI_BASE_URL"]
        if os.environ.get("OPENAI_API_KEY"):
            values["judge_api_key"] = os.environ["OPENAI_API_KEY"]
    content = os.environ.get(_CONTENT_VARIABLE, "").strip().upper()
    if content in _CONTENT_ON_SPANS:
        values["capture_content"] = True
    if content in _CONTENT_IN_EVENTS:
        values["capture_event_content"] = True
    return values


def _file_values() -> dict[str, Any]:
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return _read(Path(named))
    for path in (Path("rag_eval_hooks.toml"), Path("pyproject.toml")):
        if path.is_file() and (values := _read(path)):
            return values
    return {}


def _read(path: Path) -> dict[str, Any]:
    """The settings in a file: its top level, or the tool table where it is a pyproject.toml."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError("config_file", str(path), f"a readable TOML file ({error})") from None
    if path.name != "pyproject.toml":
        return document
    table = document.get("tool", {}).get("rag_eval_hooks", {})
    if not isinstance(table, dict):
        raise ConfigError("tool.rag_eval_hooks", table, "a table")
    return table
