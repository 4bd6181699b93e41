"""Where settings come from: environment and file. The only module that reads them."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rag_eval_hooks.errors import ConfigError

__all__ = ["evaluator_environment", "merged", "origins", "otlp_endpoint", "parsed", "traces_at"]

_PREFIX = "RAG_EVAL_"
_FILE_VARIABLE = "RAG_EVAL_CONFIG_FILE"
_MAPPINGS = (
    "judge_headers",
    "judge_query",
    "graphrag_weights",
    "whitepaper_weights",
    "thresholds",
    "metric_rates",
    "rate_limit",
    "budget",
    "redact_patterns",
    "sink_keys",
)
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# PYTHONPATH is where tracers put a `sitecustomize` that instruments every process; what it adds to
# the path of imports is told to the child by itself.
_NOT_PASSED = ("OTEL_", _PREFIX, "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT")
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
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
    own = _own(names, explicit)
    return {**_shared_variables(own), **own}


def _own(names: Iterable[str], explicit: Mapping[str, Any]) -> dict[str, Any]:
    variables = {_PREFIX + name.upper(): name for name in names}
    _refuse_unknown_variables({*variables, _FILE_VARIABLE})
    environment = {
        name: parsed(name, os.environ[variable])
        for variable, name in variables.items()
        if variable in os.environ
    }
    return {**_file_values(), **environment, **explicit}


def origins(names: Iterable[str], explicit: Mapping[str, Any]) -> dict[str, str]:
    """Where each value of `merged` is from, in words; a setting at its default is left out."""
    found = dict.fromkeys(_file_values(), f"file {_file_path()}")
    for name in names:
        if (variable := _PREFIX + name.upper()) in os.environ:
            found[name] = f"variable {variable}"
    found |= dict.fromkeys(explicit, "argument")
    shared = {
        "judge_base_url": "OPENAI_BASE_URL",
        "judge_api_key": "OPENAI_API_KEY",
        "capture_content": _CONTENT_VARIABLE,
    }
    taken = _shared_variables(_own(names, explicit))
    return {name: f"variable {shared[name]}" for name in taken} | found


def traces_at(base: str) -> str:
    """The URL at which a receiver takes spans, by its base URL, or by itself."""
    return base.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"


def otlp_endpoint() -> str | None:
    """The URL to which OpenTelemetry's own variables send spans, as its SDK reads them.

    The variable for traces is taken as it is; the one for all signals is a base.
    """
    traces = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return traces or (f"{base.rstrip('/')}/v1/traces" if base else None)


def _refuse_unknown_variables(known: set[str]) -> None:
    for name in os.environ:
        if name.startswith(_PREFIX) and name not in known:
            raise ConfigError.unknown(name, "an unknown variable", known)


def parsed(name: str, value: str) -> Any:
    """A setting's text: `a=1,b=2` as a mapping, for the settings that are mappings.

    Raises:
        ConfigError: It has another form.
    """
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
    path = _file_path()
    return {} if path is None else _read(path)


def _file_path() -> Path | None:
    named = os.environ.get(_FILE_VARIABLE)
    if named:
        return Path(named)
    usual = (Path("rag_eval_hooks.toml"), Path("pyproject.toml"))
    return next((path for path in usual if path.is_file() and _read(path)), None)


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


def evaluator_environment(threads: int) -> dict[str, str]:
    """The environment of the evaluator process.

    It is this process's own, without what would make the child trace, export or run other code at
    its start, and with bounded threads.

    Args:
        threads: Threads of numerical libraries.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED)}
    bounds = dict.fromkeys(_THREAD_VARIABLES, str(threads))
    # oneDNN keeps code and memory for up to a thousand shapes of input, and texts have as many
    # lengths: the process would grow for hours. Who sets it otherwise has it so.
    shapes = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}
    fixed = {"TOKENIZERS_PARALLELISM": "false", "OTEL_SDK_DISABLED": "true"}
    return {**shapes, **kept, **bounds, **fixed}
