"""Readers of environment variables and the settings file."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import tomllib
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from typing_extensions import is_typeddict

from rag_eval_hooks.config.rules import Budgets, RuleSettings, TailSettings
from rag_eval_hooks.errors import ConfigError, nearest

_logger = logging.getLogger("rag_eval_hooks")
PREFIX: Final = "RAG_EVAL_"
_OTHER_PREFIX: Final = re.compile(r"RAG_?EVALS?_(HOOKS?_)?(?<!RAG_EVAL_)")
_FILE_VARIABLE: Final = "RAG_EVAL_CONFIG_FILE"
_CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# Kubernetes sets such variables if a Service's name starts with `rag-eval`.
_OF_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT(_\d+_[A-Z]+(_[A-Z]+)?)?$")
# Tracers use a `sitecustomize` on PYTHONPATH to instrument every process.
_NOT_PASSED: Final = ("OTEL_", PREFIX, "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT")
_THREADED: Final = ("OMP", "MKL", "OPENBLAS", "VECLIB", "NUMEXPR", "RAYON")
_KEYS: Final[Mapping[str, Iterable[str]]] = {
    "rules": RuleSettings.model_fields,
    "tail": TailSettings.model_fields,
    "budget": Budgets.__annotations__,
}
_ENDPOINT_VARIABLES: Final = {
    "openai": ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "azure": ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
    "ollama": ("", ""),
    "openai-decisions": ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "systemone": ("TYPESAFE_BASE_URL", "TYPESAFE_API_KEY"),
}


def merged(
    settings: type[BaseModel],
    explicit: Mapping[str, Any],
    file: str | os.PathLike[str] | None = None,
) -> tuple[dict[str, Any], dict[str, str], set[str]]:
    """Return values, their origins, and the settings that variables of other software set."""
    _check_variables(settings)
    file = file or os.environ.get(_FILE_VARIABLE)
    from_file = _read(Path(file)) if file else {}
    for table, inner in from_file.items():
        # In TOML, all lines after a table's header belong to the table.
        if isinstance(inner, dict) and (names := settings.model_fields.keys() & inner.keys()):
            wants = f"above the table [{table}]"
            raise ConfigError(min(names), f"in the table [{table}]", wants, source=f"file {file}")
    variables = _variables(settings)
    own = {**from_file, **variables, **explicit}
    shared = _shared_variables(own)
    origins = (
        {name: f"variable {variable}" for name, (variable, _) in shared.items()}
        | dict.fromkeys(from_file, f"file {file}")
        | {name: f"variable {PREFIX}{name.upper()}" for name in variables}
        | dict.fromkeys(explicit, "argument")
    )
    values = {name: value for name, (_, value) in shared.items()}
    return values | own, origins, values.keys() - own.keys()


def _variables(settings: Any) -> dict[str, Any]:
    if not any(name.upper().startswith(PREFIX) for name in os.environ):
        return {}
    # A slow import, which only variables need.
    from pydantic_settings import EnvSettingsSource

    class Variables(EnvSettingsSource):
        def prepare_field_value(
            self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool
        ) -> Any:
            return None if value is None else from_text(field, value)

    return Variables(settings, env_prefix=PREFIX, env_ignore_empty=True)()


def _check_variables(settings: type[BaseModel]) -> None:
    known = {*settings.model_fields, "config_file"}
    for variable, text in os.environ.items():
        name = variable.upper().removeprefix(PREFIX)
        ours = name != variable.upper() and text and not _OF_KUBERNETES.search(variable)
        if ours and name.lower() not in known:
            raise unknown_setting(name.lower(), known, prefix=PREFIX)
        other = _OTHER_PREFIX.match(variable.upper())
        if other and (meant := variable.upper()[other.end() :]).lower() in known:
            told = "The variable %s has no effect. Did you mean %s%s?"
            _logger.warning(told, variable, PREFIX, meant)


def from_text(field: FieldInfo, text: str) -> object:
    """Parse a setting's text: comma-separated items, `name=value` pairs, or JSON for tables."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if _is_mapping(field):
        pairs = [part.partition("=") for part in parts]
        if all(name.strip() and equals for name, equals, _ in pairs):
            return {name.strip(): value.strip() for name, _, value in pairs}
    elif field.annotation in (tuple[RuleSettings, ...], tuple[TailSettings, ...]):
        with contextlib.suppress(ValueError):
            return json.loads(text)
    elif typing.get_origin(field.annotation) is tuple:
        return parts
    return text


def given_texts(settings: type[BaseModel], texts: Mapping[str, str]) -> dict[str, Any]:
    fields = settings.model_fields
    return {
        name: from_text(fields[name], text) if name in fields else text
        for name, text in texts.items()
    }


