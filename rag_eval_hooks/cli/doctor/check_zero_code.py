"""Check what `opentelemetry-instrument` would do with an application of this environment."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final
from urllib.parse import urlsplit

from rag_eval_hooks.cli.doctor.result import CheckResult, CheckStatus, Setup
from rag_eval_hooks.config.sources import otel_variables

__all__ = ["check_zero_code"]

_US: Final = "rag_eval_hooks"
_EXTRA: Final = 'pip install "rag-eval-hooks[instrument]"'
_FRAMEWORKS: Final = ("langchain_core", "llama_index.core")
_PROTOCOLS: Final[Mapping[str, tuple[str, int]]] = {
    "grpc": ("otlp_proto_grpc", 4317),
    "http/protobuf": ("otlp_proto_http", 4318),
}
"""By protocol: the entry point of its exporters, and the port where receivers take it."""


def check_zero_code(_setup: Setup) -> Iterator[CheckResult]:
    """Report what would keep spans or scores from being written; a note without the distro."""
    if not _names("opentelemetry_distro"):
        yield CheckResult(CheckStatus.NOTE, "the distro is not installed", f"to use it: {_EXTRA}")
        return
    problems = [*_problems(otel_variables())]
    yield from problems
    if not problems:
        yield CheckResult(CheckStatus.OK, "opentelemetry-instrument captures and exports")


def _problems(variables: Mapping[str, str]) -> Iterator[CheckResult]:
    distros = _names("opentelemetry_distro")
    if len(distros) > 1 and "OTEL_PYTHON_DISTRO" not in variables:
        text = f"several distros are installed ({', '.join(sorted(distros))}): any of them is taken"
        yield CheckResult(CheckStatus.WARNING, text, "set OTEL_PYTHON_DISTRO to the one you want")
    if _US not in _names("opentelemetry_instrumentor"):
        text = "the entry point of rag-eval-hooks is missing: nothing would be captured"
        yield CheckResult(CheckStatus.FAILED, text, "install the package again, by pip")
    disabled = variables.get("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "")
    if {_US, "*"} & {name.strip() for name in disabled.split(",")}:
        text = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS turns it off"
        yield CheckResult(CheckStatus.FAILED, text, f"take {_US} out of it")
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        text = "OTEL_SDK_DISABLED: no span is made, and no score is on one"
        yield CheckResult(CheckStatus.FAILED, text, "unset OTEL_SDK_DISABLED")
    if not any(map(_is_importable, _FRAMEWORKS)):
        text = "neither LangChain nor LlamaIndex is installed: nothing would be captured"
        advice = 'pip install "rag-eval-hooks[langchain,instrument]", or [llama-index,instrument]'
        yield CheckResult(CheckStatus.FAILED, text, advice)
    for signal in ("traces", "metrics", "logs"):
        yield from _exporters(signal, variables)


def _exporters(signal: str, variables: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check the exporters of a signal; a missing one ends the set-up of all signals."""
    upper = signal.upper()
    names = variables.get(f"OTEL_{upper}_EXPORTER", "otlp")
    chosen = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    if signal == "traces" and not chosen:
        text = "OTEL_TRACES_EXPORTER is none: no span leaves the process"
        yield CheckResult(CheckStatus.WARNING, text, "unset it")
    specific, general = f"OTEL_EXPORTER_OTLP_{upper}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"
    protocol = (variables.get(specific) or variables.get(general) or "grpc").strip()
    if "otlp" in chosen and protocol not in _PROTOCOLS:
        text = f"no exporter sends {signal} by the protocol {protocol!r}: nothing is exported"
        wanted = " or ".join(_PROTOCOLS)
        yield CheckResult(CheckStatus.FAILED, text, f"set {general} to {wanted}")
        return
    for name in chosen:
        entry = _PROTOCOLS[protocol][0] if name == "otlp" else name
        if entry not in _names(f"opentelemetry_{signal}_exporter"):
            text = f"the exporter {entry} of {signal} is missing: nothing is exported"
            advice = _EXTRA if name == "otlp" else f"install it, or set OTEL_{upper}_EXPORTER"
            yield CheckResult(CheckStatus.FAILED, text, advice)
    if "otlp" in chosen:
        yield from _port(signal, protocol, variables)


def _port(signal: str, protocol: str, variables: Mapping[str, str]) -> Iterator[CheckResult]:
    name = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
    address = variables.get(name) or variables.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""
    for other, (_, port) in _PROTOCOLS.items():
        if other != protocol and _port_of(address) == port:
            text = f"{signal} go to port {port} by {protocol}; receivers take {other} there"
            advice = f"set OTEL_EXPORTER_OTLP_PROTOCOL={other}"
            yield CheckResult(CheckStatus.WARNING, text, advice)


def _port_of(address: str) -> int | None:
    try:
        return urlsplit(address).port
    except ValueError:
        return None


def _names(group: str) -> set[str]:
    return {entry.name for entry in metadata.entry_points(group=group)}


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
