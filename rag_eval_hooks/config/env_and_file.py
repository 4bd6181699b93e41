"""Settings from environment and file. No other module reads either."""

from __future__ import annotations

import logging
import os
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from rag_eval_hooks.config.removed import unknown_setting
from rag_eval_hooks.errors import ConfigError

__all__ = [
    "Origins",
    "may_be_file",
    "merged",
    "model_environment",
    "otel_variables",
    "otlp_endpoint",
    "traces_at",
]

Origins: TypeAlias = dict[str, str]
"""Origin of each setting that is not at its default, in words."""

_logger = logging.getLogger("rag_eval_hooks")

_PREFIX = "RAG_EVAL_"
_FILE_VARIABLE = "RAG_EVAL_CONFIG_FILE"
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# Tracers add a `sitecustomize` that instruments every process by PYTHONPATH; the path of imports is
# passed to the child separately.
_NOT_PASSED = ("OTEL_", _PREFIX, "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT")
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
_ENDPOINT_VARIABLES = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "azure": ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
    "ollama": ("", ""),
}
"""Variables of endpoint and key that other software reads too, by the judge's provider."""
_CONTENT_ON_SPANS = ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
_CONTENT_IN_EVENTS = ("EVENT_ONLY", "SPAN_AND_EVENT")


def merged(
    names: Collection[str],
    explicit: Mapping[str, Any],
    ungrouped: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> tuple[dict[str, Any], Origins]:
    """Return values by name, and their origins: shared variables < file < `RAG_EVAL_*` < explicit.

    Args:
        names: All settings that exist.
        explicit: Values that win over all others.
        ungrouped: Replaces the groups among the values of a file by the settings in them.

    Raises:
        ConfigError: The file cannot be used.
    """
    variables = {_PREFIX + name.upper(): name for name in names}
    _check_variables(variables)
    path = _file_path()
    from_file = {} if path is None else ungrouped(_read(path))
    environment = {
        name: os.environ[variable] for variable, name in variables.items() if variable in os.environ
    }
    own = {**from_file, **environment, **explicit}
    shared = _shared_variables(own)
    origins = (
        {name: f"variable {variable}" for name, (variable, _) in shared.items()}
        | dict.fromkeys(from_file, f"file {path}")
        | {name: f"variable {_PREFIX}{name.upper()}" for name in environment}
        | dict.fromkeys(explicit, "argument")
    )
    return {**{name: value for name, (_, value) in shared.items()}, **own}, origins


def traces_at(base: str) -> str:
    """Return the URL at which a receiver takes spans, from its base URL or from that URL itself."""
    return base.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"


def otlp_endpoint() -> str | None:
    """Return the URL to which OpenTelemetry's own variables send spans, as its SDK reads them.

    The variable for traces is taken as it is; the one for all signals is a base.
    """
    traces = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return traces or (f"{base.rstrip('/')}/v1/traces" if base else None)


def otel_variables() -> dict[str, str]:
    """Return the variables of OpenTelemetry."""
    return {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}


def _check_variables(known: Mapping[str, str]) -> None:
    """Warn of variables that are no settings: they may be the application's own."""
    for variable in os.environ:
        if variable.startswith(_PREFIX) and variable not in (*known, _FILE_VARIABLE):
            name = variable.removeprefix(_PREFIX).lower()
            _logger.warning("%s", unknown_setting(name, {*known.values(), "config_file"}, _PREFIX))


def _shared_variables(own: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return variable and value by setting, from variables that other software reads too.

    Args:
        own: The settings of our own, which decide whether a shared key may be used.
    """
    shared: dict[str, tuple[str, Any]] = {}
    provider = str(own.get("judge", "")).partition(":")[0]
    url, key = _ENDPOINT_VARIABLES.get(provider, _ENDPOINT_VARIABLES["openai"])
    # A key goes to the endpoint that it was set for, and to no other one.
    if url and own.get("judge_base_url") in (None, os.environ.get(url)):
        for name, variable in (("judge_base_url", url), ("judge_api_key", key)):
            if value := os.environ.get(variable):
                shared[name] = (variable, value)
    content = os.environ.get(_CONTENT_VARIABLE, "").strip().upper()
    if content in _CONTENT_ON_SPANS:
        shared["capture_content"] = (_CONTENT_VARIABLE, True)
    if content in _CONTENT_IN_EVENTS:
        shared["telemetry_details"] = (_CONTENT_VARIABLE, "event_quotes")
    return shared


def _file_path() -> Path | None:
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    usual = (Path("rag_eval_hooks.toml"), Path("pyproject.toml"))
    return next((path for path in usual if path.is_file() and _read(path)), None)


def _read(path: Path) -> dict[str, Any]:
    """Return the settings in a file: its top level, or the tool table of a pyproject.toml."""
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


def model_environment() -> dict[str, str]:
    """Return the environment of a model's process.

    It is this process's own, without variables that would make the child trace, export or run
    other code at its start, and with one thread for numerical libraries.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED)
    }
    bounds = dict.fromkeys(_THREAD_VARIABLES, "1")
    # oneDNN keeps code and memory for up to a thousand shapes of input, and texts have as many
    # lengths: the process would grow for hours. A value set by the user wins.
    shapes = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}
    fixed = {"TOKENIZERS_PARALLELISM": "false", "OTEL_SDK_DISABLED": "true"}
    return {**shapes, **inherited, **bounds, **fixed}


def may_be_file(path: Path) -> bool:
    """Return whether a file is at a path, or can be created there, in a folder that exists."""
    try:
        return not path.is_dir() and path.parent.is_dir()
    except OSError:
        return False