def unknown_setting(
    name: str, known: Iterable[str], *, prefix: str = "", source: str = ""
) -> ConfigError:
    near = nearest(name, sorted(known))
    shown = f"{prefix}{name.upper()}" if prefix else name
    meant = f"{prefix}{near.upper()}" if prefix and near else near
    advice = f"Did you mean {meant}? " if meant else ""
    place = f" ({source})" if source not in ("", "argument") else ""
    told = f"{shown} is not a setting{place}. {advice}See docs/configuration.md."
    return ConfigError(shown, "an unknown setting", "a setting", told=told)


def config_error(
    settings: type[BaseModel],
    error: ValidationError,
    values: Mapping[str, Any],
    origins: Mapping[str, str],
) -> ConfigError:
    # A misspelled key also causes an error about a missing key, so report the misspelled key.
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda one: one["type"] != "extra_forbidden")
    name, inner = str(first["loc"][0]), first["loc"][1:]
    source = origins[name]
    if name not in settings.model_fields:
        return unknown_setting(name, settings.model_fields, source=source)
    field, value, path = settings.model_fields[name], values[name], name
    if inner and name in _KEYS:
        *table, key = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in inner[:2]]
        path, value = "".join([name, *table, key]), first["input"]
        if first["type"] == "extra_forbidden":
            known = ["".join([name, *table, f".{key}"]) for key in _KEYS[name]]
            return unknown_setting(path, known, source=source)
    where = first["loc"][: 3 if path != name else 1]
    alternatives = [_expected(one) for one in errors if one["loc"][: len(where)] == where]
    expected = " or ".join(dict.fromkeys(alternatives))
    if isinstance(values[name], str) and _is_mapping(field):
        expected += ". In a string, separate name=value pairs with commas"
    shown = "**********" if _is_secret(name, field, value) else value
    return ConfigError(path, shown, expected, source=source)


def _expected(error: ErrorDetails) -> str:
    if (raised := error.get("ctx", {}).get("error")) is not None:
        return getattr(raised, "wants", None) or str(raised)
    return error["msg"].partition(" should be ")[2] or f"valid: {error['msg']}"


def _is_mapping(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) is dict or is_typeddict(field.annotation)


def _is_secret(name: str, field: FieldInfo, value: object) -> bool:
    # A URL with a user, query or fragment may contain a secret.
    is_plain = isinstance(value, str) and not set("@?;=&#").intersection(value)
    return SecretStr.__name__ in repr(field.annotation) or (name.endswith("_url") and not is_plain)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        wants = f"a readable TOML file. The error is: {error}"
        raise ConfigError("config_file", str(path), wants) from None


def is_one_provider(judge: str, other: str) -> bool:
    return _endpoint_variables(judge) == _endpoint_variables(other)


def endpoint_of(judge: str) -> dict[str, tuple[str, str]]:
    names = ("judge_base_url", "judge_api_key")
    found = zip(names, _endpoint_variables(judge), strict=True)
    return {name: (at, value) for name, at in found if (value := os.environ.get(at))}


def _endpoint_variables(judge: str) -> tuple[str, str]:
    provider, _, model = judge.partition(":")
    if "://" in model:
        return "", ""
    return _ENDPOINT_VARIABLES.get(provider, _ENDPOINT_VARIABLES["openai"])


def _shared_variables(own: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    judge = str(own.get("judge", ""))
    url, _ = _endpoint_variables(judge)
    shared: dict[str, tuple[str, Any]] = {}
    # Never send a provider's key to another provider's endpoint.
    if url and own.get("judge_base_url") in (None, os.environ.get(url)):
        shared |= endpoint_of(judge)
    content = os.environ.get(_CONTENT_VARIABLE, "").strip().upper()
    if content in ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE"):
        shared["capture_content"] = (_CONTENT_VARIABLE, True)
    if content in ("EVENT_ONLY", "SPAN_AND_EVENT"):
        shared["capture_event_content"] = (_CONTENT_VARIABLE, True)
    return shared


def traces_at(base: str) -> str:
    return base.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"


def otlp_endpoint() -> str | None:
    traces = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    return traces or (f"{base.rstrip('/')}/v1/traces" if base else None)


def model_environment() -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED)
    }
    bounds = {f"{library}_NUM_THREADS": "1" for library in _THREADED}
    # oneDNN caches memory for a thousand input shapes, so the process would grow for hours. The
    # user's value takes precedence.
    shapes = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "0"}
    fixed = {"TOKENIZERS_PARALLELISM": "false", "OTEL_SDK_DISABLED": "true"}
    return {**shapes, **inherited, **bounds, **fixed}


def may_be_file(path: Path) -> bool:
    try:
        return not path.is_dir() and path.parent.is_dir()
    except OSError:
        return False
