"""Python, our own version, and the packages of the extras."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Final

from rag_eval_hooks._version import __version__
from rag_eval_hooks.cli.doctor.result import Result, Setup, Status
from rag_eval_hooks.config.settings import RagEvalConfig
from rag_eval_hooks.model_providers import EMBEDDERS, JUDGES, TOKEN_SCORERS

__all__ = ["check_extras", "check_python"]

# The package by which an extra is known to be there.
_EXTRAS: Final[Mapping[str, str]] = {
    "langchain": "langchain-core",
    "llama-index": "llama-index-core",
    **{
        row.extra: row.package
        for table in (JUDGES, EMBEDDERS, TOKEN_SCORERS)
        for row in table.rows
        if row.extra is not None and row.package is not None
    },
    "privacy": "phonenumbers",
    "otel": "opentelemetry-sdk",
}


def check_python(_setup: Setup) -> Iterator[Result]:
    """Versions of what always runs."""
    parts = {name: _version(name) for name in ("opentelemetry-api", "pydantic")}
    told = ", ".join(f"{name} {version}" for name, version in parts.items())
    text = f"rag-eval-hooks {__version__}, Python {platform.python_version()}, {told}"
    figures = {"rag-eval-hooks": __version__, "python": platform.python_version(), **parts}
    yield Result(check="versions", status=Status.OK, text=text, figures=figures)


def check_extras(setup: Setup) -> Iterator[Result]:
    """Which extras are installed, and which the settings need."""
    versions = {extra: _version(package) for extra, package in _EXTRAS.items()}
    needed = _needed(setup.config)
    for extra, version in versions.items():
        package = _EXTRAS[extra]
        if version is not None:
            text, status, advice = f"{package} {version}", Status.OK, ""
        elif extra in needed:
            text, status = f"{package} is missing; {needed[extra]} needs it", Status.FAILED
            advice = f'pip install "rag-eval-hooks[{extra}]"'
        else:
            text, status, advice = "not installed, not needed", Status.NOTE, ""
        yield Result(check=f"extra {extra}", status=status, text=text, advice=advice)


def _needed(config: RagEvalConfig) -> dict[str, str]:
    """The extras that the settings need, each with the setting that needs it."""
    needed: dict[str, str] = {}
    for table in (JUDGES, EMBEDDERS, TOKEN_SCORERS):
        value = getattr(config, table.setting)
        extra = table.find(value).extra
        if extra is not None:
            needed[extra] = f"{table.setting}={value}"
    if {"all", "phone"} & set(config.redact) or config.redact_patterns:
        needed["privacy"] = "redact"
    return needed


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
